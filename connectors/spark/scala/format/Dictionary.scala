package org.apache.spark.sql.cecstore.format

import java.util.Arrays
import org.apache.arrow.vector.BaseVariableWidthVector
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods
import org.apache.spark.unsafe.hash.Murmur3_x86_32

/** A column of few values as these values, once each, and an index for each row. docs/format.md §6, codec 3. */
private[format] final class Dictionary(
    val count: Int, val indexBytes: Int, val indices: Array[Byte], val offsets: Array[Byte], val values: Array[Byte])

private[format] object Dictionary {
  // As cec_store/format/by_columns/dictionaries.py has them, and why.
  private val RowsMin = 256
  private val SampleRows = 1024
  private val SampleValuesMax = 960
  private val RowsPerValueMin = 4
  private val Seed = 42

  /** None where that would not be smaller, or too slow. */
  def of(vector: BaseVariableWidthVector): Option[Dictionary] = {
    val rows = vector.getValueCount
    if (rows < RowsMin) None else new Maker(vector, rows).made()
  }

  private final class Maker(vector: BaseVariableWidthVector, rows: Int) {
    private val countMax = rows / RowsPerValueMin
    // A power of two, at most half full; 0 is free, and n is value n − 1.
    private val table = new Array[Int](Integer.highestOneBit(math.max(2, countMax * 2)) << 1)
    private var starts = new Array[Long](SampleRows)
    private var sizes, hashes = new Array[Int](SampleRows)
    private var count = 0
    private var bytes = 0L
    private val offsetsAt = vector.getOffsetBufferAddress
    private val dataAt = vector.getDataBufferAddress

    def made(): Option[Dictionary] = {
      val found = new Array[Int](rows)
      val hasNulls = vector.getNullCount > 0
      var row = 0
      while (row < rows) {
        if (!hasNulls || !vector.isNull(row)) {
          val value = numberOf(row)
          if (value < 0) return None
          found(row) = value
        }
        row += 1
        if (row == SampleRows && rows > 2 * SampleRows && count > SampleValuesMax) return None
      }
      val indexBytes = if (count <= (1 << 7)) 1 else if (count <= (1 << 15)) 2 else 4
      val plain = end(rows - 1) - start(0) + (rows + 1) * 4L
      if (bytes + (count + 1) * 4L + rows.toLong * indexBytes >= plain) None
      else Some(new Dictionary(count, indexBytes, indices(found, indexBytes), offsets(), values()))
    }

    private def start(row: Int): Long = Platform.getInt(null, offsetsAt + row * 4L)
    private def end(row: Int): Long = Platform.getInt(null, offsetsAt + row * 4L + 4)

    /** The number of a row's value, which may be new; −1 where there are too many. */
    private def numberOf(row: Int): Int = {
      val (from, size) = (dataAt + start(row), (end(row) - start(row)).toInt)
      val hash = Murmur3_x86_32.hashUnsafeBytes2(null, from, size, Seed)
      val mask = table.length - 1
      var slot = hash & mask
      while (table(slot) != 0) {
        val value = table(slot) - 1
        val isLikely = hashes(value) == hash && sizes(value) == size
        if (isLikely && ByteArrayMethods.arrayEquals(null, starts(value), null, from, size)) return value
        slot = (slot + 1) & mask
      }
      if (count == countMax) return -1
      if (count == starts.length) {
        starts = Arrays.copyOf(starts, count * 2)
        sizes = Arrays.copyOf(sizes, count * 2)
        hashes = Arrays.copyOf(hashes, count * 2)
      }
      starts(count) = from
      sizes(count) = size
      hashes(count) = hash
      count += 1
      bytes += size
      table(slot) = count
      count - 1
    }

    private def indices(found: Array[Int], indexBytes: Int): Array[Byte] = {
      val out = new Array[Byte](rows * indexBytes)
      var row = 0
      while (row < rows) {
        val at = Platform.BYTE_ARRAY_OFFSET + row.toLong * indexBytes
        if (indexBytes == 1) Platform.putByte(out, at, found(row).toByte)
        else if (indexBytes == 2) Platform.putShort(out, at, found(row).toShort)
        else Platform.putInt(out, at, found(row))
        row += 1
      }
      out
    }

    private def offsets(): Array[Byte] = {
      val out = Format.littleEndian(new Array[Byte]((count + 1) * 4))
      out.putInt(0)
      (0 until count).foldLeft(0) { (end, value) => out.putInt(end + sizes(value)); end + sizes(value) }
      out.array
    }

    private def values(): Array[Byte] = {
      val out = new Array[Byte](bytes.toInt)
      (0 until count).foldLeft(0L) { (at, value) =>
        Platform.copyMemory(null, starts(value), out, Platform.BYTE_ARRAY_OFFSET + at, sizes(value))
        at + sizes(value)
      }
      out
    }
  }
}
