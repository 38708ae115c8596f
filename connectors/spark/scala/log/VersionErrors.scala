package org.apache.spark.sql.cecstore.log

import scala.util.Using
import org.apache.spark.sql.cecstore.CecLogException

/** No segment holds the version. */
private[cecstore] final class VersionMissing(location: String, version: Long) extends CecLogException(
      s"$location: version $version is not in the state log",
      named = Map("path" -> location, "version" -> version.toString), condition = "CEC_VERSION_MISSING")

/** Tells of a version that cannot be read which versions can. */
private[cecstore] object VersionErrors {
  /** Do what needs a version; an error then names it, and the newest version that is sound. */
  def explained[A](log: StateLog, version: Long)(work: => A): A = try work catch {
    case e: CecLogException => throw e.told(
      s"${e.getMessage}; version $version was wanted; ${newestSound(log)}. Restore the files, or restart the query from an older batch",
      Map("version" -> version.toString))
  }

  /** By the rule for checkpoint format V1; every body that a load would need has been read. */
  private def newestSound(log: StateLog): String = {
    val versions = log.ids.flatMap(log.reader(_).versionEnds).map(_.header.inputUpto)
    val sound = versions.distinct.sorted.reverseIterator.find { version =>
      isReadable(log.extent(log.find(version, None)).foreach { case (frame, _) => frame.segment.body(frame) })
    }
    sound.map(version => s"the newest sound version is $version").getOrElse("no version is sound")
  }

  /** The error with what is kept, where the version is older than that. */
  def withOldestKept(e: CecLogException, folder: SegmentFolder, version: Long, byId: Boolean): CecLogException =
    Using.resource(new StateLog(folder))(oldestKept(_, byId)).filter(_ > version).map(oldest => e.told(
      s"${e.getMessage}; versions from $oldest on have all their segments, older ones are kept as " +
        "spark.sql.streaming.minBatchesToRetain says", Map("oldest" -> oldest.toString))).getOrElse(e)

  /** The version from which on each has its extent, whatever vanishes meanwhile. Ids name segments before their merging. */
  private def oldestKept(log: StateLog, byId: Boolean): Option[Long] = {
    val kept = log.ids.flatMap { id =>
      val ends = attempt(log.reader(id).versionEnds.toSeq).toSeq.flatten
      if (byId && StateLog.isMerged(id)) ends.headOption else ends
    }.filter(end => isReadable(log.extent(end).foreach(_ => ()))).map(_.header.inputUpto).toSet
    kept.maxOption.map(Iterator.iterate(_)(_ - 1).takeWhile(kept).toSeq.last)
  }

  private def isReadable(read: => Any): Boolean = attempt(read).nonEmpty
  private def attempt[A](read: => A): Option[A] = try Some(read) catch { case _: CecLogException => None }
}
