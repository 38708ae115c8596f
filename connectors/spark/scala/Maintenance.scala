package org.apache.spark.sql.cecstore

import scala.collection.mutable

import org.apache.spark.internal.Logging

/**
 * What Spark's maintenance thread does to one store: forget segments that no kept version reaches, and where
 * each commit is an object of its own, merge them. docs/format.md §9. Only files are shared with the tasks.
 */
private[cecstore] final class Maintenance(
    folder: SegmentFolder, settings: Settings, versionsToKeep: Int, objectsToMerge: Int) extends Logging {
  @volatile private var newest: Base = null
  @volatile private var newestVersion = 0L
  @volatile private var grows = true
  private var forgottenAt = 0L

  def reached(version: Long): Unit = newestVersion = math.max(newestVersion, version)
  def committed(base: Base, grows: Boolean): Unit = { newest = base; this.grows = grows; reached(base.version) }

  /** Delete segments whose versions are all too old and that no kept version's extent reaches. */
  def forget(): Unit = synchronized {
    val version = newestVersion
    val oldestKept = version - versionsToKeep
    if (oldestKept <= 0 || version - forgottenAt < math.max(1, versionsToKeep / 10)) return
    val log = new StateLog(folder)
    try {
      val kept = reachable(log, oldestKept)
      val firstKept = if (kept.isEmpty) Long.MaxValue else kept.min
      // A segment without a whole version may be one that is just being born, unless newer ones stand behind it.
      val gone = log.ids.filter(id => !kept(id) && (log.reader(id).frames.exists(_.header.kind == Format.Batch) || id < firstKept))
      gone.foreach(folder.delete)
      forgottenAt = version
      if (gone.nonEmpty) logInfo(s"cec: ${folder.location}: deleted ${gone.length} segments that no version from $oldestKept on needs")
    } catch {
      case e: CecLogException => logWarning(s"cec: ${folder.location}: nothing is deleted while the log is damaged: ${e.getMessage}")
    } finally log.close()
  }

  private def reachable(log: StateLog, oldestKept: Long): Set[Long] = {
    val kept = mutable.Set.empty[Long]
    log.ids.foreach { id =>
      val versions = log.reader(id).frames.filter(f => f.header.inputUpto >= oldestKept && f.header.isVersion(f.header.inputUpto))
      if (versions.nonEmpty) {
        kept += id
        // The extent's start never falls along a lineage, so that of the first version reaches furthest.
        log.extent(versions.head).foreach { case (frame, _) => kept += frame.segment.id }
        log.baseSegment(log.reader(id)).foreach(kept += _)
      }
    }
    kept.toSet
  }

  /** Copy the objects of the extent that are not merged yet into one, when there are enough of them. */
  def merge(): Unit = synchronized {
    val base = newest
    if (grows || base == null) return
    val log = new StateLog(folder)
    try if (!log.ids.contains(StateLog.merged(base.segment))) {
      val frames = log.extent(log.find(base.version, Some(base.uniqueId))).map(_._1)
      // The last frame of each segment that the next one builds on: newest first.
      val (fresh, older) = frames.distinctBy(_.segment).span(end => StateLog.merged(end.segment.id) != end.segment.id)
      if (fresh.size >= objectsToMerge) {
        // Merging a merged one again only when as much is new keeps the copying to a few times in all.
        val again = older.headOption.filter(end =>
          end.segment.size <= fresh.map(_.segment.size).sum && end.segment.size < settings.segmentBytes)
        write((fresh ++ again).reverse)
      }
    } catch {
      case e: CecLogException => logWarning(s"cec: ${folder.location}: nothing is merged while the log is damaged: ${e.getMessage}")
    } finally log.close()
  }

  private def write(ends: Seq[FrameAt]): Unit = {
    val head = ends.head.segment.header.get
    val salt = ends.last.segment.header.get.salt
    val id = StateLog.merged(ends.last.segment.id)
    val parts = mutable.ArrayBuffer(Format.encode(head.copy(segmentId = id, salt = salt)))
    var byte = Format.HeaderBytes.toLong
    var previous: Option[(Long, Long)] = None
    ends.zipWithIndex.foreach { case (end, i) =>
      end.segment.frames.take(end.index + 1).filter(f => f.header.kind == Format.Batch || i == 0 && f.index == 0).foreach { f =>
        val body = end.segment.bytes(f)
        val (prevSegment, prevByte) = previous.getOrElse((f.header.prevSegment, f.header.prevByte))
        parts += Format.encode(f.header.copy(salt = salt, schemaByte = Format.HeaderBytes, durableUpto = 0,
          prevSegment = prevSegment, prevByte = prevByte)) += body
        if (f.header.kind == Format.Batch) previous = Some((id, byte))
        byte += f.header.frameBytes
      }
    }
    folder.create(id, parts.toArray, sync = true).close()
    logInfo(s"cec: ${folder.location}: merged ${ends.size} objects into ${SegmentFolder.name(id)}")
  }
}
