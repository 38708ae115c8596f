package org.apache.spark.sql.cecstore.sparks

import org.apache.spark.sql.types.DataType
import org.apache.spark.sql.vectorized.ColumnVector

/** This Spark has no timestamps of nanoseconds. */
private[cecstore] object NanoTimestamps {
  def isOne(kind: DataType): Boolean = false
  def hasZone(kind: DataType): Boolean = false
  def of(kind: DataType, stored: ColumnVector, perMicrosecond: Int): ColumnVector =
    throw new UnsupportedOperationException(s"not of this Spark: $kind")
}

/** A vector whose values are those of another one. */
private[cecstore] abstract class PassingVector(kind: DataType) extends ColumnVector(kind) {
  protected def behind: ColumnVector
  /** The row in it. */
  protected def place(row: Int): Int
}
