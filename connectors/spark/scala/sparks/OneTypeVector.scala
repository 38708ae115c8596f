package org.apache.spark.sql.cecstore.sparks

import org.apache.spark.sql.types.{DataType, Decimal}
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarArray, ColumnarMap}
import org.apache.spark.unsafe.types.UTF8String

/** A column with values of one type: those of the others are not asked of it. */
private[cecstore] abstract class OneTypeVector(kind: DataType) extends ColumnVector(kind) {
  private def not(what: String) = throw new UnsupportedOperationException(s"$what of a column of $kind")

  override def getBoolean(row: Int): Boolean = not("boolean")
  override def getByte(row: Int): Byte = not("byte")
  override def getShort(row: Int): Short = not("short")
  override def getInt(row: Int): Int = not("int")
  override def getLong(row: Int): Long = not("long")
  override def getFloat(row: Int): Float = not("float")
  override def getDouble(row: Int): Double = not("double")
  override def getArray(row: Int): ColumnarArray = not("array")
  override def getMap(row: Int): ColumnarMap = not("map")
  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = not("decimal")
  override def getUTF8String(row: Int): UTF8String = not("string")
  override def getBinary(row: Int): Array[Byte] = not("binary")
  override def getChild(ordinal: Int): ColumnVector = not("child")
}

/** Such a column, made of the values that are stored as another type. */
private[cecstore] abstract class ConvertedVector(kind: DataType, stored: ColumnVector) extends OneTypeVector(kind) {
  override def close(): Unit = stored.close()
  override def hasNull: Boolean = stored.hasNull
  override def numNulls: Int = stored.numNulls
  override def isNullAt(row: Int): Boolean = stored.isNullAt(row)
}
