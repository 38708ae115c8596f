package org.apache.spark.sql.cecstore.queue

import org.apache.arrow.memory.BufferAllocator
import org.apache.spark.sql.cecstore.format.{BadFrame, BodyEncoder, Format, SchemaMessage, SegmentHeader, WholeSegment}
import org.apache.spark.sql.util.ArrowUtils
import scala.util.Using

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

  def encode(): Seq[Array[Byte]] = LogObject.withAllocator { allocator =>
    val (before, saltBefore) = previous.getOrElse((Format.NoSegment, 0L))
    val header = SegmentHeader(logId.toArray, number, salt, 0, before, 0, saltBefore, 0, createdUs)
    val stream = if (isSummary) Format.SummaryStream else Format.RecordStream
    val encoder = new WholeSegment.Encoder(header, LogObject.schemaMessage, stream)
    val rows = 1 + segments.size
    val body = Using.resources(LogColumns.filled(this, allocator), new BodyEncoder(LogObject.CompressionLevel)) {
      (columns, bodies) => bodies.whole(LogColumns.vectors(columns), rows)
    }
    encoder.begin() ++ encoder.batch(body, rows, createdUs, createdUs)
  }
}

private[cecstore] object LogObject {
  private val CompressionLevel = 3
  private val schemaMessage = SchemaMessage.encode(LogColumns.schema)

  private def withAllocator[A](work: BufferAllocator => A): A =
    Using.resource(ArrowUtils.rootAllocator.newChildAllocator("cec log", 0, Long.MaxValue))(work)

  /**
   * Back from bytes that were read from `path`. Raises CecLogException where they are not those of this commit or
   * summary, or where a later format wrote them.
   */
  def decode(bytes: Array[Byte], path: String, number: Long, isSummary: Boolean = false): LogObject = {
    val whole = WholeSegment.decode(bytes, path, if (isSummary) Format.SummaryStream else Format.RecordStream)
    val found = whole.header
    if (!java.util.Arrays.equals(whole.schemaMessage, schemaMessage)) LogColumns.checkSchema(whole.schemaMessage, path)
    if (found.segmentId != number) throw WholeSegment.damaged(path, 0, s"the object is number ${found.segmentId}")
    if (whole.frames.size != 1) throw WholeSegment.damaged(path, 0, s"a commit of ${whole.frames.size} frames")
    val (byte, frame) = whole.frames.head
    val body = whole.body(byte, frame)
    val (commit, segments) = try withAllocator(LogColumns.read(body, frame, _)) catch {
      case e: BadFrame => throw WholeSegment.damaged(path, byte, e.reason)
    }
    val previous = Option.when(found.prevSegment != Format.NoSegment)((found.prevSegment, found.prevSalt))
    LogObject(number, found.logId.toIndexedSeq, commit, segments, found.createdUs, isSummary, found.salt, previous)
  }
}
