package org.apache.spark.sql.cecstore.columns

import java.math.BigInteger
import org.apache.spark.sql.cecstore.sparks.OneTypeVector
import org.apache.spark.sql.types.{DataType, Decimal, LongType}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

/**
 * Which rows are null.
 *
 * @param bits a set bit for each row that is not; null where none is
 */
private[cecstore] final class Nulls(val count: Int, val bits: ByteSpan)

private[cecstore] object Nulls {
  val None = new Nulls(0, null)
}

/**
 * A column of a frame. Arrow's buffers as they are, read raw: the decoder has proven that each row's value lies
 * within them. Valid until the reader decodes the next frame.
 */
private[cecstore] abstract class FrameVector(kind: DataType, nulls: Nulls) extends OneTypeVector(kind) {
  private val bits: Array[Byte] = if (nulls.bits == null) null else nulls.bits.array
  private val bitsBase: Long = if (nulls.bits == null) 0 else nulls.bits.base

  /** Its arrays are the reader's, which uses them again. */
  override def close(): Unit = ()
  override def hasNull: Boolean = nulls.count > 0
  override def numNulls: Int = nulls.count
  override def isNullAt(row: Int): Boolean =
    bits != null && (Platform.getByte(bits, bitsBase + (row >> 3)) >> (row & 7) & 1) == 0
}

/**
 * Values of one width, or bits.
 *
 * @param width bytes of a value; of decimals 4, 8, 16 or 32
 */
private[cecstore] final class FixedVector(kind: DataType, nulls: Nulls, values: ByteSpan, width: Int)
    extends FrameVector(kind, nulls) {
  private val array = values.array
  private val base = values.base

  override def getBoolean(row: Int): Boolean = (Platform.getByte(array, base + (row >> 3)) >> (row & 7) & 1) != 0
  override def getByte(row: Int): Byte = Platform.getByte(array, base + row)
  override def getShort(row: Int): Short = Platform.getShort(array, base + row * 2L)
  override def getInt(row: Int): Int = Platform.getInt(array, base + row * 4L)
  override def getLong(row: Int): Long = Platform.getLong(array, base + row * 8L)
  override def getFloat(row: Int): Float = Platform.getFloat(array, base + row * 4L)
  override def getDouble(row: Int): Double = Platform.getDouble(array, base + row * 8L)

  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = if (isNullAt(row)) null else {
    val low = if (width == 4) getInt(row).toLong else Platform.getLong(array, base + row.toLong * width)
    // What fits in a long needs no big integer.
    val isLong = width <= 8 || (8 until width by 8).forall(wordOf(row, _) == low >> 63)
    if (isLong && precision <= Decimal.MAX_LONG_DIGITS) Decimal.createUnsafe(low, precision, scale)
    else Decimal(new java.math.BigDecimal(if (isLong) BigInteger.valueOf(low) else bigInteger(row), scale),
        precision, scale)
  }

  private def wordOf(row: Int, at: Int): Long = Platform.getLong(array, base + row.toLong * width + at)

  private def bigInteger(row: Int): BigInteger = {
    val start = values.from + row.toLong * width
    new BigInteger(Array.tabulate(width)(i => array((start + width - 1 - i).toInt)))
  }
}

/** Strings or bytes: where each ends is where the next begins. */
private[cecstore] final class BytesVector(kind: DataType, nulls: Nulls, offsets: ByteSpan, data: ByteSpan)
    extends FrameVector(kind, nulls) {
  private val offsetArray = offsets.array
  private val offsetBase = offsets.base
  private val array = data.array
  private val base = data.base

  private def start(row: Int): Int = Platform.getInt(offsetArray, offsetBase + row * 4L)

  override def getUTF8String(row: Int): UTF8String = if (isNullAt(row)) null else {
    val from = start(row)
    UTF8String.fromAddress(array, base + from, start(row + 1) - from)
  }

  override def getBinary(row: Int): Array[Byte] = if (isNullAt(row)) null else {
    val from = start(row)
    java.util.Arrays.copyOfRange(array, data.from + from, data.from + start(row + 1))
  }
}

/** Strings or bytes of few values. */
private[cecstore] final class DictionaryVector(kind: DataType, nulls: Nulls, indices: ByteSpan, indexBytes: Int,
    values: Array[UTF8String]) extends FrameVector(kind, nulls) {
  private val array = indices.array
  private val base = indices.base

  private def value(row: Int): UTF8String = values(indexBytes match {
    case 1 => Platform.getByte(array, base + row)
    case 2 => Platform.getShort(array, base + row * 2L)
    case _ => Platform.getInt(array, base + row * 4L)
  })

  override def getUTF8String(row: Int): UTF8String = if (isNullAt(row)) null else value(row)
  override def getBinary(row: Int): Array[Byte] = if (isNullAt(row)) null else value(row).getBytes
}

/** Numbers that follow each other: the offsets of a frame's records. */
private[cecstore] final class RisingVector(first: Long) extends FrameVector(LongType, Nulls.None) {
  override def getLong(row: Int): Long = first + row
}
