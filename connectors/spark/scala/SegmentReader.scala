package org.apache.spark.sql.cecstore

import java.io.{Closeable, FileNotFoundException}
import java.nio.file.NoSuchFileException
import java.util.zip.CRC32C

import scala.collection.mutable.ArrayBuffer

/** A whole frame of a segment; `chain` is the segment's chain CRC at its end. */
private[cecstore] final case class FrameAt(segment: SegmentReader, index: Int, byte: Long, header: FrameHeader, chain: Int) {
  def end: Long = byte + header.frameBytes
}

/** One segment file, its frame headers read forward. docs/format.md §3, §4, §7. */
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

  /** Why the segment cannot be read at all, if so. */
  private var unreadable: Option[String] = None
  val header: Option[SegmentHeader] =
    try {
      val header = Format.decodeSegment(read(0, Format.HeaderBytes))
      if (header.segmentId != id) throw new BadFrame(s"the file is segment ${header.segmentId}")
      Some(header)
    } catch { case e: BadFrame => unreadable = Some(e.reason); None }

  /** Raise if there is no sound header. */
  def checkHead(): Unit = unreadable.foreach(reason => throw damaged(0, reason))

  /** The first byte that is no whole frame and why, after [[frames]] has been read. */
  private var bad: (Long, String) = (0, "")

  /** All whole frames by their headers, in order. Bodies are proven when they are read. */
  lazy val frames: IndexedSeq[FrameAt] = header.map(scan).getOrElse(IndexedSeq.empty)

  /** The version that the segment builds on; none where its head is not whole. */
  def baseVersion: Option[Long] = header.flatMap { head =>
    try Some(headerAt(Format.HeaderBytes, head)).filter(_.kind == Format.Schema).map(_.inputUpto)
    catch { case _: BadFrame => None }
  }

  private def scan(head: SegmentHeader): IndexedSeq[FrameAt] = {
    val found = ArrayBuffer.empty[FrameAt]
    val chain = new CRC32C
    chain.update(read(0, Format.HeaderBytes), 124, 4)
    var byte = Format.HeaderBytes.toLong
    var due = head.firstSeq
    try {
      while (byte < size) {
        val h = headerAt(byte, head)
        if (h.seq != due) throw new BadFrame(s"frame number ${h.seq} where $due is due")
        if (byte + h.frameBytes > size) throw new BadFrame("body cut short")
        if (found.isEmpty) checkSchema(byte, h)
        chain.update(crcBytes(h.headerCrc), 0, 4)
        found += FrameAt(this, found.size, byte, h, chain.getValue.toInt)
        byte += h.frameBytes
        if (h.kind == Format.Batch) due += 1
      }
      bad = (byte, "the file ends here")
    } catch { case e: BadFrame => bad = (byte, e.reason) }
    found.toIndexedSeq
  }

  private def headerAt(byte: Long, head: SegmentHeader): FrameHeader = {
    val h = Format.decodeFrame(read(byte, Format.HeaderBytes), 0)
    if (h.salt != head.salt) throw new BadFrame("the frame belongs to another segment")
    h
  }

  private def checkSchema(byte: Long, h: FrameHeader): Unit = {
    if (h.kind != Format.Schema) throw new BadFrame("a segment starts with its schema")
    val body = read(byte + Format.HeaderBytes, h.bodyBytes)
    if (Format.crc(body, 0, body.length) != h.bodyCrc) throw new BadFrame("schema fails its checksum")
    Body.checkSchema(body)
  }

  /** The stored body of a frame, its checksum proven; raises CecLogException. */
  def bytes(frame: FrameAt): Array[Byte] = {
    val body = read(frame.byte + Format.HeaderBytes, frame.header.bodyBytes)
    if (body.length < frame.header.bodyBytes) throw damaged(frame.byte, "body cut short")
    if (Format.crc(body, 0, body.length) != frame.header.bodyCrc) throw damaged(frame.byte, "body fails its checksum")
    body
  }

  /** The rows of a frame, proven; raises CecLogException. */
  def rows(frame: FrameAt, rowsId: Int): Rows = try {
    val rows = Body.decode(frame.header, bytes(frame), rowsId)
    rows.firstOffset = frame.header.firstOffset
    rows.storedBytes = frame.header.frameBytes
    rows
  } catch { case e: BadFrame => throw damaged(frame.byte, e.reason) }

  def damaged(byte: Long, reason: String): CecLogException =
    new CecLogException(s"$path: byte $byte: $reason: the state log is damaged")

  /**
   * Raise if what stands behind the last whole frame can only be damage: somebody builds on it, more of this
   * segment's frames follow, or a frame is all there and wrong. An unfinished write is the end of a dead writer.
   *
   * @param vouched how many bytes other segments build on
   */
  def checkTail(vouched: Long): Unit = {
    frames
    val (byte, reason) = unreadable.map(0L -> _).getOrElse(bad)
    if (byte < vouched || byte < size && (!isUnfinished(byte) || hasFrameBeyond(byte + 1, header.map(_.salt)))) {
      throw damaged(byte, reason)
    }
  }

  /** Whether the file is just too short for what begins here, or goes on with zeros that were never filled. */
  private def isUnfinished(byte: Long): Boolean = {
    val head = read(byte, Format.HeaderBytes)
    head.length < Format.HeaderBytes || input.read(byte + 124, SearchBytes).forall(_ == 0) ||
      (try byte + Format.decodeFrame(head, 0).frameBytes > size catch { case _: BadFrame => false })
  }

  private def hasFrameBeyond(from: Long, salt: Option[Long]): Boolean = {
    var at = from
    while (at < size) {
      val block = input.read(at, SearchBytes + Format.HeaderBytes)
      var i = 0
      while (i <= block.length - Format.HeaderBytes && i < SearchBytes) {
        if (block(i) == 'C' && block(i + 1) == 'E' && block(i + 2) == 'C' && block(i + 3) == 'F' && isFrame(block, i, salt)) {
          return true
        }
        i += 1
      }
      at += SearchBytes
    }
    false
  }

  private def isFrame(block: Array[Byte], at: Int, salt: Option[Long]): Boolean =
    try {
      val h = Format.decodeFrame(block.slice(at, at + Format.HeaderBytes), 0)
      h.kind == Format.Batch && salt.forall(_ == h.salt)
    } catch { case _: BadFrame => false }

  /** Small reads come out of a window, so that neighbouring ones cost one call. */
  private def read(from: Long, length: Int): Array[Byte] = {
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
  private val SearchBytes = 1 << 20

  private def crcBytes(crc: Int): Array[Byte] =
    Array(crc.toByte, (crc >>> 8).toByte, (crc >>> 16).toByte, (crc >>> 24).toByte)
}
