package org.apache.spark.sql.cecstore.log

import scala.collection.mutable
import scala.util.Using
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.Format

/**
 * What Spark's maintenance thread does to one store: forget segments that no kept version reaches, and where
 * each commit is an object of its own, merge them. docs/format.md §9.
 *
 * Task threads set the three volatile fields and share nothing else with the maintenance thread but files. The
 * lock keeps two runs of maintenance apart and guards `forgottenAt`.
 */
private[cecstore] final class Maintenance(
    folder: SegmentFolder, segmentBytes: Long, versionsToKeep: Int, objectsToMerge: Int) extends Logging {
  @volatile private var newest: Base = null
  @volatile private var newestVersion = 0L
  @volatile private var grows = true
  private var forgottenAt = 0L

  def loaded(version: Long): Unit = newestVersion = math.max(newestVersion, version)
  def committed(base: Base, grows: Boolean): Unit = { newest = base; this.grows = grows; loaded(base.version) }

  /** Delete segments whose versions are all too old and that no kept version's extent reaches. */
  def forget(): Unit = synchronized {
    val version = newestVersion
    val oldestKept = version - versionsToKeep
    if (oldestKept > 0 && version - forgottenAt >= math.max(1, versionsToKeep / 10)) whileSound("deleted") { log =>
      val kept = reachable(log, oldestKept)
      val firstKept = if (kept.isEmpty) Long.MaxValue else kept.min
      // A segment without a whole version may be one that is just being born, unless newer ones stand behind it.
      val gone = log.ids.filter(id => !kept(id) && (log.reader(id).frames.exists(_.header.isBatch) || id < firstKept))
      gone.foreach(folder.delete)
      forgottenAt = version
      if (gone.nonEmpty) logInfo(s"cec: ${folder.location}: deleted ${gone.length} segments that no version from $oldestKept on needs")
    }
  }

  private def whileSound(done: String)(work: StateLog => Unit): Unit = Using.resource(new StateLog(folder)) { log =>
    try work(log) catch {
      case e: CecLogException => logWarning(s"cec: ${folder.location}: nothing is $done while the log is damaged: ${e.getMessage}")
    }
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
    if (!grows && base != null) whileSound("merged") { log =>
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
