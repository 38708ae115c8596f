package org.apache.spark.sql.cecstore.columns

import org.apache.arrow.vector.types.pojo.ArrowType
import org.apache.spark.sql.cecstore.format.{BadFrame, Format}
import org.apache.spark.sql.vectorized.ColumnVector
import org.apache.spark.unsafe.Platform

/** A column of Arrow's views (16 bytes a row: a length, then the bytes or where they are) as strings side by side. */
private[cecstore] final class Views(message: BatchMessage, layout: Layout, n: Int, nulls: Nulls, scratch: Scratch) {
  import Views._

  private val name = layout.field.getName
  private val views = Checks.enough(message.buffer(layout.buffer + 1), n * ViewBytes.toLong, name)
  private val buffers = (layout.buffer + 2 until layout.endBuffer).map(message.buffer)

  private def isNull(row: Int): Boolean =
    nulls.bits != null && (Platform.getByte(nulls.bits.array, nulls.bits.base + (row >> 3)) >> (row & 7) & 1) == 0
  private def int(row: Int, at: Int): Int = Platform.getInt(views.array, views.base + row.toLong * ViewBytes + at)
  private def length(row: Int): Int = if (isNull(row)) 0 else int(row, 0)

  def vector: ColumnVector = {
    var total = 0L
    (0 until n).foreach { row =>
      if (length(row) < 0) throw new BadFrame(s"body: $name has a value of ${length(row)} bytes")
      total += length(row)
    }
    // Rows may share their bytes, so what they come to is not bounded by what the frame holds.
    if (total > Format.OneRecordBytesMax) throw new BadFrame(s"body: $name stands for $total bytes")
    val data = scratch.take(total.toInt)
    val offsets = scratch.take(Math.multiplyExact(n + 1, 4))
    var end = 0
    Platform.putInt(offsets, Platform.BYTE_ARRAY_OFFSET, 0)
    (0 until n).foreach { row =>
      copy(row, length(row), data, end)
      end += length(row)
      Platform.putInt(offsets, Platform.BYTE_ARRAY_OFFSET + (row + 1) * 4L, end)
    }
    val found = (new ByteSpan(offsets, 0, (n + 1) * 4), new ByteSpan(data, 0, end))
    if (layout.kind.isInstanceOf[ArrowType.Utf8View]) Checks.utf8(found._1, n, found._2, name)
    new BytesVector(layout.sparkType, nulls, found._1, found._2)
  }

  private def copy(row: Int, length: Int, data: Array[Byte], at: Int): Unit = {
    if (length <= InlineBytes) {
      System.arraycopy(views.array, views.from + row * ViewBytes + 4, data, at, length)
    } else {
      val (buffer, from) = (int(row, 8), int(row, 12))
      if (buffer < 0 || buffer >= buffers.size || from < 0 || from > buffers(buffer).length - length) {
        throw new BadFrame(s"body: $name has a value outside its buffers")
      }
      System.arraycopy(buffers(buffer).array, buffers(buffer).from + from, data, at, length)
    }
  }
}

private object Views {
  private val ViewBytes = 16
  private val InlineBytes = 12
}
