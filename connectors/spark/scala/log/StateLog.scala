package org.apache.spark.sql.cecstore.log

import java.io.Closeable
import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.Format

/** The segments of one directory as a tree, read backward. docs/format.md §9. For one load and one thread; then closed. */
private[cecstore] final class StateLog(folder: SegmentFolder, val ids: Array[Long]) extends Closeable {
  import StateLog._

  val location: String = folder.location
  private val idSet = ids.toSet
  private val inputs = new OpenInputs(folder)
  private val readers = mutable.Map.empty[Long, SegmentReader]
  private var reading: SegmentReader = null

  def this(folder: SegmentFolder) = this(folder, folder.list())

  /** Only the one that is read from keeps bytes in memory. */
  def reader(id: Long): SegmentReader = {
    val found = readers.getOrElseUpdate(id, new SegmentReader(inputs, id))
    if (reading != null && (reading ne found)) reading.letGo()
    reading = found
    found
  }

  def highestOrdinal: Long = ids.lastOption.map(_ >>> 32).getOrElse(0L)
  override def close(): Unit = inputs.close()

  /** End what a dead writer has left open; true if the segment is to be read again. */
  private def settle(id: Long): Boolean = {
    val isSettled = inputs.settle(id)
    if (isSettled) readers.remove(id)
    isSettled
  }

  /** The frame that ends a version: by its unique id, or by the rule for checkpoint format V1. */
  def find(version: Long, uniqueId: Option[String]): FrameAt =
    uniqueId.map(findUnique(version, _)).getOrElse(findNewest(version))

  private def findUnique(version: Long, uniqueId: String): FrameAt = uniqueId match {
    case UniqueId(segment, salt, seq) =>
      val id = java.lang.Long.parseUnsignedLong(segment, 16)
      val holder = if (idSet(id)) id else holderOf(id)
      val number = java.lang.Long.parseUnsignedLong(seq, 16)
      val found = reader(holder).frameNumbered(number)
        .orElse(if (settle(holder)) reader(holder).frameNumbered(number) else None)
      val in = reader(holder)
      in.checkHeader()
      if (in.header.get.salt != java.lang.Long.parseUnsignedLong(salt, 16)) {
        throw in.damaged(0, s"not the segment of version $version ($uniqueId)")
      }
      found.filter(_.header.endsVersion(version)).getOrElse { SegmentTail.check(in, 0); throw missing(version) }
    case _ => throw new CecLogException(
      s"$location: '$uniqueId' is no id of this state store: was the checkpoint made by another provider?",
      named = Map("path" -> location, "version" -> version.toString))
  }

  private def findNewest(version: Long): FrameAt = {
    // What younger segments build on, and the youngest of those that are gone and may have held the version.
    val builtOn = mutable.Map.empty[Long, Long].withDefaultValue(0L)
    var lost = -1L
    ids.reverseIterator.foreach { id =>
      if (lost > id) reader(lost)
      // Only segments that build on an older version can hold this one; an unreadable header might.
      if (reader(id).baseVersion.forall(_ < version)) {
        reader(id).ending(version).foreach(return _)
        if (settle(id)) reader(id).ending(version).foreach(return _)
        SegmentTail.check(reader(id), builtOn(id))
      }
      val in = reader(id)
      in.header.filter(_.prevSegment != Format.NoSegment).foreach { head =>
        val base = holderOf(head.prevSegment)
        if (base == head.prevSegment) builtOn(base) = math.max(builtOn(base), head.prevBytes)
        if (!idSet(base) && in.baseVersion.exists(_ >= version)) lost = math.max(lost, base)
      }
    }
    if (lost >= 0) reader(lost)
    throw missing(version)
  }

  private def missing(version: Long) =
    new VersionMissing(location, version)

  /** The stream's previous BATCH frame, in this segment or in the one it builds on. */
  private def previous(frame: FrameAt): Option[FrameAt] = reader(frame.segment.id).before(frame).orElse {
    frame.segment.checkLinks()
    baseOf(frame.segment)
  }

  /** The frame on which a segment builds; none for a state that began empty. */
  def baseOf(in: SegmentReader): Option[FrameAt] = {
    val head = in.header.get
    if (head.prevSegment == Format.NoSegment) return None
    val id = holderOf(head.prevSegment)
    val isSame = id == head.prevSegment
    val base = reader(id)
    def isRight(f: FrameAt): Boolean =
      !isSame || f.header.seq == head.firstSeq - 1 && f.end == head.prevBytes && f.runningCrc == head.prevRunningCrc
    // The SCHEMA frame says where it stands, unless it was merged since.
    val found = (if (isSame) in.schema.flatMap(s => base.batchAt(s.prevByte)).filter(isRight) else None)
      .orElse(base.frameNumbered(head.firstSeq - 1))
    base.checkHeader()
    if (!base.header.exists(_.salt == head.prevSalt)) throw base.damaged(0, s"not the segment that ${in.path} builds on")
    found.filter(isRight).orElse(throw base.damaged(
      if (isSame) head.prevBytes else 0, s"frame ${head.firstSeq - 1}, on which ${in.path} builds, is not there"))
  }

  /** The segment that has the frames of this one: that into which it was merged, if any. */
  def holderOf(id: Long): Long = if (idSet(mergedId(id))) mergedId(id) else id

  /**
   * Frames of the extent of a version, newest first, each with the first of its rows that is in it. Each is read when
   * it is asked for.
   */
  def extent(last: FrameAt): Iterator[(FrameAt, Int)] = {
    val from = last.header.endOffset - last.header.extentRecords
    if (last.header.extentRecords == 0) return Iterator.empty
    def older(frame: FrameAt) = Option.when(frame.header.firstOffset > from)(previousInExtent(frame, last))
    Iterator.iterate(Option(last))(_.flatMap(older)).takeWhile(_.nonEmpty).flatten
      .map(frame => frame -> math.max(0L, from - frame.header.firstOffset).toInt)
  }

  private def previousInExtent(at: FrameAt, last: FrameAt): FrameAt = nextDown(at).getOrElse(throw last.segment.damaged(
    last.byte, s"the extent of ${last.header.extentRecords} records begins nowhere"))

  /** The frame right before this one: behind a damaged frame an earlier one is found, and raises. */
  private def nextDown(at: FrameAt): Option[FrameAt] = previous(at).map { found =>
    if (found.header.endOffset != at.header.firstOffset || found.header.seq != at.header.seq - 1) {
      throw found.segment.damaged(found.byte, s"not the frame before number ${at.header.seq}")
    }
    found
  }

  /**
   * The frames behind a copy of the state, up to `last`, oldest first. None where they are not the copy's next ones:
   * another lineage, or one that ends before it, or more than the extent of `last`, which is then the shorter way.
   *
   * @param seq of the frame at whose end the copy stands
   * @param isThere whether a frame of that number is that one
   */
  def since(seq: Long, last: FrameAt)(isThere: FrameAt => Boolean): Option[Seq[FrameAt]] = {
    val from = last.header.endOffset - last.header.extentRecords
    val newer = ArrayBuffer.empty[FrameAt]
    var at = last
    while (at.header.seq > seq && (at.header.firstOffset >= from || newer.isEmpty)) {
      newer += at
      at = nextDown(at).getOrElse(return None)
    }
    Option.when(at.header.seq == seq && isThere(at))(newer.reverse.toSeq)
  }

  /** The newest frame up to this one that holds records; none before the first. */
  def newestFilled(frame: FrameAt): Option[FrameAt] =
    Iterator.iterate(Option(frame))(_.flatMap(previous)).takeWhile(_.nonEmpty).flatten.find(_.header.recordCount > 0)

  /** The frames of the versions after `first` up to that of `last`, oldest first. */
  def changes(first: Long, last: FrameAt): Seq[FrameAt] =
    Iterator.iterate(Option(last))(_.flatMap(nextDown)).takeWhile(_.exists(_.header.inputUpto > first))
      .flatten.toSeq.reverse
}

private[cecstore] object StateLog {
  private val UniqueId = "([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]+)".r
  /** The id of the segment that maintenance makes of those up to `id`. */
  def mergedId(id: Long): Long = id | 1
  def isMerged(id: Long): Boolean = mergedId(id) == id

  /** The segment that a unique id names; none if it is none of ours. */
  def segmentOf(uniqueId: String): Option[Long] = uniqueId match {
    case UniqueId(segment, _, _) => Some(java.lang.Long.parseUnsignedLong(segment, 16))
    case _ => None
  }
}
