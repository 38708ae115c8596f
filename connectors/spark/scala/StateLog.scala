package org.apache.spark.sql.cecstore

import java.io.Closeable

import scala.collection.mutable

/** Where a version ends in the log: what the next commit builds on. */
private[cecstore] final case class Base(
    version: Long, logId: Array[Byte], segment: Long, salt: Long, seq: Long, byte: Long, end: Long,
    chain: Int, nextSeq: Long, nextOffset: Long) {
  /** The unique id that checkpoint format V2 hands around. docs/format.md §9. */
  def uniqueId: String = f"$segment%016x-$salt%016x-$seq%x"
  def isEmpty: Boolean = segment == Format.None
}

private[cecstore] object Base {
  def empty(version: Long): Base = Base(version, null, Format.None, 0, -1, 0, 0, 0, 0, 0)
}

/** The segments of one directory as a tree, read backward. docs/format.md §9. For one load; then closed. */
private[cecstore] final class StateLog(folder: SegmentFolder) extends Closeable {
  import StateLog._

  val ids: Array[Long] = folder.list()
  private val idSet = ids.toSet
  private val readers = mutable.Map.empty[Long, SegmentReader]

  def reader(id: Long): SegmentReader = readers.getOrElseUpdate(id, new SegmentReader(folder, id))
  def highestOrdinal: Long = ids.lastOption.map(_ >>> 32).getOrElse(0L)
  override def close(): Unit = readers.values.foreach(_.close())

  /** The version from which on each has its extent, whatever vanishes meanwhile. Ids name segments before their merging. */
  private def firstKept(byId: Boolean): Option[Long] = {
    def held[A](read: => A): Option[A] = try Some(read) catch { case _: CecLogException => scala.None }
    val whole = ids.flatMap { id =>
      val versions = held(reader(id).frames).toSeq.flatten.filter(f => f.header.isVersion(f.header.inputUpto))
      if (byId && merged(id) == id) versions.lastOption else versions
    }.filter(f => held(extent(f)).nonEmpty).map(_.header.inputUpto).toSet
    whole.maxOption.map(Iterator.iterate(_)(_ - 1).takeWhile(whole).toSeq.last)
  }

  /** The frame that ends a version: by its unique id, or by the rule for checkpoint format V1. */
  def find(version: Long, uniqueId: Option[String]): FrameAt =
    uniqueId.map(findUnique(version, _)).getOrElse(findNewest(version))

  private def findUnique(version: Long, uniqueId: String): FrameAt = uniqueId match {
    case UniqueId(segment, salt, seq) =>
      val id = java.lang.Long.parseUnsignedLong(segment, 16)
      val number = java.lang.Long.parseUnsignedLong(seq, 16)
      val in = reader(if (idSet(id)) id else standing(id))
      val found = in.frames.find(f => f.header.kind == Format.Batch && f.header.seq == number)
      in.checkHead()
      if (in.header.get.salt != java.lang.Long.parseUnsignedLong(salt, 16)) {
        throw in.damaged(0, s"not the segment of version $version ($uniqueId)")
      }
      found.filter(_.header.isVersion(version)).getOrElse { in.checkTail(0); throw missing(version) }
    case _ => throw new CecLogException(
      s"${folder.location}: '$uniqueId' is no id of this state store: was the checkpoint made by another provider?")
  }

  private def findNewest(version: Long): FrameAt = {
    // What younger segments build on, and the youngest of those that are gone and may have held the version.
    val vouched = mutable.Map.empty[Long, Long].withDefaultValue(0L)
    var lost = -1L
    ids.reverseIterator.foreach { id =>
      if (lost > id) reader(lost)
      val in = reader(id)
      // Only segments that build on an older version can hold this one; an unreadable head might.
      if (in.baseVersion.forall(_ < version)) {
        in.frames.reverseIterator.find(_.header.isVersion(version)).foreach(return _)
        in.checkTail(vouched(id))
      }
      in.header.filter(_.prevSegment != Format.None).foreach { head =>
        val base = standing(head.prevSegment)
        if (base == head.prevSegment) vouched(base) = math.max(vouched(base), head.prevBytes)
        if (!idSet(base) && in.baseVersion.exists(_ >= version)) lost = math.max(lost, base)
      }
    }
    if (lost >= 0) reader(lost)
    throw missing(version)
  }

  private def missing(version: Long) =
    new CecLogException(s"${folder.location}: version $version is not in the state log")

  /** Do what needs a version; what goes wrong is told with the newest version that could be had. */
  def wanting[A](version: Long)(work: => A): A = try work catch {
    case e: CecLogException => throw new CecLogException(
      s"${e.getMessage}; version $version was wanted; $newestSound. Restore the files, or restart the query from an older batch", e)
  }

  /** By the rule for checkpoint format V1; every body that a load would need has been read. */
  private def newestSound: String = {
    val versions = ids.flatMap(reader(_).frames).map(_.header).filter(h => h.isVersion(h.inputUpto)).map(_.inputUpto)
    val sound = versions.distinct.sorted.reverseIterator.find { version =>
      try { extent(find(version, None)).foreach { case (frame, _) => frame.segment.bytes(frame) }; true }
      catch { case _: CecLogException => false }
    }
    sound.map(version => s"the newest sound version is $version").getOrElse("no version is sound")
  }

  /** The stream's previous BATCH frame, in this segment or in the one it builds on. */
  def before(frame: FrameAt): Option[FrameAt] = {
    val in = frame.segment
    in.frames.lastIndexWhere(_.header.kind == Format.Batch, frame.index - 1) match {
      case -1 => baseOf(in)
      case i => Some(in.frames(i))
    }
  }

  /** The frame on which a segment builds; none for a state that began empty. */
  private def baseOf(in: SegmentReader): Option[FrameAt] = {
    val head = in.header.get
    if (head.prevSegment == Format.None) return None
    val id = standing(head.prevSegment)
    val base = reader(id)
    val found = base.frames.find(f => f.header.kind == Format.Batch && f.header.seq == head.firstSeq - 1)
    base.checkHead()
    if (!base.header.exists(_.salt == head.prevSalt)) throw base.damaged(0, s"not the segment that ${in.path} builds on")
    val isSame = id == head.prevSegment
    found.filter(f => !isSame || f.end == head.prevBytes && f.chain == head.prevChain).orElse(throw base.damaged(
      if (isSame) head.prevBytes else 0, s"frame ${head.firstSeq - 1}, on which ${in.path} builds, is not there"))
  }

  /** The segment to look into for this one: that which it was merged into, if any. */
  private def standing(id: Long): Long = if (idSet(merged(id))) merged(id) else id

  /** Id of the segment on which another builds. */
  def baseSegment(in: SegmentReader): Option[Long] = baseOf(in).map(_.segment.id)

  /** Frames of the extent of a version, newest first, each with the first of its rows that is in it. */
  def extent(last: FrameAt): Seq[(FrameAt, Int)] = {
    val needed = last.header.endOffset - last.header.extentRecords
    val found = mutable.ArrayBuffer.empty[(FrameAt, Int)]
    var frame = Option(last)
    var reached = last.header.extentRecords == 0
    while (!reached) {
      val at = frame.getOrElse(throw last.segment.damaged(
        last.byte, s"the extent of ${last.header.extentRecords} records begins nowhere"))
      found += at -> math.max(0L, needed - at.header.firstOffset).toInt
      reached = at.header.firstOffset <= needed
      if (!reached) {
        frame = before(at)
        frame.foreach(f => if (f.header.endOffset != at.header.firstOffset || f.header.seq != at.header.seq - 1) {
          throw f.segment.damaged(f.byte, s"not the frame before number ${at.header.seq}")
        })
      }
    }
    found.toSeq
  }

  /** The state at the end of a frame, rebuilt from its extent. CEC paper, II.B. */
  def load(last: FrameAt, isOrdered: Int => Boolean, progress: (Long, Long) => Unit): LiveState = {
    val frames = extent(last)
    val state = new LiveState(isOrdered, last.header.openWindows)
    frames.zipWithIndex.foreach { case ((frame, fromRow), i) =>
      state.load(frame.segment.rows(frame, frames.size - i), fromRow)
      progress(state.openWindows, last.header.openWindows)
    }
    state.loaded(frames.size, last.header.endOffset)
    if (state.openWindows != last.header.openWindows) throw last.segment.damaged(
      last.byte, s"the frame counts ${last.header.openWindows} open windows, its extent has ${state.openWindows}")
    state
  }

  def baseAt(last: FrameAt): Base = {
    val head = last.segment.header.get
    Base(last.header.inputUpto, head.logId, head.segmentId, head.salt, last.header.seq, last.byte, last.end,
      last.chain, last.header.seq + 1, last.header.endOffset)
  }

  /** The frames of the versions after `first` up to that of `last`, oldest first. */
  def changes(first: Long, last: FrameAt): Seq[FrameAt] =
    Iterator.iterate(Option(last))(_.flatMap(before)).takeWhile(_.exists(_.header.inputUpto > first))
      .flatten.toSeq.reverse
}

private[cecstore] object StateLog {
  private val UniqueId = "([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]+)".r
  /** The id of the segment that maintenance makes of those up to `id`. */
  def merged(id: Long): Long = id | 1

  /** Why a version cannot be had; that it is forgotten, if it is. */
  def explained(e: CecLogException, folder: SegmentFolder, version: Long, byId: Boolean): CecLogException = {
    val log = new StateLog(folder)
    try log.firstKept(byId).filter(_ > version).map(first => new CecLogException(s"${e.getMessage}; versions from " +
      s"$first on have all their segments, older ones are kept as spark.sql.streaming.minBatchesToRetain says", e)).getOrElse(e)
    finally log.close()
  }
}
