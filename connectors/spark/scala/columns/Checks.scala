package org.apache.spark.sql.cecstore.columns

import org.apache.spark.sql.cecstore.format.BadFrame
import org.apache.spark.unsafe.Platform

/** What is proven of a buffer before it is read raw. Each is one loop, which stops for nothing. */
private[cecstore] object Checks {
  private val HighBits = 0x8080808080808080L

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

  /** Strings are UTF-8: Spark goes by what their first bytes say, beyond their ends as well. */
  def utf8(offsets: ByteSpan, rows: Int, data: ByteSpan, what: => String): Unit = if (rows > 0) {
    val from = Platform.getInt(offsets.array, offsets.base)
    val until = Platform.getInt(offsets.array, offsets.base + rows * 4L)
    if (!isAscii(data, from, until)) {
      if (!isUtf8(data.array, data.from + from, data.from + until)) fail(s"$what is not UTF-8")
      var i = 0
      while (i < rows) { // a string begins where a character does
        val at = Platform.getInt(offsets.array, offsets.base + i * 4L)
        if (at < until && (data.array(data.from + at) & 0xc0) == 0x80) fail(s"$what is not UTF-8")
        i += 1
      }
    }
  }

  private def isAscii(data: ByteSpan, from: Int, until: Int): Boolean = {
    var seen = 0L
    var at = from
    while (at <= until - 8) {
      seen |= Platform.getLong(data.array, data.base + at)
      at += 8
    }
    while (at < until) {
      seen |= Platform.getByte(data.array, data.base + at)
      at += 1
    }
    (seen & HighBits) == 0
  }

  private def isUtf8(bytes: Array[Byte], from: Int, until: Int): Boolean = {
    var at = from
    var isSound = true
    while (at < until && isSound) {
      val lead = bytes(at) & 0xff
      if (lead < 0x80) at += 1
      else {
        val size = if (lead < 0xc2 || lead > 0xf4) 0 else if (lead < 0xe0) 2 else if (lead < 0xf0) 3 else 4
        isSound = size > 0 && size <= until - at && isSequence(bytes, at, lead, size)
        at += size
      }
    }
    isSound
  }

  private def isSequence(bytes: Array[Byte], at: Int, lead: Int, size: Int): Boolean = {
    val second = bytes(at + 1) & 0xff
    // The second byte rules out forms that are too long, surrogates, and what is above U+10FFFF.
    val low = if (lead == 0xe0) 0xa0 else if (lead == 0xf0) 0x90 else 0x80
    val high = if (lead == 0xed) 0x9f else if (lead == 0xf4) 0x8f else 0xbf
    second >= low && second <= high && (2 until size).forall(i => (bytes(at + i) & 0xc0) == 0x80)
  }
}
