package org.apache.spark.sql.cecstore.format

import java.nio.{ByteBuffer, ByteOrder}
import java.util.zip.CRC32C

/** Numbers of the format that are frozen, its checksum and its byte order. docs/format.md §3 to §6. */
private[cecstore] object Format {
  val HeaderBytes = 128
  val NoSegment = -1L
  val Batch: Byte = 1
  val Schema: Byte = 2
  val Commit: Byte = 3
  val CodecNone: Byte = 0
  val CodecZstd: Byte = 1
  val CodecBlocks: Byte = 2
  val CodecColumns: Byte = 3
  /** A BATCH frame's flag: its step goes on in the next frame. */
  val Continues: Short = 1
  /** A BATCH frame's flag: windows and extent are those at its end. */
  val Counted: Short = 2
  val Data: Byte = 1
  val Open: Byte = 2
  val Check: Byte = 3
  val Result: Byte = 4
  val RecordStream = 1
  val SinceStream = 2
  val NamesFamily = 0
  val DefaultFamily = 1
  private val BodyBytesMax = 64 << 20
  val RawBytesMax: Int = 256 << 20
  /** A frame of one record, which cannot be cut, may have this much, stored and inflated. */
  val OneRecordBytesMax: Int = Int.MaxValue - 65535
  /** Of one key and its value; the rest of a frame is what stands around them. */
  val RowBytesMax: Int = OneRecordBytesMax - (64 << 10)
  private val RatioMax = 200L
  private val RatioSlackBytes = 64L << 10

  /** Readers refuse a body that inflates further, whoever wrote it. */
  def rawBytesMax(bodyBytes: Int, records: Int): Long =
    math.min(if (records == 1) OneRecordBytesMax else RawBytesMax, RatioMax * bodyBytes + RatioSlackBytes)

  def bodyBytesMax(records: Int): Int = if (records == 1) OneRecordBytesMax else BodyBytesMax

  def crc32c(bytes: Array[Byte], length: Int, from: Int = 0): Int = {
    val crc = new CRC32C
    crc.update(bytes, from, length)
    crc.getValue.toInt
  }

  /** Whether the last 4 bytes are the checksum of those before them. */
  def isSealed(bytes: Array[Byte]): Boolean = {
    val length = bytes.length - 4
    littleEndian(bytes).getInt(length) == crc32c(bytes, length)
  }

  def littleEndian(bytes: Array[Byte]): ByteBuffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN)
}

/** The running CRC of a segment: over the checksums of its headers so far, in order. docs/format.md §4. */
private[cecstore] object RunningCrc {
  private val Polynomial = 0x82f63b78 // Castagnoli's, reversed

  /**
   * The running CRC after one more header; 0 before the first. Java's own CRC cannot go on from a number.
   *
   * @param header as stored: its last 4 bytes are its checksum
   */
  def extended(before: Int, header: Array[Byte]): Int = {
    var crc = ~before
    var at = Format.HeaderBytes - 4
    while (at < Format.HeaderBytes) {
      crc ^= header(at) & 0xff
      var bit = 0
      while (bit < 8) { crc = (crc >>> 1) ^ (Polynomial & -(crc & 1)); bit += 1 }
      at += 1
    }
    ~crc
  }
}
