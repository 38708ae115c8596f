package org.apache.spark.sql.cecstore.sparks

import org.apache.spark.sql.types.{DataType, Decimal, TimestampLTZNanosType, TimestampNTZNanosType}
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarArray, ColumnarMap}
import org.apache.spark.unsafe.types.{TimestampNanosVal, UTF8String}

/** This Spark has timestamps of nanoseconds. */
private[cecstore] object NanoTimestamps {
  def isOne(kind: DataType): Boolean = hasZone(kind) || kind.isInstanceOf[TimestampNTZNanosType]
  def hasZone(kind: DataType): Boolean = kind.isInstanceOf[TimestampLTZNanosType]

  /**
   * A column of such a type.
   *
   * @param stored numbers since 1970
   * @param perMicrosecond 1000 where they are nanoseconds, 1 where they are microseconds
   */
  def of(kind: DataType, stored: ColumnVector, perMicrosecond: Int): ColumnVector =
    new NanosVector(kind, stored, perMicrosecond)
}

/** A vector whose values are those of another one. */
private[cecstore] abstract class PassingVector(kind: DataType) extends ColumnVector(kind) {
  protected def behind: ColumnVector
  /** The row in it. */
  protected def place(row: Int): Int
  override def getTimestampNTZNanos(row: Int): TimestampNanosVal = behind.getTimestampNTZNanos(place(row))
  override def getTimestampLTZNanos(row: Int): TimestampNanosVal = behind.getTimestampLTZNanos(place(row))
}

private final class NanosVector(kind: DataType, stored: ColumnVector, perMicrosecond: Int) extends ColumnVector(kind) {
  override def close(): Unit = stored.close()
  override def hasNull: Boolean = stored.hasNull
  override def numNulls: Int = stored.numNulls
  override def isNullAt(row: Int): Boolean = stored.isNullAt(row)

  private def value(row: Int): TimestampNanosVal = if (isNullAt(row)) null else {
    val number = stored.getLong(row)
    TimestampNanosVal.fromParts(
      Math.floorDiv(number, perMicrosecond.toLong), (Math.floorMod(number, perMicrosecond.toLong) * (1000 / perMicrosecond)).toShort)
  }

  override def getTimestampNTZNanos(row: Int): TimestampNanosVal = value(row)
  override def getTimestampLTZNanos(row: Int): TimestampNanosVal = value(row)
  override def getBoolean(row: Int): Boolean = none
  override def getByte(row: Int): Byte = none
  override def getShort(row: Int): Short = none
  override def getInt(row: Int): Int = none
  override def getLong(row: Int): Long = none
  override def getFloat(row: Int): Float = none
  override def getDouble(row: Int): Double = none
  override def getArray(row: Int): ColumnarArray = none
  override def getMap(row: Int): ColumnarMap = none
  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = none
  override def getUTF8String(row: Int): UTF8String = none
  override def getBinary(row: Int): Array[Byte] = none
  override def getChild(ordinal: Int): ColumnVector = none
  private def none: Nothing = throw new UnsupportedOperationException(s"not of a column of the type ${kind.sql}")
}
