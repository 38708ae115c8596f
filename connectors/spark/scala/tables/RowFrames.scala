package org.apache.spark.sql.cecstore.tables

import scala.jdk.CollectionConverters._
import org.apache.arrow.vector.{FieldVector, TimeStampMicroTZVector, TimeStampNanoTZVector, TimeStampNanoVector}
import org.apache.arrow.vector.{UInt1Vector, VectorSchemaRoot}
import org.apache.arrow.vector.ipc.message.ArrowFieldNode
import org.apache.arrow.vector.types.pojo.{ArrowType, Field, Schema}
import org.apache.arrow.vector.util.OversizedAllocationException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.{BodyEncoder, Format, SchemaMismatch, StoredBody}
import org.apache.spark.sql.execution.arrow.ArrowWriter
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.ArrowUtils
import org.apache.spark.unsafe.Platform

/** The body of one BATCH frame, and what its header says of it. */
private[tables] final case class Frame(body: StoredBody, rows: Int, leastUs: Long, greatestUs: Long)

/**
 * Rows of a query as the bodies of frames of DATA records. For one task; holds memory outside of the heap until it is
 * closed.
 */
private[tables] final class RowFrames(
    columns: StoredColumns, rowType: StructType, places: IndexedSeq[Int], clockUs: () => Long) extends AutoCloseable {
  import RowFrames._
  private val allocator = ArrowUtils.rootAllocator.newChildAllocator("cec sink", 0, Long.MaxValue)
  private val root = VectorSchemaRoot.create(new Schema(columns.data.asJava), allocator)
  private val writer = ArrowWriter.create(root)
  private val kinds = new UInt1Vector("_kind", allocator)
  private val times = new TimeStampMicroTZVector("_timestamp", allocator, "UTC")
  private val timestamps: Option[FieldVector] = columns.timestampColumn.map(name => root.getVector(name))
  private val encoder = new BodyEncoder(CompressionLevel)
  private var written = 0L
  /** A null struct has room for all of its fields in Arrow, and hardly any in Spark's own form. */
  private val rowsMax = math.max(1, math.min(FrameRowsMax, FrameBytesMax / columns.data.map(leastBytes).sum)).toInt
  private val areAsTheyAre = places == rowType.indices && !rowType.fields.exists(column => StoredValues.areOther(column.dataType))
  private lazy val projection = UnsafeProjection.create(places.zip(columns.data).map { case (place, field) =>
    StoredValues.at(place, rowType(place), field)
  })

  kinds.allocateNew(FrameRowsMax)
  (0 until FrameRowsMax).foreach(kinds.set(_, Format.Data.toInt))

  /** The next frame of some rows, of which there is at least one. */
  def next(rows: BufferedIterator[InternalRow]): Frame = {
    var (count, bytes) = (0, 0L)
    def fits: Boolean = count < rowsMax && bytes < FrameBytes &&
      (count == 0 || bytes + unsafe(rows.head).getSizeInBytes <= FrameBytesMax)
    while (rows.hasNext && fits) {
      val row = unsafe(rows.head)
      bytes += row.getSizeInBytes
      try writer.write(row) catch {
        case e: UnsupportedOperationException => throw RowValues.decimalRefused(rowType, written + count, e)
        case e: ArithmeticException => throw RowValues.momentRefused(rowType, written + count, e)
        case e: OversizedAllocationException if count == 0 =>
          throw new CecLogException(s"one row of ${row.getSizeInBytes} bytes is more than a frame may hold: keep " +
            "such a value elsewhere, and a reference to it here", e, Map("bytes" -> row.getSizeInBytes.toString))
      }
      rows.next()
      count += 1
    }
    writer.finish()
    RowValues.check(root.getFieldVectors.asScala.toSeq, count, written)
    val frame = encoded(count)
    writer.reset()
    written += count
    frame
  }

  private def unsafe(row: InternalRow): UnsafeRow = row match {
    case same: UnsafeRow if areAsTheyAre => same
    case other => projection(other)
  }

  private def encoded(rows: Int): Frame = {
    timestamps match {
      case None =>
        val now = clockUs()
        if (times.getValueCapacity < rows) times.allocateNew(FrameRowsMax)
        (0 until rows).foreach(times.set(_, now))
        times.setValueCount(rows)
      case Some(column) =>
        if (column.getNullCount > 0) throw SchemaMismatch(Seq(column.getName), s"${column.getNullCount} timestamps are null")
        column match {
          case nanos @ (_: TimeStampNanoVector | _: TimeStampNanoTZVector) =>
            if (times.getValueCapacity < rows) times.allocateNew(FrameRowsMax)
            val at = nanos.getDataBufferAddress
            (0 until rows).foreach(row => times.set(row, Platform.getLong(null, at + row * 8L) / 1000))
            times.setValueCount(rows)
          case _ => // The same memory, so that it is compressed and stored once.
            times.loadFieldBuffers(new ArrowFieldNode(rows, 0), column.getFieldBuffers)
        }
    }
    kinds.setValueCount(rows)
    val (least, greatest) = span(rows)
    val body = encoder.columns(Seq(kinds, times) ++ root.getFieldVectors.asScala, rows)
    Frame(body, rows, least, greatest)
  }

  private def span(rows: Int): (Long, Long) = {
    val at = times.getDataBufferAddress
    var (least, greatest) = (Long.MaxValue, Long.MinValue)
    var row = 0
    while (row < rows) {
      val value = Platform.getLong(null, at + row * 8L)
      if (value < least) least = value
      if (value > greatest) greatest = value
      row += 1
    }
    (least, greatest)
  }

  override def close(): Unit = {
    encoder.close()
    kinds.close()
    times.close()
    root.close()
    allocator.close()
  }
}

private[tables] object RowFrames {
  private val CompressionLevel = 1
  private val FrameRowsMax = 1 << 16
  /** Of rows in Spark's own form: enough for one frame. */
  private val FrameBytes = 8L << 20
  /** What a value takes in Arrow at least, for a leaf the largest fixed width and its validity. */
  private def leastBytes(field: Field): Long = field.getType match {
    case _: ArrowType.Struct => 1 + field.getChildren.asScala.map(leastBytes).sum
    case _ => 17
  }
  /** A row that would go beyond stands in a frame of its own: whatever it is, others fit. */
  private val FrameBytesMax = 32L << 20
}
