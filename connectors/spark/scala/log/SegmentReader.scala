package org.apache.spark.sql.cecstore.log

import java.io.{Closeable, FileNotFoundException}
import java.nio.file.NoSuchFileException
import scala.collection.mutable.ArrayBuffer
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.{BadFrame, Body, Format, FrameHeader, Rows, RunningCrc, SegmentHeader}

/** A whole frame of a segment; `runningCrc` is the segment's at its end. */
private[cecstore] final case class FrameAt(
    segment: SegmentReader, index: Int, byte: Long, header: FrameHeader, runningCrc: Int) {
  def end: Long = byte + header.frameBytes
}

/** One segment file, its frame headers read forward. docs/format.md §3, §4, §7. For one thread. */
private[cecstore] final class SegmentReader(folder: SegmentFolder, val id: Long) extends Closeable {
  import SegmentReader._

  val path: String = folder.pathOf(id)
  private val input = try folder.open(id) catch {
    case e @ (_: FileNotFoundException | _: NoSuchFileException) =>
      throw new CecLogException(s"$path: the segment is missing", e)
  }
  private var window = new Array[Byte](0)
  private var windowFrom = 0L
  val size: Long = input.size

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

  /** All whole frames by their headers, in order. Bodies are proven when they are read. */
  lazy val frames: IndexedSeq[FrameAt] = header.map(scan).getOrElse(IndexedSeq.empty)

  /** Where the whole frames end, and why there: the file's end, or what is wrong with the bytes behind. */
  private[log] def framesEnd: (Long, String) = { frames; bad }

  /** The frames with which versions end. */
  def versionEnds: IndexedSeq[FrameAt] = frames.filter(_.header.endsVersion)

  def frameNumbered(seq: Long): Option[FrameAt] = frames.find(f => f.header.isBatch && f.header.seq == seq)

  /** The version that the segment builds on; none where its first two headers are not whole. */
  def baseVersion: Option[Long] = header.flatMap { head =>
    try Some(frameHeader(headerBytes(Format.HeaderBytes), head)).filter(_.kind == Format.Schema).map(_.inputUpto)
    catch { case _: BadFrame => None }
  }

  private def scan(head: SegmentHeader): IndexedSeq[FrameAt] = {
    val found = ArrayBuffer.empty[FrameAt]
    val runningCrc = new RunningCrc
    runningCrc.add(headerBytes(0))
    var byte = Format.HeaderBytes.toLong
    var due = head.firstSeq
    try {
      while (byte < size) {
        val bytes = headerBytes(byte)
        val h = frameHeader(bytes, head)
        if (h.seq != due) throw new BadFrame(s"frame number ${h.seq} where $due is due")
        if (byte + h.frameBytes > size) throw new BadFrame("body cut short")
        if (found.isEmpty) checkSchema(byte, h)
        runningCrc.add(bytes)
        found += FrameAt(this, found.size, byte, h, runningCrc.value)
        byte += h.frameBytes
        if (h.isBatch) due += 1
      }
      bad = (byte, "the file ends here")
    } catch { case e: BadFrame => bad = (byte, e.reason) }
    found.toIndexedSeq
  }

  private def headerBytes(byte: Long): Array[Byte] = read(byte, Format.HeaderBytes)

  private def frameHeader(bytes: Array[Byte], head: SegmentHeader): FrameHeader = {
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
    new CecLogException(s"$path: byte $byte: $reason: the state log is damaged")

  /** Small reads come out of a window, so that neighbouring ones cost one call. */
  private[log] def read(from: Long, length: Int): Array[Byte] = {
    if (length > WindowBytes) return input.read(from, length)
    if (from < windowFrom || from + length > windowFrom + window.length) {
      window = input.read(from, WindowBytes)
      windowFrom = from
    }
    val start = (from - windowFrom).toInt
    java.util.Arrays.copyOfRange(window, start, math.min(start + length, window.length))
  }

  override def close(): Unit = input.close()
}

private[cecstore] object SegmentReader {
  private val WindowBytes = 32 << 10
}
