package org.apache.spark.sql.cecstore.sparks

import org.apache.spark.sql.types.{DataType, TimestampLTZNanosType, TimestampNTZNanosType}
import org.apache.spark.sql.vectorized.ColumnVector
import org.apache.spark.unsafe.types.TimestampNanosVal

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

private final class NanosVector(kind: DataType, stored: ColumnVector, perMicrosecond: Int) extends ConvertedVector(kind, stored) {
  private def value(row: Int): TimestampNanosVal = if (isNullAt(row)) null else {
    val number = stored.getLong(row)
    TimestampNanosVal.fromParts(
      Math.floorDiv(number, perMicrosecond.toLong), (Math.floorMod(number, perMicrosecond.toLong) * (1000 / perMicrosecond)).toShort)
  }

  override def getTimestampNTZNanos(row: Int): TimestampNanosVal = value(row)
  override def getTimestampLTZNanos(row: Int): TimestampNanosVal = value(row)
}
