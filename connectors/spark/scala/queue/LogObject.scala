package org.apache.spark.sql.cecstore.queue

import java.util.Arrays
import org.apache.spark.sql.cecstore.format._
import scala.util.Using
import scala.util.control.NonFatal

/** Rows of a partition that one object holds, as a commit says it: docs/format.md §11 explains each number. */
private[cecstore] final case class Segment(
    partition: Int, firstOffset: Long, records: Long, file: String, byte: Long, bytes: Long, salt: Long,
    leastUs: Long, greatestUs: Long, frames: Int, writtenUs: Long, removed: Boolean) {
  def endOffset: Long = firstOffset + records
}

/**
 * What a queue is after one commit, besides its segments.
 *
 * @param query, batch who commits and which of its batches; without a query there is no batch
 * @param starts, ends oldest and next offset of each partition
 * @param queries the last batch of every streaming query that ever committed
 * @param consumed by `log_id` in hexadecimal: what the batch took in of other queues, next offsets
 * @param schema of a commit that makes a queue: its record schema as in a SCHEMA frame
 */
private[cecstore] final case class Commit(
    operation: Byte, query: Option[String], batch: Long, starts: Array[Long], ends: Array[Long],
    queries: Map[String, Long], consumed: Map[String, Array[Long]], settings: Map[String, String],
    schema: Option[Array[Byte]]) {
  /** Whether this batch of this query is in the queue already. */
  def has(query: String, batch: Long): Boolean = queries.get(query).exists(_ >= batch)
}

private[cecstore] object Operation {
  val (make, append, merge, trim, set): (Byte, Byte, Byte, Byte, Byte) = (1, 2, 3, 4, 5)
}

/**
 * An object of `log/`: a commit with its segments, or a summary.
 *
 * @param salt random in each commit, so that no two are equal by chance; a summary has its commit's
 * @param previous number and salt of the commit that it goes on from: the one before, or a summary's base
 */
private[cecstore] final case class LogObject(
    number: Long, logId: IndexedSeq[Byte], commit: Commit, segments: IndexedSeq[Segment], createdUs: Long,
    isSummary: Boolean, salt: Long = 0, previous: Option[(Long, Long)] = None) {

  def encode(): Seq[Array[Byte]] = {
    val (before, saltBefore) = previous.getOrElse((Format.NoSegment, 0L))
    val head = SegmentHeader(logId.toArray, number, salt, 0, before, 0, saltBefore, 0, createdUs).encoded
    val raw = CommitBody.encode(commit, segments)
    val body = Using.resource(new BodyEncoder(LogObject.CompressionLevel))(_.whole(raw, segments.size))
    val stored = body.bytes
    val frame = FrameHeader(Format.Commit, body.codec, 0, LogObject.stream(isSummary), RunningCrc.extended(0, head), 0, 0,
      Format.NoSegment, 0, Format.HeaderBytes, 0, salt, Long.MaxValue, Long.MinValue, 0, 0, segments.size, 0, stored.length,
      body.rawBytes, Format.crc32c(stored, stored.length))
    Seq(head, frame.encoded, stored)
  }
}

private[cecstore] object LogObject {
  private val CompressionLevel = 3

  private def stream(isSummary: Boolean): Int = if (isSummary) Format.SummaryStream else Format.RecordStream

  /**
   * Back from bytes that were read from `path`. Raises CecLogException where they are not those of this commit or
   * summary, or where a later format wrote them.
   */
  def decode(bytes: Array[Byte], path: String, number: Long, isSummary: Boolean = false): LogObject = try {
    val found = SegmentHeader.decode(bytes)
    if (found.segmentId != number) throw new BadFrame(s"the object is number ${found.segmentId}")
    val (commit, segments) = CommitBody.decode(bodyOf(found, bytes, stream(isSummary)))
    val previous = Option.when(found.prevSegment != Format.NoSegment)((found.prevSegment, found.prevSalt))
    LogObject(number, found.logId.toIndexedSeq, commit, segments, found.createdUs, isSummary, found.salt, previous)
  } catch {
    case e: BadFrame => throw WholeSegment.damaged(path, 0, e.reason)
    case NonFatal(e) => throw WholeSegment.damaged(path, Format.HeaderBytes, s"a commit that says what cannot be: $e")
  }

  /** The body of an object's one frame, inflated. */
  private def bodyOf(header: SegmentHeader, bytes: Array[Byte], stream: Int): Array[Byte] = {
    val (first, start) = (Format.HeaderBytes, 2 * Format.HeaderBytes)
    val frame = FrameHeader.decodeOfCommit(Arrays.copyOfRange(bytes, math.min(first, bytes.length), math.min(start, bytes.length)))
    if (frame.salt != header.salt) throw new BadFrame("the frame belongs to another object")
    if (frame.chainCrc != RunningCrc.extended(0, bytes)) throw new BadFrame("its chain CRC is not that of the header before it")
    if (frame.streamId != stream) throw new BadFrame(s"a frame of stream ${frame.streamId}, not $stream")
    if (bytes.length - start != frame.bodyBytes) {
      throw new BadFrame(s"body of ${bytes.length - start} bytes, its header says ${frame.bodyBytes}")
    }
    val body = Arrays.copyOfRange(bytes, start, bytes.length)
    if (Format.crc32c(body, body.length) != frame.bodyCrc) throw new BadFrame("body fails its checksum")
    Body.inflated(frame, body)
  }
}
