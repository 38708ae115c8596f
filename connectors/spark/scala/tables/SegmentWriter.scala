package org.apache.spark.sql.cecstore.tables

import java.security.SecureRandom
import java.util.{Iterator => JIterator}
import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal
import org.apache.hadoop.fs.Path
import org.apache.spark.TaskContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.cecstore.format.{Format, FrameHeader, RunningCrc, SchemaMessage, SegmentHeader, SparkErrors}
import org.apache.spark.sql.cecstore.format.StoredBody
import org.apache.spark.sql.cecstore.queue.{Names, Segment, Store}
import org.apache.spark.sql.connector.metric.CustomTaskMetric
import org.apache.spark.sql.connector.write.{DataWriter, DataWriterFactory, WriterCommitMessage}
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration

/**
 * What one task tells the driver.
 *
 * @param attempt above 0 where others at this partition have failed
 * @param beganUs when the oldest of its objects was begun
 */
private[tables] final case class Written(segments: Seq[Segment], attempt: Int, beganUs: Long)
    extends WriterCommitMessage

/**
 * What the tasks of a query need to know.
 *
 * @param places of the queue's columns, in their order, among those of a row
 * @param schemaMessage the queue's record schema, as SCHEMA frames have it
 */
private[tables] final case class Target(
    path: String, singleWriter: Boolean, rowType: StructType, places: IndexedSeq[Int], schemaMessage: Array[Byte],
    segmentBytes: Long, query: String, conf: Broadcast[SerializableConfiguration])
    extends StreamingDataWriterFactory {
  override def createWriter(partition: Int, task: Long, batch: Long): DataWriter[InternalRow] =
    new SegmentWriter(this, batch, partition)
  /** Of a query that is no stream: all of it is one batch. */
  def ofBatch(batch: Long): DataWriterFactory = new OfBatch(this, batch)
}

private[tables] final class OfBatch(target: Target, batch: Long) extends DataWriterFactory {
  override def createWriter(partition: Int, task: Long): DataWriter[InternalRow] =
    target.createWriter(partition, task, batch)
}

/** One task attempt: rows of a partition go as they come to objects that nobody sees before a commit names them. */
private[tables] final class SegmentWriter(target: Target, batch: Long, partition: Int)
    extends DataWriter[InternalRow] with Logging {
  private val store = Store.at(new Path(target.path), target.conf.value.value, target.singleWriter)
  private val made = ArrayBuffer.empty[Segment]
  private val beganUs = SegmentWriter.nowUs

  override def writeAll(rows: JIterator[InternalRow]): Unit = SparkErrors.told {
    val left = rows.asScala.buffered
    if (left.hasNext) {
      val columns = StoredColumns.of(SchemaMessage.decode(target.schemaMessage))
      val frames = new RowFrames(columns, target.rowType, target.places, () => SegmentWriter.nowUs)
      try while (left.hasNext) made += segment(left, frames) finally frames.close()
    }
  }

  /** Rows that come one by one come from a query that never ends a batch. */
  override def write(row: InternalRow): Unit = throw new UnsupportedOperationException(
    "a queue is not written with Trigger.Continuous: use Trigger.ProcessingTime or Trigger.AvailableNow")

  private def segment(rows: BufferedIterator[InternalRow], frames: RowFrames): Segment = {
    val header = SegmentWriter.newHeader()
    val encoder = new SegmentEncoder(header, target.schemaMessage)
    var (frameCount, least, greatest) = (0, Long.MaxValue, Long.MinValue)
    def stored: Iterator[Seq[Array[Byte]]] = new Iterator[Seq[Array[Byte]]] {
      override def hasNext: Boolean = rows.hasNext && encoder.batches._2 < target.segmentBytes
      override def next(): Seq[Array[Byte]] = {
        val frame = frames.next(rows)
        frameCount += 1
        least = math.min(least, frame.leastUs)
        greatest = math.max(greatest, frame.greatestUs)
        encoder.batch(frame.body, frame.rows, frame.leastUs, frame.greatestUs)
      }
    }
    val name = Names.segment(target.query, batch, partition, header.segmentId)
    store.create(name, encoder.begin().iterator ++ stored.flatten)
    val (byte, bytes) = encoder.batches
    Segment(partition, 0, encoder.records, name, byte, bytes, header.salt, least, greatest, frameCount, SegmentWriter.nowUs,
      removed = false)
  }

  override def commit(): WriterCommitMessage =
    Written(made.toSeq, Option(TaskContext.get()).fold(0)(_.attemptNumber()), beganUs)

  override def currentMetricsValues(): Array[CustomTaskMetric] =
    SinkMetrics.ofTask(made.map(_.records).sum, made.map(_.bytes).sum, made.size)

  /** The task has failed, or was too late: forget what it has written. */
  override def abort(): Unit = try store.delete(made.map(_.file).toSeq) catch {
    case NonFatal(e) => logWarning(s"cec: ${target.path}: ${made.size} objects of a task that failed stay: $e")
  }

  override def close(): Unit = ()
}

private[tables] object SegmentWriter {
  private val random = new SecureRandom

  /** Of an object that a task makes. */
  def newHeader(flags: Int = 0): SegmentHeader = SegmentHeader(new Array[Byte](16), random.nextLong() & Long.MaxValue,
    random.nextLong(), 0, Format.NoSegment, 0, 0, 0, nowUs, flags)

  def nowUs: Long = {
    val now = java.time.Instant.now()
    now.getEpochSecond * 1000000 + now.getNano / 1000
  }
}

/**
 * The bytes of a segment that a commit names, part by part: header, SCHEMA, BATCH frames. docs/format.md §11. `seq` and
 * offsets count from 0. For one thread.
 */
private[tables] final class SegmentEncoder(header: SegmentHeader, schemaMessage: Array[Byte]) {
  import Format._
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
