package org.apache.spark.sql.cecstore.columns

import org.apache.spark.sql.cecstore.sparks.PassingVector
import org.apache.spark.sql.types.{DataType, Decimal}
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarArray, ColumnarMap}
import org.apache.spark.unsafe.types.UTF8String

/**
 * A column that is decompressed and decoded once somebody reads it. Spark does not tell a stream's source which columns
 * its query needs, but the code that it makes reads no others.
 */
private[cecstore] final class LateVector(kind: DataType, decode: () => ColumnVector) extends PassingVector(kind) {
  private var known: ColumnVector = _
  override protected def behind: ColumnVector = all
  override protected def place(row: Int): Int = row
  private def all: ColumnVector = {
    if (known == null) known = decode()
    known
  }

  /** Its arrays are the reader's, which uses them again. */
  override def close(): Unit = ()
  override def hasNull: Boolean = all.hasNull
  override def numNulls: Int = all.numNulls
  override def isNullAt(row: Int): Boolean = all.isNullAt(row)
  override def getBoolean(row: Int): Boolean = all.getBoolean(row)
  override def getByte(row: Int): Byte = all.getByte(row)
  override def getShort(row: Int): Short = all.getShort(row)
  override def getInt(row: Int): Int = all.getInt(row)
  override def getLong(row: Int): Long = all.getLong(row)
  override def getFloat(row: Int): Float = all.getFloat(row)
  override def getDouble(row: Int): Double = all.getDouble(row)
  override def getArray(row: Int): ColumnarArray = all.getArray(row)
  override def getMap(row: Int): ColumnarMap = all.getMap(row)
  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = all.getDecimal(row, precision, scale)
  override def getUTF8String(row: Int): UTF8String = all.getUTF8String(row)
  override def getBinary(row: Int): Array[Byte] = all.getBinary(row)
  override def getChild(ordinal: Int): ColumnVector = all.getChild(ordinal)
}
