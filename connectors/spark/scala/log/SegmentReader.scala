package org.apache.spark.sql.cecstore.log

import java.io.EOFException
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.{BadFrame, Body, DamagedLog, Format, Frame, FrameHeader, FramePlace, Gap}
import org.apache.spark.sql.cecstore.format.{Rows, RunningCrc, Scan, SegmentHeader}

/** A whole frame of a segment; `runningCrc` is the segment's at its end. */
private[cecstore] final case class FrameAt(segment: SegmentReader, frame: Frame) {
  def byte: Long = frame.byte
  def header: FrameHeader = frame.header
  def runningCrc: Int = frame.chain
  def end: Long = frame.end
}

/**
 * One segment file. Its frames are found from the newest one back, each proven by the one behind it; forward from
 * the start where one of these proofs fails. docs/format.md §3, §4, §7, §9. For one thread.
 */
private[cecstore] final class SegmentReader(inputs: OpenInputs, val id: Long) {
  import SegmentReader._

  val path: String = inputs.pathOf(id)
  val size: Long = inputs(id).size
  private var window = new Array[Byte](0)
  private var windowFrom = 0L
  // Who reads on will go on reading: each window is larger than the one before.
  private var ahead = FirstWindowBytes
  private var back = FirstBackBytes

  /** The first byte that is no sound header or whole frame, and why. */
  private var gap: Gap = _
  val header: Option[SegmentHeader] =
    try {
      val header = SegmentHeader.decode(read(0, Format.HeaderBytes))
      if (header.segmentId != id) throw new BadFrame(s"the file is segment ${header.segmentId}")
      Some(header)
    } catch { case e: BadFrame => gap = Gap(0, e); None }
  private[log] val scan = new Scan(header.map(_.salt), FrameHeader.decode(_), read)

  /** Raise if there is no sound header. */
  def checkHeader(): Unit = if (header.isEmpty) throw damaged(gap)

  // Its body may be cut short.
  private lazy val schemaFrame: Option[Frame] =
    header.flatMap(_ => soundAt(Format.HeaderBytes)).filter(_.header.kind == Format.Schema)

  /** The SCHEMA frame's header, where it is sound. */
  def schema: Option[FrameHeader] = schemaFrame.map(_.header)

  /** The version that the segment builds on; none where its first two headers are not whole. */
  def baseVersion: Option[Long] = schema.map(_.inputUpto)

  // -- from the end back ------------------------------------------------------------------------

  private lazy val tail: Option[SegmentTail.Found] =
    schemaFrame.filter(isSoundSchema).flatMap(_ => SegmentTail.find(this))
  private var isBroken = false

  /** Raise if a frame here was found not to follow the one before it. */
  def checkLinks(): Unit = if (isBroken) throw damaged(framesEnd)

  private def isSoundSchema(frame: Frame): Boolean =
    try { checkSchema(frame); true } catch { case _: BadFrame => false }

  /** Where the whole frames end, and why there: the file's end, or what is wrong with the bytes behind. */
  private[log] def framesEnd: Gap = tail.filter(_ => !isBroken).map(_.end).getOrElse { scanned; gap }

  /** The BATCH frames, newest first, no more of them read than are asked for. */
  def backward: Iterator[FrameAt] = tail match {
    case Some(found) => Iterator.iterate(found.newest)(_.flatMap(before)).takeWhile(_.nonEmpty).flatten
    case None => scanned.reverseIterator.filter(_.header.isBatch)
  }

  /** The BATCH frame before this one in the segment. */
  def before(frame: FrameAt): Option[FrameAt] = {
    val head = frame.header
    def isFirst = head.prevSegment != id
    def at(byte: Long): Option[Frame] = {
      if (byte < frame.byte) loadBack(byte, frame.byte)
      frameAt(byte).filter(_.isBefore(frame.frame))
    }
    if (tail.nonEmpty && !isFirst) at(head.prevByte).map(FrameAt(this, _)).orElse { isBroken = true; scannedBefore(frame) }
    else if (tail.nonEmpty && at(Format.HeaderBytes).nonEmpty) None
    else { isBroken ||= tail.nonEmpty; scannedBefore(frame) }
  }

  private def scannedBefore(frame: FrameAt): Option[FrameAt] =
    scanned.reverseIterator.find(f => f.header.isBatch && f.byte < frame.byte)

  /** The whole frame at a byte, if one is there, proven up to its end only by its own checksum. */
  private[log] def frameAt(byte: Long): Option[Frame] = soundAt(byte).filter(_.end <= size)

  private def soundAt(byte: Long): Option[Frame] =
    if (byte < 0) None else try Some(scan.frameAt(byte)) catch { case _: BadFrame => None }

  /** The last frame of the newest attempt at a version that is here. */
  def ending(version: Long): Option[FrameAt] =
    backward.takeWhile(_.header.inputUpto >= version).find(_.header.endsVersion(version))

  def frameNumbered(seq: Long): Option[FrameAt] = backward.takeWhile(_.header.seq >= seq).find(_.header.seq == seq)

  /** The BATCH frame at a byte, whose running CRC is that of all before it. */
  def batchAt(byte: Long): Option[FrameAt] =
    header.flatMap(_ => frameAt(byte)).filter(_.header.isBatch).map(FrameAt(this, _))

  /** The frames with which versions end, newest first. */
  def versionEnds: Iterator[FrameAt] = backward.filter(_.header.endsVersion)

  // -- from the start ---------------------------------------------------------------------------

  private lazy val scanned: IndexedSeq[FrameAt] = header.map(walked).getOrElse(IndexedSeq.empty)

  private def walked(head: SegmentHeader): IndexedSeq[FrameAt] = {
    val chain = RunningCrc.extended(0, read(0, Format.HeaderBytes))
    val items = scan.frames(Format.HeaderBytes, size, Some(head.firstSeq), Some(chain)) { frame =>
      if (frame.byte == Format.HeaderBytes) checkSchema(frame)
    }.toIndexedSeq
    val frames = items.collect { case frame: Frame => FrameAt(this, frame) }
    gap = items.lastOption.collect { case found: Gap => found }.getOrElse(SegmentTail.fileEnd(size))
    frames
  }

  private def checkSchema(frame: Frame): Unit = {
    if (frame.header.kind != Format.Schema) throw new BadFrame("a segment starts with its schema")
    Body.checkSchema(scan.body(frame))
  }

  // -- bodies -----------------------------------------------------------------------------------

  /** The stored body of the SCHEMA frame, which is sound if there are any others. */
  def schemaBody: Array[Byte] = read(Format.HeaderBytes * 2, schema.get.bodyBytes)

  /** The stored body of a frame, its checksum proven; raises CecLogException. */
  def body(frame: FrameAt): Array[Byte] = guarded(frame)(scan.body(frame.frame))

  /** The rows of a frame, proven; raises CecLogException. */
  def rows(frame: FrameAt, rowsId: Int): Rows = guarded(frame) {
    val rows = Body.decode(frame.header, scan.body(frame.frame), rowsId)
    rows.firstOffset = frame.header.firstOffset
    rows.storedBytes = frame.header.frameBytes
    rows.place = FramePlace(id, frame.byte, frame.header.bodyBytes, frame.header.rawBytes, frame.header.codec)
    rows
  }

  private def guarded[A](frame: FrameAt)(act: => A): A =
    try act catch { case e: BadFrame => throw damaged(Gap(frame.byte, e)) }

  private[log] def damaged(gap: Gap): CecLogException =
    if (gap.isNewer) DamagedLog(path, gap.byte, gap.why) else damaged(gap.byte, gap.why.reason)

  def damaged(byte: Long, reason: String): CecLogException =
    new DamagedLog(path, s"byte $byte: $reason: the state log is damaged")

  // -- bytes ------------------------------------------------------------------------------------

  /** Small reads come out of a window, so that neighbouring ones cost one call. */
  private[log] def read(from: Long, length: Int): Array[Byte] = {
    if (!isLoaded(from, from + length)) {
      if (length > ahead) return fetched(from, length)
      load(from, ahead)
      ahead = math.min(ahead * 2, WindowBytes)
    }
    val start = math.min(from - windowFrom, window.length.toLong).toInt // nothing is beyond the end of the file
    java.util.Arrays.copyOfRange(window, start, math.max(start, math.min(start + length, window.length)))
  }

  /** Who reads backward will want what stands before: the window ends where this read does. */
  private[log] def loadBack(from: Long, until: Long): Unit =
    if (until - from <= BackWindowBytes && !isLoaded(from, until)) {
      val start = math.max(0, until - math.max(back, until - from))
      load(start, (until - start).toInt)
      back = math.min(back * 2, BackWindowBytes)
    }

  private def isLoaded(from: Long, until: Long): Boolean =
    from >= windowFrom && (until <= windowFrom + window.length || windowFrom + window.length == size)

  private def load(from: Long, length: Int): Unit = {
    window = fetched(from, length)
    windowFrom = from
  }

  /** A segment never shrinks; its file may be opened anew between two reads, and be another one by then. */
  private def fetched(from: Long, length: Int): Array[Byte] = {
    // Nothing beyond the size that it had: what is written meanwhile would not fit to what was looked at before.
    val due = math.max(0, math.min(length.toLong, size - from)).toInt
    val found = try inputs(id).read(from, due) catch { case _: EOFException => Array.emptyByteArray }
    if (found.length < due) throw damaged(from + found.length, s"the file was cut short: it had $size bytes when it was opened")
    found
  }

  /** Let go of what is in memory of it; it is read again if need be. */
  private[log] def letGo(): Unit = { window = new Array[Byte](0); windowFrom = 0 }
}

private[cecstore] object SegmentReader {
  private val FirstWindowBytes = 4 << 10
  private val WindowBytes = 64 << 10
  private val FirstBackBytes = 64 << 10
  private val BackWindowBytes = 1 << 20
}
