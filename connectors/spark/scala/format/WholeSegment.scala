package org.apache.spark.sql.cecstore.format

import java.util.Arrays
import scala.collection.mutable.ArrayBuffer
import org.apache.spark.sql.cecstore.CecLogException

/**
 * A complete segment: header, SCHEMA, BATCH frames. docs/format.md §11. Bodies are proven when they are wanted;
 * whether it is all that was written is for whoever names it to say.
 *
 * @param frames its BATCH frames and the byte of each
 */
private[cecstore] final class WholeSegment(
    val header: SegmentHeader, val schemaMessage: Array[Byte], val frames: IndexedSeq[(Int, FrameHeader)],
    bytes: Array[Byte], path: String) {

  /** The body of one of its frames. Raises CecLogException where it fails its checksum. */
  def body(byte: Int, frame: FrameHeader): Array[Byte] = {
    val start = byte + Format.HeaderBytes
    val body = Arrays.copyOfRange(bytes, start, start + frame.bodyBytes)
    val isSound = Format.crc32c(body, body.length) == frame.bodyCrc
    if (isSound) body else throw WholeSegment.damaged(path, byte, "body fails its checksum")
  }
}

private[cecstore] object WholeSegment {
  import Format._

  def damaged(path: String, byte: Long, reason: String): CecLogException =
    new DamagedLog(path, s"byte $byte: $reason. Restore this file from a copy")

  /** Raises CecLogException where it is not whole, or anything in its headers is not what it ought to be. */
  def decode(bytes: Array[Byte], path: String): WholeSegment = {
    var byte = 0
    try {
      val header = SegmentHeader.decode(bytes)
      byte = HeaderBytes
      var runningCrc = RunningCrc.extended(0, bytes)
      var schema: Array[Byte] = null
      val frames = ArrayBuffer.empty[(Int, FrameHeader)]
      while (schema == null || byte < bytes.length) {
        val head = Arrays.copyOfRange(bytes, math.min(byte, bytes.length), math.min(byte + HeaderBytes, bytes.length))
        val frame = FrameHeader.decode(head, CodecColumns)
        val start = byte + HeaderBytes
        if (frame.bodyBytes > bytes.length - start) throw new BadFrame("body cut short")
        check(frame, header, frames.lastOption.map(_._2), schema == null)
        if (frame.chainCrc != runningCrc) throw new BadFrame("its chain CRC is not that of the frames before it")
        runningCrc = RunningCrc.extended(runningCrc, head)
        if (!frame.isBatch) checkBody(frame, Arrays.copyOfRange(bytes, start, start + frame.bodyBytes))
        if (schema == null) schema = Arrays.copyOfRange(bytes, start, start + frame.bodyBytes)
        else frames += ((byte, frame))
        byte += frame.frameBytes.toInt
      }
      new WholeSegment(header, schema, frames.toIndexedSeq, bytes, path)
    } catch { case e: BadFrame => throw damaged(path, byte, e.reason) }
  }

  private def checkBody(frame: FrameHeader, body: Array[Byte]): Unit =
    if (crc32c(body, body.length) != frame.bodyCrc) throw new BadFrame("body fails its checksum")

  private def check(
      frame: FrameHeader, segment: SegmentHeader, last: Option[FrameHeader], isFirst: Boolean): Unit = {
    if (frame.salt != segment.salt) throw new BadFrame("the frame belongs to another segment")
    if (isFirst != (frame.kind == Schema)) throw new BadFrame("a segment starts with its schema, and has one")
    if (frame.isBatch) {
      val (seq, offset) = last.map(before => (before.seq + 1, before.endOffset)).getOrElse((0L, 0L))
      if (frame.seq != seq || frame.firstOffset != offset) {
        throw new BadFrame(s"frame ${frame.seq} at offset ${frame.firstOffset}, where $seq at $offset is due")
      }
      if (frame.streamId != RecordStream) throw new BadFrame(s"a frame of stream ${frame.streamId}, not $RecordStream")
    }
  }

  /** The bytes of such a segment, part by part. `seq` and offsets count from 0. For one thread. */
  final class Encoder(header: SegmentHeader, schemaMessage: Array[Byte]) {
    private var runningCrc = 0
    private var seq, offset = 0L
    private var (lastSegment, lastByte) = (NoSegment, 0L)
    private var byte = 0L
    private var framesFrom, framesUpto = 0L

    /** Where its BATCH frames begin, and their bytes by now. */
    def batches: (Long, Long) = (framesFrom, framesUpto - framesFrom)
    def records: Long = offset

    def begin(): Seq[Array[Byte]] = {
      val head = header.encoded
      runningCrc = RunningCrc.extended(0, head)
      byte = head.length
      val schema = added(frame(Schema, CodecNone, 0, schemaMessage.length), schemaMessage)
      framesFrom = byte
      framesUpto = byte
      head +: schema
    }

    def batch(body: StoredBody, count: Int, leastUs: Long, greatestUs: Long): Seq[Array[Byte]] = {
      val at = byte
      val made = frame(Batch, body.codec, seq, body.rawBytes)
        .copy(firstOffset = offset, minTimestampUs = leastUs, maxTimestampUs = greatestUs, recordCount = count)
      seq += 1
      offset += count
      val parts = added(made, body.bytes)
      lastSegment = header.segmentId
      lastByte = at
      framesUpto = byte
      parts
    }

    private def frame(kind: Byte, codec: Byte, seq: Long, rawBytes: Int): FrameHeader =
      FrameHeader(kind, codec, 0, RecordStream, 0, seq, 0, lastSegment, lastByte, HeaderBytes, 0, header.salt,
        Long.MaxValue, Long.MinValue, 0, 0, 0, 0, 0, rawBytes, 0)

    private def added(frame: FrameHeader, body: Array[Byte]): Seq[Array[Byte]] = {
      val head = frame.copy(chainCrc = runningCrc, bodyBytes = body.length, bodyCrc = crc32c(body, body.length)).encoded
      runningCrc = RunningCrc.extended(runningCrc, head)
      byte += head.length + body.length
      Seq(head, body)
    }
  }
}
