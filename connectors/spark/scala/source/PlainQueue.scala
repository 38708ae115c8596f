package org.apache.spark.sql.cecstore.source

import org.apache.spark.sql.cecstore.columns.{FrameColumns, Part, RecordFields}
import org.apache.spark.sql.cecstore.format.{BadFrame, WholeSegment}
import org.apache.spark.sql.cecstore.queue.{NotAQueue, Segment, Store}

/** What a commit of version 1 says. docs/format.md §11. */
private[cecstore] final case class StagedPiece(partition: Int, segment: Long, records: Long)
private[cecstore] final case class StagedCommit(query: String, batch: Long, staged: IndexedSeq[StagedPiece],
  ends: IndexedSeq[Long]) {
  /** Where the partitions ended before it. */
  def starts: IndexedSeq[Long] = {
    val added = staged.groupMapReduce(_.partition)(_.records)(_ + _)
    ends.zipWithIndex.map { case (end, n) => end - added.getOrElse(n, 0L) }
  }
}

/**
 * A queue that is a log itself, which is its own partition 0, or one of many partitions of version 1. docs/format.md §1, §11.
 *
 * @param commits of the latter
 */
private[cecstore] final class PlainQueue(override val path: String, override val store: Store,
  commits: Option[PlainLog])
    extends ReadableQueue {
  private var logs = Map(0 -> new PlainLog(store, folderOf(0), 0))
  private var shown: IndexedSeq[Long] = IndexedSeq.empty
  override val schemaMessage: Array[Byte] = logs(0).schemaMessage
  override val fields: RecordFields = try RecordFields.decode(schemaMessage) catch {
    case e: BadFrame => throw WholeSegment.damaged(s"${store.url}/${folderOf(0)}", 128, e.reason)
  }
  look()

  private def folderOf(number: Int): String = if (commits.isEmpty) "" else f"partition-$number%05d/"

  override def again(): ReadableQueue = ReadableQueue.open(path)

  override def refresh(): Unit = {
    commits.foreach(_.refresh())
    logs.values.foreach(_.refresh())
    look()
  }

  private def look(): Unit = shown = commits.fold(IndexedSeq(logs(0).end))(endsByCommits)

  /** Where the newest commit ends that all partitions show. */
  private def endsByCommits(log: PlainLog): IndexedSeq[Long] = {
    val newest = newestCommits(log)
    val known = newest.headOption.getOrElse(StagedCommit("", -1, IndexedSeq.empty, IndexedSeq(0L)))
    newest.find(commit => isReached(commit.ends)) match {
      case Some(commit) if commit eq known =>
        refuseMore(log, known.ends)
        known.ends
      case found =>
        requireStaged(known)
        val ends = found.map(_.ends).getOrElse(newest.lastOption.fold(known.ends)(_.starts))
        // The committer makes a partition along with the commit that adds it.
        val there = ends.reverse.dropWhile(_ == 0).reverse
        newest.filter(_ ne known).takeWhile(commit => !found.exists(_ eq commit)).foreach(commit =>
          require(commit.ends))
        if (there.isEmpty) ends.take(1) else there
    }
  }

  /** The last of them, the newest first: a commit is made once all before it are in the partitions. */
  private def newestCommits(log: PlainLog): IndexedSeq[StagedCommit] = {
    val from = math.max(log.first, log.end - PlainQueue.CommitsMax)
    val fields = RecordFields.decode(log.schemaMessage)
    val columns = new FrameColumns(fields.fields)
    try log.segments.filter(_.endOffset > from).flatMap { segment =>
      val frames = new SegmentFrames(store, segment)
      Iterator.continually(frames.next((header, first) => first + header.recordCount > from)).takeWhile(identity)
        .flatMap(_ => frames.guarded(decoded(frames, fields, columns))).toIndexedSeq
    }.reverse finally columns.close()
  }

  private def decoded(frames: SegmentFrames, fields: RecordFields, columns: FrameColumns): IndexedSeq[StagedCommit] = {
    columns.open(frames.header, frames.bytes, frames.bodyAt)
    def column(name: String) = {
      val place = fields.place(name).getOrElse(throw new BadFrame(s"a commit without $name"))
      columns.column(Part.whole(fields.fields(place), place))
    }
    val (query, batch, staged, ends) = (column("query"), column("batch"), column("staged"), column("ends"))
    (0 until frames.header.recordCount).map { row =>
      val pieces = staged.getArray(row)
      if (query.isNullAt(row) || pieces == null || ends.isNullAt(row)) throw new BadFrame("a commit with nulls")
      val found = (0 until pieces.numElements).map { n =>
        val piece = pieces.getStruct(n, 4)
        StagedPiece(piece.getInt(0), piece.getLong(1), piece.getLong(3))
      }
      val commit = StagedCommit(query.getUTF8String(row).toString, batch.getLong(row), found,
        ends.getArray(row).toLongArray.toIndexedSeq)
      if (commit.ends.isEmpty || commit.ends.min < 0 || found.exists(p => p.partition < 0 ||
        p.partition >= commit.ends.size)) {
        throw new BadFrame("a commit of partitions that it does not count")
      }
      commit
    }
  }

  /** A partition, if it is there yet. */
  private def logOf(number: Int): Option[PlainLog] = logs.get(number).orElse {
    val made = try Some(new PlainLog(store, folderOf(number), number)) catch { case _: NotAQueue => None }
    made.foreach(log => logs = logs.updated(number, log))
    made
  }

  private def isReached(ends: IndexedSeq[Long]): Boolean =
    ends.indices.forall(n => ends(n) == 0 && logOf(n).isEmpty || logOf(n).exists(_.end >= ends(n)))

  /** All partitions must hold that much, though after a power cut they may not show it. */
  private def require(ends: IndexedSeq[Long]): Unit = ends.indices.foreach { n =>
    val written = logOf(n).fold(0L)(_.written)
    if (written < ends(n)) throw WholeSegment.damaged(s"${store.url}/${folderOf(n)}", 0,
      s"it ends with record $written, of ${ends(n)} that are committed")
  }

  /** What a commit adds must be in its partitions, or still be staged for whoever commits next. */
  private def requireStaged(commit: StagedCommit): Unit = {
    // Listed first: what has gone from there is in the partitions, which are looked at after.
    val names = store.list(s"staged/${commit.query}-${commit.batch}").map(_.name).toSet
    logs.values.foreach(_.refresh())
    require(commit.starts)
    val lost = commit.staged.filterNot(piece => names(KnownEnd.segmentName(piece.segment))).map(_.partition).toSet
    require(commit.ends.zipWithIndex.map { case (end, n) => if (lost(n)) end else 0L })
  }

  /** Only committers append to the parts of a queue. */
  private def refuseMore(log: PlainLog, ends: IndexedSeq[Long]): Unit =
    logs.find { case (n, each) => each.end > ends.lift(n).getOrElse(0L) }.foreach { case (n, each) =>
      val before = log.end
      log.refresh()
      if (log.end == before && log.written == log.end) throw WholeSegment.damaged(s"${store.url}/${folderOf(n)}", 0,
        s"it has ${each.end} records, and ${ends.lift(n).getOrElse(0L)} are committed")
    }

  override def id: String = ReadableQueue.hex(commits.getOrElse(logs(0)).logId)
  override def written: Map[Int, Long] = if (commits.isEmpty) Map(0 -> logs(0).written) else ends
  override def firsts: Map[Int, Long] = shown.indices.map(n => n -> logOf(n).fold(0L)(_.first)).toMap
  override def ends: Map[Int, Long] = shown.zipWithIndex.map { case (end, n) => n -> end }.toMap
  override def segments(partition: Int): IndexedSeq[Segment] =
    logOf(partition).fold(IndexedSeq.empty[Segment])(_.segments)

  override def consumer(name: String, start: Map[Int, Long], failOnDataLoss: Boolean): Map[Int, Long] => Unit =
    throw new UnsupportedOperationException(s"${store.url}: consumer=$name: consumers of a queue that is not of " +
      s"version 2 " +
      "hold locks of its writer's machine: read it by format(\"cec_python\"), which makes one of version 1 go on as one " +
      "of version 2")
}

private[cecstore] object PlainQueue {
  /** Of those no more than the newest can be missing from a partition. */
  private val CommitsMax = 16

  def open(path: String, store: Store): PlainQueue =
    new PlainQueue(path, store, Option.when(KnownEnd.isThere(store, "commits/"))(new PlainLog(store, "commits/", 0)))
}
