package org.apache.spark.sql.cecstore.log

import java.util.concurrent.atomic.AtomicLong
import scala.collection.mutable
import scala.util.Using
import scala.util.control.NonFatal
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.{Format, FrameHeader, RunningCrc, SegmentHeader}

/**
 * What Spark's maintenance thread does to one store: forget segments that no kept version reaches, and where
 * each commit is an object of its own, merge them. docs/format.md §9.
 *
 * Task threads set the three volatile fields, read `failures`, and share nothing else with the maintenance thread
 * but files. The lock keeps two runs of maintenance apart and guards `forgottenAt` and `summaries`.
 *
 * @param versionsToDeleteMax at a time; below 0 there is no bound
 */
private[cecstore] final class Maintenance(
    folder: SegmentFolder, segmentBytes: Long, versionsToKeep: Int, objectsToMerge: Int,
    versionsToDeleteMax: Int) extends Logging {
  @volatile private var newest: Base = null
  @volatile private var newestVersion = 0L
  @volatile private var grows = true
  private val failures_ = new AtomicLong
  private var forgottenAt = 0L
  private val summaries = new Summaries

  /** Runs that failed. */
  def failures: Long = failures_.get

  def loaded(version: Long): Unit = newestVersion = math.max(newestVersion, version)
  def committed(base: Base, grows: Boolean): Unit = { newest = base; this.grows = grows; loaded(base.version) }

  /** Delete segments whose versions are all too old and that no kept version's extent reaches; returns which. */
  def forget(): Set[Long] = {
    val gone = mutable.Set.empty[Long]
    forget(gone)
    gone.toSet
  }

  private def forget(gone: mutable.Set[Long]): Unit = tried("deleted") {
    OpenOutputs.ofProcess.leaveIdle()
    synchronized {
      val version = newestVersion
      val oldestKept = version - versionsToKeep
      if (oldestKept > 0 && version - forgottenAt >= math.max(1, versionsToKeep / 10)) {
        val sizes = folder.sizes()
        if (Using.resource(new StateLog(folder, sizes.keys.toArray.sorted))(forget(_, sizes, oldestKept, gone))) forgottenAt = version
      }
    }
  }

  /** Whether nothing is left that could be deleted. */
  private def forget(log: StateLog, sizes: Map[Long, Long], oldestKept: Long, deleted: mutable.Set[Long]): Boolean = log.ids.isEmpty || {
    val known = summaries.of(log, sizes, Option(newest))
    val kept = reachable(log, known, oldestKept)
    val firstKept = kept.minOption.getOrElse(throw log.reader(log.ids.last).damaged(0, s"no version from $oldestKept on is in it or before it"))
    // A segment without a whole version may be one that is just being born, unless newer ones stand behind it.
    val gone = log.ids.filter(id => !kept(id) && (known.get(id).exists(_.newestVersion.nonEmpty) || id < firstKept))
    val now = fewAtATime(gone.toSeq, known)
    now.foreach { id => folder.delete(id); deleted += id }
    if (now.nonEmpty) forgetDerived(log.ids.toSet -- now)
    if (now.nonEmpty) logInfo(
      s"cec: ${folder.location}: deleted ${now.size} of ${gone.length} segments that no version from $oldestKept on needs")
    now.size == gone.length
  }

  /**
   * Key directories of segments that are gone: a store that writes none any more has nobody else who looks after them. A directory
   * that is left may name key files of such segments.
   */
  private def forgetDerived(left: Set[Long]): Unit = for (files <- folder.derivedFiles) {
    val names = files.names()
    def of(suffix: String): Seq[DirectoryName] = names.flatMap(DirectoryName.of(_, suffix))
    val (kept, gone) = of(DirectoryName.Live).partition(name => left(name.segment))
    gone.foreach(name => files.delete(name.live))
    if (kept.isEmpty) of(DirectoryName.Keys).filterNot(name => left(name.segment)).foreach(name => files.delete(name.keys))
  }

  /** The oldest, with as many versions as Spark lets a run of maintenance delete, and at least one segment. */
  private def fewAtATime(ids: Seq[Long], known: Map[Long, Summary]): Seq[Long] = if (versionsToDeleteMax < 0) ids else {
    def versions(id: Long) = known.get(id).flatMap(s => s.newestVersion.map(_ - s.baseVersion)).getOrElse(0L)
    val upto = ids.iterator.map(versions).scanLeft(0L)(_ + _).drop(1)
    ids.take(math.max(1, upto.takeWhile(_ <= versionsToDeleteMax).size))
  }

  /** Spark would close a provider whose maintenance fails, and load its state anew: it is enough to try again later. */
  private def tried(done: String)(work: => Unit): Unit = try work catch {
    case e: CecLogException =>
      failures_.incrementAndGet()
      logWarning(s"cec: ${folder.location}: nothing is $done while the log is damaged: ${e.getMessage}")
    case NonFatal(e) =>
      failures_.incrementAndGet()
      logWarning(s"cec: ${folder.location}: nothing is $done this time, the next maintenance tries again: $e", e)
  }

  private def reachable(log: StateLog, known: Map[Long, Summary], oldestKept: Long): Set[Long] = {
    val kept = mutable.Set.empty[Long]
    known.foreach { case (id, summary) => if (summary.newestVersion.exists(_ >= oldestKept)) {
      kept += id
      if (summary.prevSegment != Format.NoSegment) {
        val base = log.holderOf(summary.prevSegment)
        kept += base
        // What that one needs in turn is not known where it does not begin as a segment, or ends too early.
        if (summary.baseVersion >= oldestKept && log.ids.contains(base) && !known.get(base).exists(_.newestVersion.exists(_ >= summary.baseVersion)))
          throw log.reader(base).damaged(0, s"version ${summary.baseVersion}, on which ${SegmentFolder.name(id)} builds, is not in it")
      }
      // The extent's start never falls along a lineage, so that of the oldest version kept reaches furthest.
      if (summary.baseVersion < oldestKept) kept ++= reachedFrom(log, known, id, oldestKept)
    } }
    kept.toSet
  }

  /** The segments with the extent of the oldest version of this one that is kept. */
  private def reachedFrom(log: StateLog, known: Map[Long, Summary], id: Long, oldestKept: Long): Iterator[Long] = {
    val last = log.reader(id).versionEnds.takeWhile(_.header.inputUpto >= oldestKept).foldLeft(Option.empty[FrameAt])((_, end) => Some(end))
    val from = last.fold(Long.MaxValue)(end => end.header.endOffset - end.header.extentRecords)
    def summaryOf(id: Long) = known.getOrElse(id, throw log.reader(id).damaged(0, "the segment does not begin as one"))
    Iterator.iterate(Option(id))(_.flatMap { at =>
      val summary = summaryOf(at)
      Option.when(summary.firstOffset > from && summary.prevSegment != Format.NoSegment)(log.holderOf(summary.prevSegment))
    }).takeWhile(_.nonEmpty).flatten
  }

  /** Copy the objects of the extent that are not merged yet into one, when there are enough of them. */
  def merge(): Unit = tried("merged")(synchronized {
    val base = newest
    if (!grows && base != null) {
      val ids = folder.list()
      val merged = ids.filter(StateLog.isMerged).lastOption.getOrElse(0L)
      if (ids.count(_ > merged) >= objectsToMerge) Using.resource(new StateLog(folder, ids))(merge(_, base))
    }
  })

  private def merge(log: StateLog, base: Base): Unit = {
    val frames = log.extent(log.find(base.version, Some(base.uniqueId))).map(_._1)
    // The last frame of each segment that the next one builds on: newest first.
    val (fresh, older) = frames.distinctBy(_.segment).toSeq.span(end => !StateLog.isMerged(end.segment.id))
    if (fresh.size >= objectsToMerge) {
      // Merging a merged one again only when as much is new keeps the copying to a few times in all.
      val again = older.headOption.filter(end =>
        end.segment.size <= fresh.map(_.segment.size).sum && end.segment.size < segmentBytes)
      write((fresh ++ again).reverse)
    }
  }

  private def write(ends: Seq[FrameAt]): Unit = {
    val id = StateLog.mergedId(ends.last.segment.id)
    folder.create(id, new MergedBytes(ends, id), sync = true).close()
    logInfo(s"cec: ${folder.location}: merged ${ends.size} objects into ${SegmentFolder.name(id)}")
  }
}

/** The bytes of a merged segment, a frame at a time: all bodies together may be more than the heap has. */
private[log] final class MergedBytes(ends: Seq[FrameAt], id: Long) extends Iterator[Array[Byte]] {
  private val first = ends.head.segment
  private val salt = ends.last.segment.header.get.salt
  private var previous: Option[(Long, Long)] = None
  private var byte = 0L
  private var runningCrc = 0

  private val parts: Iterator[Array[Byte]] = {
    val schema = first.schema.get
    val head = first.header.get.copy(segmentId = id, salt = salt, flags = SegmentHeader.Compacted)
    Iterator(() => Seq(head.encoded), () => frame(schema, first.schemaBody))
      .map(make => added(make())).flatten ++ batches
  }

  private def batches: Iterator[Array[Byte]] = ends.iterator.flatMap { end =>
    val older = Iterator.iterate(Option(end))(_.flatMap(end.segment.before)).takeWhile(_.nonEmpty).flatten.toVector
    end.segment.checkLinks()
    older.reverseIterator.flatMap { at =>
      val written = added(frame(at.header, at.segment.body(at)))
      previous = Some((id, byte - at.header.frameBytes))
      written
    } ++ { end.segment.letGo(); Iterator.empty }
  }

  private def frame(h: FrameHeader, body: Array[Byte]): Seq[Array[Byte]] = {
    val (prevSegment, prevByte) = previous.getOrElse((h.prevSegment, h.prevByte))
    Seq(h.copy(salt = salt, chainCrc = runningCrc, schemaByte = Format.HeaderBytes, durableUpto = 0,
      prevSegment = prevSegment, prevByte = prevByte).encoded, body)
  }

  private def added(made: Seq[Array[Byte]]): Seq[Array[Byte]] = {
    runningCrc = RunningCrc.extended(runningCrc, made.head)
    byte += made.map(_.length.toLong).sum
    made
  }

  override def hasNext: Boolean = parts.hasNext
  override def next(): Array[Byte] = parts.next()
}
