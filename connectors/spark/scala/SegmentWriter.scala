package org.apache.spark.sql.cecstore

import java.util.Random
import java.util.zip.CRC32C

import scala.collection.mutable.ArrayBuffer

/** A version as it goes into the log: its bodies with their numbers of records, and what its last header says. */
private[cecstore] final case class Version(
    number: Long, bodies: Seq[(StoredBody, Int)], extentRecords: Long, openWindows: Long, timestampUs: Long) {
  def recordCount: Long = bodies.map(_._2.toLong).sum
}

/**
 * Appends commits to segments of its own. docs/format.md §9. After a failed write or sync the segment is never
 * touched again: the next commit begins another, on the last version that succeeded.
 *
 * @param seen the highest ordinal in the directory when the base was loaded
 */
private[cecstore] final class SegmentWriter(
    folder: SegmentFolder, settings: Settings, seen: Long, random: Random, clockUs: () => Long) {
  import Format._

  private var ordinal = seen
  private var output: SegmentOutput = null
  private var header: SegmentHeader = null
  /** Bytes of the segment, those about to be written included. */
  private var bytes = 0L
  private var syncedBytes = 0L
  private var chain = new CRC32C
  /** The version that ends the segment. */
  private var last: Base = null

  /** False once a file system turned out to publish whole objects only. */
  @volatile var grows = true

  /** Make the version durable on top of `base`; returns where it ends, and the bytes written. */
  def append(base: Base, version: Version): (Base, Long) = {
    val goesOn = output != null && output.grows && (last eq base) && bytes < settings.segmentBytes
    if (!goesOn) close()
    val parts = ArrayBuffer.empty[Array[Byte]]
    if (!goesOn) begin(base, parts)
    val before = if (goesOn) bytes else 0L
    val end = frames(base, version, parts)
    val growing = output
    output = null // until it has succeeded
    output = if (goesOn) { growing.append(before, parts.toArray, settings.isSynced); growing }
      else folder.create(header.segmentId, parts.toArray, settings.isSynced)
    grows = output.grows
    if (settings.isSynced) syncedBytes = bytes
    last = end
    (end, bytes - before)
  }

  private def begin(base: Base, parts: ArrayBuffer[Array[Byte]]): Unit = {
    ordinal += 1
    val id = ordinal << 32 | (random.nextInt() & 0x7fffffffL) << 1
    val logId = if (base.isEmpty) { val fresh = new Array[Byte](16); random.nextBytes(fresh); fresh } else base.logId
    header = SegmentHeader(logId, id, random.nextLong(), base.nextSeq, base.segment, base.end, base.salt, base.chain, clockUs())
    chain = new CRC32C
    bytes = 0
    syncedBytes = 0
    add(parts, encode(header), Array.emptyByteArray)
    val schema = Body.schemaMessage
    add(parts, encode(FrameHeader(Schema, CodecNone, RecordStream, base.nextSeq, base.nextOffset, base.segment, base.byte,
      HeaderBytes, 0, header.salt, Long.MaxValue, Long.MinValue, 0, base.version, 0, 0, schema.length, schema.length,
      crc(schema, 0, schema.length))), schema)
  }

  private def frames(base: Base, version: Version, parts: ArrayBuffer[Array[Byte]]): Base = {
    var end = base
    version.bodies.zipWithIndex.foreach { case ((body, records), i) =>
      val isLast = i == version.bodies.size - 1
      val (low, high) = if (records == 0) (Long.MaxValue, Long.MinValue) else (version.timestampUs, version.timestampUs)
      val byte = bytes
      add(parts, encode(FrameHeader(Batch, body.codec, RecordStream, end.nextSeq, end.nextOffset, end.segment, end.byte,
        HeaderBytes, syncedBytes, header.salt, low, high, if (isLast) version.extentRecords else 0, version.number,
        records, if (isLast) version.openWindows.toInt else NotCounted, body.bytes.length, body.rawBytes,
        crc(body.bytes, 0, body.bytes.length))), body.bytes)
      end = Base(version.number, header.logId, header.segmentId, header.salt, end.nextSeq, byte, bytes,
        chain.getValue.toInt, end.nextSeq + 1, end.nextOffset + records)
    }
    end
  }

  private def add(parts: ArrayBuffer[Array[Byte]], head: Array[Byte], body: Array[Byte]): Unit = {
    parts += head
    if (body.nonEmpty) parts += body
    chain.update(head, HeaderBytes - 4, 4)
    bytes += head.length + body.length
  }

  /** Let go of the segment; the next commit begins another. */
  def close(): Unit = {
    val output_ = output
    output = null
    if (output_ != null) output_.close()
  }
}
