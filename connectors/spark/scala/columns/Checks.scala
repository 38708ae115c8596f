package org.apache.spark.sql.cecstore.columns

import org.apache.spark.sql.cecstore.format.BadFrame
import org.apache.spark.unsafe.Platform

/** What is proven of a buffer before it is read raw. Each is one loop, which stops for nothing. */
private[cecstore] object Checks {
  private def fail(reason: String) = throw new BadFrame(s"body: $reason")

  def enough(span: ByteSpan, needed: Long, what: => String): ByteSpan = {
    if (span.length < needed) fail(s"$what has ${span.length} bytes, $needed are needed")
    span
  }

  /** Offsets of 4 bytes never fall, and stay within what they point into. */
  def offsets(span: ByteSpan, rows: Int, limit: Int, what: => String): Unit = if (rows > 0) {
    enough(span, (rows + 1) * 4L, s"offsets of $what")
    val (array, base) = (span.array, span.base)
    var before = Platform.getInt(array, base)
    var signs = before
    var i = 1
    while (i <= rows) {
      val next = Platform.getInt(array, base + i * 4L)
      signs |= next | (next - before) // neither is below zero while no sign is seen, so nothing overflows
      before = next
      i += 1
    }
    if (signs < 0) fail(s"offsets of $what fall or are below zero")
    if (before > limit) fail(s"offsets of $what go to $before, there are $limit")
  }

  /** Offsets of 8 bytes as ones of 4; to be checked as such. */
  def narrowed(span: ByteSpan, rows: Int, into: Array[Byte], what: => String): ByteSpan = {
    enough(span, if (rows == 0) 0 else (rows + 1) * 8L, s"offsets of $what")
    var i = 0
    var lost = 0L
    while (rows > 0 && i <= rows) {
      val offset = Platform.getLong(span.array, span.base + i * 8L)
      lost |= offset >>> 31
      Platform.putInt(into, Platform.BYTE_ARRAY_OFFSET + i * 4L, offset.toInt)
      i += 1
    }
    if (lost != 0) fail(s"offsets of $what go beyond what a frame holds")
    new ByteSpan(into, 0, if (rows == 0) 0 else (rows + 1) * 4)
  }

  /** How many of the first bits are set. */
  def setBits(bits: ByteSpan, count: Int): Int = {
    var set = 0
    var i = 0
    while (i + 64 <= count) {
      set += java.lang.Long.bitCount(Platform.getLong(bits.array, bits.base + (i >> 3)))
      i += 64
    }
    while (i < count) {
      set += Platform.getByte(bits.array, bits.base + (i >> 3)) >> (i & 7) & 1
      i += 1
    }
    set
  }

  /** Each row that is not null has a value. */
  def indices(span: ByteSpan, rows: Int, indexBytes: Int, values: Int, nulls: Nulls, what: => String): Unit = {
    enough(span, rows.toLong * indexBytes, s"indices of $what")
    def index(row: Int): Int = indexBytes match {
      case 1 => Platform.getByte(span.array, span.base + row)
      case 2 => Platform.getShort(span.array, span.base + row * 2L)
      case _ => Platform.getInt(span.array, span.base + row * 4L)
    }
    // Below zero once an index is, or is not below `values`. A loop for each width: none looks at it for each row.
    var signs = 0
    val (array, base, most) = (span.array, span.base, values - 1)
    var row = 0
    indexBytes match {
      case 1 => while (row < rows) { val i = Platform.getByte(array, base + row).toInt; signs |= i | (most - i); row += 1 }
      case 2 =>
        while (row < rows) { val i = Platform.getShort(array, base + row * 2L).toInt; signs |= i | (most - i); row += 1 }
      case _ =>
        while (row < rows) { val i = Platform.getInt(array, base + row * 4L); signs |= i | (most - i); row += 1 }
    }
    if (signs < 0) {
      def isNull(row: Int) = nulls.bits != null && setAt(nulls.bits, row) == 0
      // What stands in the place of a null is nobody's.
      if ((0 until rows).exists(row => !isNull(row) && (index(row) < 0 || index(row) >= values))) {
        fail(s"$what has an index that is none of its $values values")
      }
    }
  }

  private def setAt(bits: ByteSpan, row: Int): Int =
    Platform.getByte(bits.array, bits.base + (row >> 3)) >> (row & 7) & 1

  /**
   * The bytes of strings, which may be any. Spark goes by what the first byte of a character says, beyond the string's
   * end as well: behind the last one there is room for that.
   */
  def withRoom(data: ByteSpan, scratch: Scratch): ByteSpan =
    if (data.array.length - data.from - data.length >= Scratch.RoomBytes) data
    else {
      val copy = scratch.take(data.length)
      System.arraycopy(data.array, data.from, copy, 0, data.length)
      new ByteSpan(copy, 0, data.length)
    }
}
