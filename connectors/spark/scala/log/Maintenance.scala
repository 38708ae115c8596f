package org.apache.spark.sql.cecstore.log

import scala.collection.mutable
import scala.util.Using
import scala.util.control.NonFatal
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.Format

/**
 * What Spark's maintenance thread does to one store: forget segments that no kept version reaches, and where
 * each commit is an object of its own, merge them. docs/format.md §9.
 *
 * Task threads set the first three fields, read the fourth, and share nothing else with the maintenance thread
 * but files. The lock keeps two runs of maintenance apart and guards `forgottenAt`.
 *
 * @param versionsToDeleteMax at a time; below 0 there is no bound
 */
private[cecstore] final class Maintenance(
    folder: SegmentFolder, segmentBytes: Long, versionsToKeep: Int, objectsToMerge: Int,
    versionsToDeleteMax: Int) extends Logging {
  @volatile private var newest: Base = null
  @volatile private var newestVersion = 0L
  @volatile private var grows = true
  @volatile private var failures_ = 0L
  private var forgottenAt = 0L

  /** Runs that failed. */
  def failures: Long = failures_

  def loaded(version: Long): Unit = newestVersion = math.max(newestVersion, version)
  def committed(base: Base, grows: Boolean): Unit = { newest = base; this.grows = grows; loaded(base.version) }

  /** Delete segments whose versions are all too old and that no kept version's extent reaches. */
  def forget(): Unit = synchronized {
    val version = newestVersion
    val oldestKept = version - versionsToKeep
    if (oldestKept > 0 && version - forgottenAt >= math.max(1, versionsToKeep / 10)) tried("deleted") { log =>
      val kept = reachable(log, oldestKept)
      val firstKept = if (kept.isEmpty) Long.MaxValue else kept.min
      // A segment without a whole version may be one that is just being born, unless newer ones stand behind it.
      val gone = log.ids.filter(id => !kept(id) && (log.reader(id).frames.exists(_.header.isBatch) || id < firstKept))
      val now = fewAtATime(log, gone)
      now.foreach(folder.delete)
      if (now.length == gone.length) forgottenAt = version
      if (now.nonEmpty) logInfo(s"cec: ${folder.location}: deleted ${now.length} of ${gone.length} segments that no version from $oldestKept on needs")
    }
  }

  /** The oldest, with as many versions as Spark allows to be deleted at a time, and at least one. */
  private def fewAtATime(log: StateLog, ids: Array[Long]): Array[Long] = if (versionsToDeleteMax < 0) ids else {
    val upto = ids.iterator.map(log.reader(_).versionEnds.size.toLong).scanLeft(0L)(_ + _).drop(1)
    ids.take(math.max(1, upto.takeWhile(_ <= versionsToDeleteMax).size))
  }

  /** Spark would close a provider whose maintenance fails, and load its state anew: it is enough to try again later. */
  private def tried(done: String)(work: StateLog => Unit): Unit =
    try Using.resource(new StateLog(folder))(work) catch {
      case e: CecLogException =>
        failures_ += 1
        logWarning(s"cec: ${folder.location}: nothing is $done while the log is damaged: ${e.getMessage}")
      case NonFatal(e) =>
        failures_ += 1
        logWarning(s"cec: ${folder.location}: nothing is $done this time, the next maintenance tries again: $e", e)
    }

  private def reachable(log: StateLog, oldestKept: Long): Set[Long] = {
    val kept = mutable.Set.empty[Long]
    log.ids.foreach { id =>
      log.reader(id).versionEnds.find(_.header.inputUpto >= oldestKept).foreach { first =>
        kept += id
        // The extent's start never falls along a lineage, so that of the first version reaches furthest.
        log.extent(first).foreach { case (frame, _) => kept += frame.segment.id }
        log.baseOf(log.reader(id)).foreach(kept += _.segment.id)
      }
    }
    kept.toSet
  }

  /** Copy the objects of the extent that are not merged yet into one, when there are enough of them. */
  def merge(): Unit = synchronized {
    val base = newest
    if (!grows && base != null) tried("merged") { log =>
      if (!log.ids.contains(StateLog.mergedId(base.segment))) {
        val frames = log.extent(log.find(base.version, Some(base.uniqueId))).map(_._1)
        // The last frame of each segment that the next one builds on: newest first.
        val (fresh, older) = frames.distinctBy(_.segment).span(end => !StateLog.isMerged(end.segment.id))
        if (fresh.size >= objectsToMerge) {
          // Merging a merged one again only when as much is new keeps the copying to a few times in all.
          val again = older.headOption.filter(end =>
            end.segment.size <= fresh.map(_.segment.size).sum && end.segment.size < segmentBytes)
          write((fresh ++ again).reverse)
        }
      }
    }
  }

  private def write(ends: Seq[FrameAt]): Unit = {
    val head = ends.head.segment.header.get
    val salt = ends.last.segment.header.get.salt
    val id = StateLog.mergedId(ends.last.segment.id)
    val parts = mutable.ArrayBuffer(head.copy(segmentId = id, salt = salt).encoded)
    var byte = Format.HeaderBytes.toLong
    var previous: Option[(Long, Long)] = None
    ends.zipWithIndex.foreach { case (end, i) =>
      end.segment.frames.take(end.index + 1).filter(f => f.header.isBatch || i == 0 && f.index == 0).foreach { f =>
        val body = end.segment.body(f)
        val (prevSegment, prevByte) = previous.getOrElse((f.header.prevSegment, f.header.prevByte))
        parts += f.header.copy(salt = salt, schemaByte = Format.HeaderBytes, durableUpto = 0,
          prevSegment = prevSegment, prevByte = prevByte).encoded += body
        if (f.header.isBatch) previous = Some((id, byte))
        byte += f.header.frameBytes
      }
    }
    folder.create(id, parts.toArray, sync = true).close()
    logInfo(s"cec: ${folder.location}: merged ${ends.size} objects into ${SegmentFolder.name(id)}")
  }
}
