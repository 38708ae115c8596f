package org.apache.spark.sql.cecstore.log

import java.io.EOFException
import scala.collection.mutable.ArrayBuffer
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.{BadFrame, Body, DamagedLog, Format, FrameHeader, Rows, RunningCrc, SegmentHeader}

/** A whole frame of a segment; `runningCrc` is the segment's at its end. */
private[cecstore] final case class FrameAt(segment: SegmentReader, byte: Long, header: FrameHeader, runningCrc: Int) {
  def end: Long = byte + header.frameBytes
  def isBefore(next: FrameAt): Boolean = end == next.byte && runningCrc == next.header.chainCrc
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
  private var bad: (Long, String) = (0, "")
  val header: Option[SegmentHeader] =
    try {
      val header = SegmentHeader.decode(read(0, Format.HeaderBytes))
      if (header.segmentId != id) throw new BadFrame(s"the file is segment ${header.segmentId}")
      Some(header)
    } catch { case e: BadFrame => bad = (0, e.reason); None }

  /** Raise if there is no sound header. */
  def checkHeader(): Unit = if (header.isEmpty) throw damaged(bad._1, bad._2)

  /** The SCHEMA frame's header, where it is sound. */
  lazy val schema: Option[FrameHeader] = header.flatMap { head =>
    try Some(frameHeader(read(Format.HeaderBytes, Format.HeaderBytes), head)).filter(_.kind == Format.Schema)
    catch { case _: BadFrame => None }
  }

  /** The version that the segment builds on; none where its first two headers are not whole. */
  def baseVersion: Option[Long] = schema.map(_.inputUpto)

  // -- from the end back ------------------------------------------------------------------------

  private lazy val tail: Option[SegmentTail.Found] =
    if (schema.nonEmpty && hasSoundSchema) SegmentTail.find(this) else None
  private var isBroken = false

  /** Raise if a frame here was found not to follow the one before it. */
  def checkLinks(): Unit = if (isBroken) { val (byte, reason) = framesEnd; throw damaged(byte, reason) }

  private def hasSoundSchema: Boolean =
    try { checkSchema(Format.HeaderBytes, schema.get); true } catch { case _: BadFrame => false }

  /** Where the whole frames end, and why there: the file's end, or what is wrong with the bytes behind. */
  private[log] def framesEnd: (Long, String) = tail.filter(_ => !isBroken).map(_.end).getOrElse { scanned; bad }

  /** The BATCH frames, newest first, no more of them read than are asked for. */
  def backward: Iterator[FrameAt] = tail match {
    case Some(found) => Iterator.iterate(found.newest)(_.flatMap(before)).takeWhile(_.nonEmpty).flatten
    case None => scanned.reverseIterator.filter(_.header.isBatch)
  }

  /** The BATCH frame before this one in the segment. */
  def before(frame: FrameAt): Option[FrameAt] = {
    val head = frame.header
    def isFirst = head.prevSegment != id
    if (tail.nonEmpty && !isFirst) at(head.prevByte, frame.byte).filter(_.isBefore(frame)) match {
      case found: Some[FrameAt] => found
      case None => isBroken = true; scannedBefore(frame)
    } else if (tail.nonEmpty && at(Format.HeaderBytes, frame.byte).exists(_.isBefore(frame))) None
    else { isBroken ||= tail.nonEmpty; scannedBefore(frame) }
  }

  private def scannedBefore(frame: FrameAt): Option[FrameAt] =
    scanned.reverseIterator.find(f => f.header.isBatch && f.byte < frame.byte)

  /** The frame at a byte, if one is there, proven up to its end only by its own checksum. */
  private[log] def at(byte: Long, upto: Long = 0): Option[FrameAt] = {
    if (upto > byte) loadBack(byte, upto)
    header.flatMap { head =>
      try {
        val bytes = read(byte, Format.HeaderBytes)
        val h = frameHeader(bytes, head)
        Option.when(byte + h.frameBytes <= size)(FrameAt(this, byte, h, RunningCrc.extended(h.chainCrc, bytes)))
      } catch { case _: BadFrame => None }
    }
  }

  /** The last frame of the newest attempt at a version that is here. */
  def ending(version: Long): Option[FrameAt] =
    backward.takeWhile(_.header.inputUpto >= version).find(_.header.endsVersion(version))

  def frameNumbered(seq: Long): Option[FrameAt] = backward.takeWhile(_.header.seq >= seq).find(_.header.seq == seq)

  /** The BATCH frame at a byte, whose running CRC is that of all before it. */
  def batchAt(byte: Long): Option[FrameAt] =
    at(byte).filter(_.header.isBatch)

  /** The frames with which versions end, newest first. */
  def versionEnds: Iterator[FrameAt] = backward.filter(_.header.endsVersion)

  // -- from the start ---------------------------------------------------------------------------

  private lazy val scanned: IndexedSeq[FrameAt] = header.map(scan).getOrElse(IndexedSeq.empty)

  private def scan(head: SegmentHeader): IndexedSeq[FrameAt] = {
    val found = ArrayBuffer.empty[FrameAt]
    var runningCrc = RunningCrc.extended(0, read(0, Format.HeaderBytes))
    var byte = Format.HeaderBytes.toLong
    var due = head.firstSeq
    try {
      while (byte < size) {
        val bytes = read(byte, Format.HeaderBytes)
        val h = frameHeader(bytes, head)
        if (h.seq != due) throw new BadFrame(s"frame number ${h.seq} where $due is due")
        if (byte + h.frameBytes > size) throw new BadFrame("body cut short")
        if (found.isEmpty) checkSchema(byte, h)
        runningCrc = RunningCrc.extended(runningCrc, bytes)
        found += FrameAt(this, byte, h, runningCrc)
        byte += h.frameBytes
        if (h.isBatch) due += 1
      }
      bad = (byte, SegmentTail.FileEnd)
    } catch { case e: BadFrame => bad = (byte, e.reason) }
    found.toIndexedSeq
  }

  private[log] def frameHeader(bytes: Array[Byte], head: SegmentHeader): FrameHeader = {
    val h = FrameHeader.decode(bytes)
    if (h.salt != head.salt) throw new BadFrame("the frame belongs to another segment")
    h
  }

  private def checkSchema(byte: Long, h: FrameHeader): Unit = {
    if (h.kind != Format.Schema) throw new BadFrame("a segment starts with its schema")
    val body = read(byte + Format.HeaderBytes, h.bodyBytes)
    if (Format.crc32c(body, body.length) != h.bodyCrc) throw new BadFrame("schema fails its checksum")
    Body.checkSchema(body)
  }

  // -- bodies -----------------------------------------------------------------------------------

  /** The stored body of the SCHEMA frame, which is sound if there are any others. */
  def schemaBody: Array[Byte] = read(Format.HeaderBytes * 2, schema.get.bodyBytes)

  /** The stored body of a frame, its checksum proven; raises CecLogException. */
  def body(frame: FrameAt): Array[Byte] = {
    val body = read(frame.byte + Format.HeaderBytes, frame.header.bodyBytes)
    if (body.length < frame.header.bodyBytes) throw damaged(frame.byte, "body cut short")
    if (Format.crc32c(body, body.length) != frame.header.bodyCrc) throw damaged(frame.byte, "body fails its checksum")
    body
  }

  /** The rows of a frame, proven; raises CecLogException. */
  def rows(frame: FrameAt, rowsId: Int): Rows = try {
    val rows = Body.decode(frame.header, body(frame), rowsId)
    rows.firstOffset = frame.header.firstOffset
    rows.storedBytes = frame.header.frameBytes
    rows
  } catch { case e: BadFrame => throw damaged(frame.byte, e.reason) }

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
    val found = try inputs(id).read(from, length) catch { case _: EOFException => Array.emptyByteArray }
    val due = math.min(length.toLong, size - from)
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
