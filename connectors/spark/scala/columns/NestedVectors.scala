package org.apache.spark.sql.cecstore.columns

import org.apache.spark.sql.cecstore.sparks.PassingVector
import org.apache.spark.sql.types.{DataType, Decimal, NullType}
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarArray, ColumnarMap}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

/** A column of the type `null`. */
private[cecstore] final class NullVector(rows: Int) extends FrameVector(NullType, new Nulls(rows, null)) {
  override def isNullAt(row: Int): Boolean = true
}

private[cecstore] final class StructVector(kind: DataType, nulls: Nulls, children: IndexedSeq[ColumnVector])
    extends FrameVector(kind, nulls) {
  override def getChild(ordinal: Int): ColumnVector = children(ordinal)
}

/** Lists of values of one column behind them. */
private[cecstore] final class ListVector(kind: DataType, nulls: Nulls, offsets: ByteSpan, values: ColumnVector)
    extends FrameVector(kind, nulls) {
  override def getArray(row: Int): ColumnarArray = if (isNullAt(row)) null else {
    val from = Platform.getInt(offsets.array, offsets.base + row * 4L)
    new ColumnarArray(values, from, Platform.getInt(offsets.array, offsets.base + row * 4L + 4) - from)
  }
  override def getChild(ordinal: Int): ColumnVector = values
}

private[cecstore] final class MapVector(kind: DataType, nulls: Nulls, offsets: ByteSpan, keys: ColumnVector,
    values: ColumnVector) extends FrameVector(kind, nulls) {
  override def getMap(row: Int): ColumnarMap = if (isNullAt(row)) null else {
    val from = Platform.getInt(offsets.array, offsets.base + row * 4L)
    new ColumnarMap(keys, values, from, Platform.getInt(offsets.array, offsets.base + row * 4L + 4) - from)
  }
  override def getChild(ordinal: Int): ColumnVector = if (ordinal == 0) keys else values
}

/**
 * Some rows of a column.
 *
 * @param rows their numbers in it
 */
private[cecstore] final class ChosenVector(all: ColumnVector, rows: Array[Int]) extends PassingVector(all.dataType) {
  override protected def behind: ColumnVector = all
  override protected def place(row: Int): Int = rows(row)
  override def close(): Unit = all.close()
  override def hasNull: Boolean = all.hasNull
  /** Counted where somebody asks, which is seldom. */
  override def numNulls: Int = if (all.hasNull) rows.count(all.isNullAt) else 0
  override def isNullAt(row: Int): Boolean = all.isNullAt(rows(row))
  override def getBoolean(row: Int): Boolean = all.getBoolean(rows(row))
  override def getByte(row: Int): Byte = all.getByte(rows(row))
  override def getShort(row: Int): Short = all.getShort(rows(row))
  override def getInt(row: Int): Int = all.getInt(rows(row))
  override def getLong(row: Int): Long = all.getLong(rows(row))
  override def getFloat(row: Int): Float = all.getFloat(rows(row))
  override def getDouble(row: Int): Double = all.getDouble(rows(row))
  override def getArray(row: Int): ColumnarArray = all.getArray(rows(row))
  override def getMap(row: Int): ColumnarMap = all.getMap(rows(row))
  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = all.getDecimal(rows(row), precision, scale)
  override def getUTF8String(row: Int): UTF8String = all.getUTF8String(rows(row))
  override def getBinary(row: Int): Array[Byte] = all.getBinary(rows(row))
  override def getChild(ordinal: Int): ColumnVector = new ChosenVector(all.getChild(ordinal), rows)
}

/** Lists that all have one length. */
private[cecstore] final class FixedListVector(kind: DataType, nulls: Nulls, size: Int, values: ColumnVector)
    extends FrameVector(kind, nulls) {
  override def getArray(row: Int): ColumnarArray =
    if (isNullAt(row)) null else new ColumnarArray(values, row * size, size)
  override def getChild(ordinal: Int): ColumnVector = values
}
