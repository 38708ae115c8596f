package org.apache.spark.sql.cecstore.source

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.cecstore.columns.{FrameColumns, RecordFields}
import org.apache.spark.sql.cecstore.format.{BadFrame, DamagedLog, FrameHeader, SparkErrors}
import org.apache.spark.sql.cecstore.queue.{Behind, CommitSearch, Names, NotAQueue, QueueState, ReferenceLog, Segment}
import org.apache.spark.sql.cecstore.queue.{SeenCommit, Store}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.unsafe.Platform

/** A queue as it was when it was opened or last refreshed, on the driver. For one thread. */
private[cecstore] trait ReadableQueue {
  def store: Store
  /** Its path with the scheme: what tasks open it by. */
  def path: String
  /** 32 hex digits. */
  def id: String
  /** The body of a SCHEMA frame: the record schema. */
  def schemaMessage: Array[Byte]
  def fields: RecordFields
  /** Look again how far it reaches. */
  def refresh(): Unit
  /** For another query, maybe in another thread: the queue as it is now. */
  def again(): ReadableQueue
  /** Oldest offset that is left of each partition. */
  def firsts: Map[Int, Long]
  /** Next unread offset of each partition. */
  def ends: Map[Int, Long]
  /** The same, with whole records that a writer has yet to show again after a power cut. */
  def written: Map[Int, Long] = ends
  /**
   * Act under a consumer's name, and get what acknowledges its effects: everything below these offsets.
   *
   * @param start where one that is new begins, by partition
   * @param done offsets below which it needs nothing, whatever it has acknowledged
   */
  def consumer(name: String, start: Map[Int, Long], done: Map[Int, Long], failOnDataLoss: Boolean): Map[Int, Long] => Unit
  /** The segments of a partition, in order. */
  def segments(partition: Int): IndexedSeq[Segment]

  /** The frames of a segment, where they were read with the commit that holds them. */
  def inlineRows(segment: Segment): Option[Array[Byte]] = None

  /** The segments with a record in a range. */
  def segmentsOf(range: OffsetRange): IndexedSeq[Segment] =
    segments(range.partition).filter(s => s.firstOffset < range.stop && s.endOffset > range.start)

  /** The earliest record of a partition, of any kind, at or after a moment; none at the end. One request, or none. */
  def offsetAt(partition: Int, timestampUs: Long): Option[Long] = {
    val first = firsts(partition)
    def isWanted(header: FrameHeader, at: Long) =
      header.maxTimestampUs >= timestampUs && at + header.recordCount > first
    segments(partition).iterator.filter(s => s.greatestUs >= timestampUs && s.endOffset > first).map { segment =>
      val frames = new SegmentFrames(store, segment, known = inlineRows(segment))
      val columns = new FrameColumns(fields.fields)
      try {
        Iterator.continually(frames.next(isWanted)).takeWhile(identity).map { _ =>
          frames.guarded {
            columns.open(frames.header, frames.bytes, frames.bodyAt)
            val times = columns.numbers(RecordFields.TimestampPlace, 8)
            val from = math.max(0L, first - frames.firstOffset).toInt
            (from until frames.header.recordCount)
              .find(row => Platform.getLong(times.array, times.base + row * 8L) >= timestampUs)
              .map(frames.firstOffset + _)
          }
        }.collectFirst { case Some(offset) => offset }
      } finally columns.close()
    }.collectFirst { case Some(offset) => offset }
  }

  /** The commit with the last record before these offsets, mostly without a request; none in a queue without commits. */
  def behind(offsets: Map[Int, Long]): Option[Behind] = None
  /** The newest commit, by which tasks know the queue again; none in a queue without commits. */
  def seen: Option[SeenCommit] = None
  /** Whether this commit is in the queue. One request. */
  def has(behind: Behind): Boolean = false

  /** As far as an end of a range says; raises or gives way as `failOnDataLoss` says. */
  def available(failOnDataLoss: Boolean, hasBehind: Behind => Boolean = has): AvailableOffsets =
    new AvailableOffsets(store.url, id, firsts, ends, written, hasBehind, offsetAt, failOnDataLoss)
}

private[cecstore] object ReadableQueue {
  /** The queue at a path; raises NotAQueue where there is none, and AnalysisException where there is nothing. */
  def open(path: String): ReadableQueue = {
    val (qualified, store) = placeOf(path)
    try open(qualified, store) catch {
      case e: NotAQueue if !isThere(qualified) => throw SparkErrors.noPath(qualified, e)
    }
  }

  private def isThere(path: String): Boolean = {
    val named = new Path(path)
    named.getFileSystem(SparkSession.active.sessionState.newHadoopConf()).exists(named)
  }

  /** The same; none where there is nothing at all. */
  def openIfMade(path: String): Option[ReadableQueue] = {
    val (qualified, store) = placeOf(path)
    try Some(open(qualified, store)) catch { case _: NotAQueue if store.list("").isEmpty => None }
  }

  /** Of a SCHEMA frame's body, which stands in a file at this byte. Raises CecLogException. */
  private[source] def fieldsOf(message: Array[Byte], file: String, byte: Long): RecordFields =
    try RecordFields.decode(message) catch { case e: BadFrame => throw DamagedLog(file, byte, e) }

  def hex(id: IndexedSeq[Byte]): String = id.map(byte => f"${byte & 0xff}%02x").mkString

  private def placeOf(path: String): (String, Store) = {
    val configuration = SparkSession.active.sessionState.newHadoopConf()
    val qualified = Store.qualified(new Path(path), configuration)
    // Who only reads needs no store that keeps writers apart.
    (qualified.toString, Store.at(qualified, configuration, reading = true))
  }

  private def open(path: String, store: Store): ReadableQueue = try ReferenceView.open(path, store) catch {
    // One that is a log itself has no folder of that name.
    case e: NotAQueue => try new PlainQueue(path, store) catch { case _: NotAQueue => throw e }
  }
}

/** The queue of a table, which any number of queries read: what one has learnt of it, the next need not ask again. */
private[cecstore] final class KeptQueue {
  private var known: Option[(String, ReadableQueue)] = None

  /** For one query. Raises NotAQueue where there is none. */
  def at(path: String): ReadableQueue = synchronized(kept(path, again(path).getOrElse(ReadableQueue.open(path))))

  /** The same; none where there is nothing at all. */
  def ifMade(path: String): Option[ReadableQueue] =
    synchronized(again(path).orElse(ReadableQueue.openIfMade(path)).map(kept(path, _)))

  private def again(path: String): Option[ReadableQueue] = known.collect { case (`path`, before) => before.again() }

  private def kept(path: String, queue: ReadableQueue): ReadableQueue = {
    known = Some((path, queue))
    queue
  }
}

/** A partitioned queue. docs/format.md §11. */
private[cecstore] final class ReferenceView private (override val path: String, override val store: Store,
    override val schemaMessage: Array[Byte], override val fields: RecordFields, first: QueueState, log: ReferenceLog)
    extends ReadableQueue {
  private val commits = new CommitSearch(log)
  @volatile private var state: QueueState = first
  private var byPartition = segmentsByPartition

  override def again(): ReadableQueue = {
    val last = state
    if (!log.has(last)) ReadableQueue.open(path) // it has been removed, and maybe made anew
    else new ReferenceView(path, store, schemaMessage, fields, log.refresh(last), log)
  }

  private def segmentsByPartition: Map[Int, IndexedSeq[Segment]] =
    // A commit of a queue of one writer may have frames without records.
    state.live.map(_.segment).filter(_.records > 0).groupBy(_.partition)
      .map { case (n, found) => n -> found.sortBy(_.firstOffset) }

  override def refresh(): Unit = {
    val newer = log.refresh(state)
    if (newer.number != state.number) {
      state = newer
      byPartition = segmentsByPartition
    }
  }

  override def id: String = ReadableQueue.hex(state.logId)
  override def firsts: Map[Int, Long] = numbered(state.commit.starts)
  override def ends: Map[Int, Long] = numbered(state.commit.ends)
  override def seen: Option[SeenCommit] = Some(state.seen)
  override def behind(offsets: Map[Int, Long]): Option[Behind] = Some(commits.behind(state, offsets))
  override def has(behind: Behind): Boolean = log.has(behind, state.floor)
  private def numbered(offsets: Array[Long]): Map[Int, Long] =
    offsets.zipWithIndex.map { case (offset, n) => n -> offset }.toMap

  override def consumer(name: String, start: Map[Int, Long], done: Map[Int, Long], failOnDataLoss: Boolean): Map[Int, Long] => Unit = {
    val holder = QueueConsumer.hold(store, name, start, done, failOnDataLoss)
    holder.acknowledge
  }

  override def inlineRows(segment: Segment): Option[Array[Byte]] = log.inlineRows(segment)
  override def segments(partition: Int): IndexedSeq[Segment] = byPartition.getOrElse(partition, IndexedSeq.empty)
}

private[cecstore] object ReferenceView {
  /** Raises NotAQueue where there is none. */
  def open(path: String, store: Store): ReferenceView = {
    val log = new ReferenceLog(store)
    val state = log.open()
    val message = log.schemaMessage(state)
    val fields = ReadableQueue.fieldsOf(message, s"${store.url}/${Names.commit(0)}", 0)
    new ReferenceView(path, store, message, fields, state, log)
  }
}
