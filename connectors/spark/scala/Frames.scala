package org.apache.spark.sql.cecstore

import java.io.IOException
import java.nio.{ByteBuffer, ByteOrder}
import java.util.zip.CRC32C

/** A log that cannot be read or written. The message names the file, the byte and what to do. */
class CecLogException(message: String, cause: Throwable = null) extends IOException(message, cause)

/** These bytes are not the header asked for; never leaves the log's files. */
private[cecstore] class BadFrame(val reason: String) extends Exception(reason)

/** Numbers of the format that are frozen. docs/format.md §3 to §6. */
private[cecstore] object Format {
  val HeaderBytes = 128
  val None = -1L
  val NotCounted = -1
  val Batch: Byte = 1
  val Schema: Byte = 2
  val SkippableBit = 0x20
  val CodecNone: Byte = 0
  val CodecZstd: Byte = 1
  val CodecZstdLengths: Byte = 2
  val Open: Byte = 2
  val Check: Byte = 3
  val Result: Byte = 4
  val RecordStream = 1
  val NamesFamily = 0
  val DefaultFamily = 1
  val BodyBytesMax: Int = 64 << 20
  val RawBytesMax: Int = 256 << 20
  private val RatioMax = 200L
  private val RatioSlackBytes = 64L << 10
  val FrameMagic: Int = 0x46434543 // "CECF"
  private val SegmentMagic = "CECSEGM\u0000".getBytes("US-ASCII")

  /** Readers refuse a body that inflates further, whoever wrote it. */
  def rawBytesMax(bodyBytes: Int): Long =
    math.min(RawBytesMax.toLong, RatioMax * bodyBytes + RatioSlackBytes)

  def crc(bytes: Array[Byte], from: Int, length: Int): Int = {
    val crc = new CRC32C
    crc.update(bytes, from, length)
    crc.getValue.toInt
  }

  def littleEndian(bytes: Array[Byte], from: Int = 0): ByteBuffer =
    ByteBuffer.wrap(bytes, from, bytes.length - from).slice().order(ByteOrder.LITTLE_ENDIAN)

  /** The first 128 bytes of a segment, checked in this order: length, magic, CRC, version. */
  def decodeSegment(bytes: Array[Byte]): SegmentHeader = {
    if (bytes.length < HeaderBytes) throw new BadFrame(s"segment header cut short at ${bytes.length}")
    if (!bytes.startsWith(SegmentMagic)) throw new BadFrame("segment magic is wrong")
    val in = littleEndian(bytes)
    if (in.getInt(124) != crc(bytes, 0, 124)) throw new BadFrame("segment header fails its checksum")
    if (in.getShort(8) != 1) throw new BadFrame(s"format version ${in.getShort(8)}: upgrade cec-store")
    val logId = bytes.slice(16, 32)
    SegmentHeader(logId, in.getLong(32), in.getLong(40), in.getLong(48), in.getLong(56), in.getLong(64),
      in.getLong(72), in.getInt(80), in.getLong(88))
  }

  def encode(header: SegmentHeader): Array[Byte] = {
    val bytes = new Array[Byte](HeaderBytes)
    val out = littleEndian(bytes)
    out.put(SegmentMagic).putShort(1).putShort(HeaderBytes.toShort).putInt(0).put(header.logId)
    out.putLong(header.segmentId).putLong(header.salt).putLong(header.firstSeq)
    out.putLong(header.prevSegment).putLong(header.prevBytes).putLong(header.prevSalt)
    out.putInt(header.prevChain).putInt(0).putLong(header.createdUs)
    out.putInt(124, crc(bytes, 0, 124))
    bytes
  }

  /** The frame header at `from`; its CRC is proven before anything in it is believed. */
  def decodeFrame(bytes: Array[Byte], from: Int): FrameHeader = {
    if (bytes.length - from < HeaderBytes) throw new BadFrame("frame header cut short")
    val in = littleEndian(bytes, from)
    if (in.getInt(0) != FrameMagic) throw new BadFrame("frame magic is wrong")
    if (in.getInt(124) != crc(bytes, from, 124)) throw new BadFrame("frame header fails its checksum")
    val h = FrameHeader(in.get(4), in.get(5), in.getInt(8), in.getLong(16), in.getLong(24), in.getLong(32),
      in.getLong(40), in.getLong(48), in.getLong(56), in.getLong(64), in.getLong(72), in.getLong(80),
      in.getLong(88), in.getLong(96), in.getInt(104), in.getInt(108), in.getInt(112), in.getInt(116),
      in.getInt(120), in.getInt(124))
    if (h.kind < 1 || h.kind > 4 && (h.kind & SkippableBit) == 0) {
      throw new BadFrame(s"frame of unknown type ${h.kind}: upgrade cec-store")
    }
    if (h.codec < CodecNone || h.codec > CodecZstdLengths) {
      throw new BadFrame(s"body with unknown codec ${h.codec}: upgrade cec-store")
    }
    if (h.bodyBytes < 0 || h.bodyBytes > BodyBytesMax || h.rawBytes < 0 ||
        h.rawBytes > rawBytesMax(h.bodyBytes)) {
      throw new BadFrame(s"frame of ${h.bodyBytes} bytes, ${h.rawBytes} inflated: beyond the limits")
    }
    h
  }

  def encode(h: FrameHeader): Array[Byte] = {
    val bytes = new Array[Byte](HeaderBytes)
    val out = littleEndian(bytes)
    out.putInt(FrameMagic).put(h.kind).put(h.codec).putShort(HeaderBytes.toShort).putInt(h.streamId)
    out.putInt(0).putLong(h.seq).putLong(h.firstOffset).putLong(h.prevSegment).putLong(h.prevByte)
    out.putLong(h.schemaByte).putLong(h.durableUpto).putLong(h.salt).putLong(h.minTimestampUs)
    out.putLong(h.maxTimestampUs).putLong(h.extentRecords).putLong(h.inputUpto).putInt(h.recordCount)
    out.putInt(h.openWindows).putInt(h.bodyBytes).putInt(h.rawBytes).putInt(h.bodyCrc)
    out.putInt(124, crc(bytes, 0, 124))
    bytes
  }
}

/** docs/format.md §3; `epoch` is always 0 in state logs. */
private[cecstore] final case class SegmentHeader(
    logId: Array[Byte], segmentId: Long, salt: Long, firstSeq: Long, prevSegment: Long, prevBytes: Long,
    prevSalt: Long, prevChain: Int, createdUs: Long)

/** docs/format.md §4. `headerCrc` is what was read; encoding computes it anew. */
private[cecstore] final case class FrameHeader(
    kind: Byte, codec: Byte, streamId: Int, seq: Long, firstOffset: Long, prevSegment: Long,
    prevByte: Long, schemaByte: Long, durableUpto: Long, salt: Long, minTimestampUs: Long,
    maxTimestampUs: Long, extentRecords: Long, inputUpto: Long, recordCount: Int, openWindows: Int,
    bodyBytes: Int, rawBytes: Int, bodyCrc: Int, headerCrc: Int = 0) {
  def frameBytes: Long = Format.HeaderBytes.toLong + bodyBytes
  def endOffset: Long = firstOffset + recordCount
  def isVersion(version: Long): Boolean =
    kind == Format.Batch && inputUpto == version && openWindows != Format.NotCounted
}
