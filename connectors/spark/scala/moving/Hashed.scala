package org.apache.spark.sql.cecstore.moving

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeRow}
import org.apache.spark.sql.types.{BinaryType, IntegerType, StructType}

/** Rows of state as they go through Spark's exchange: with the partition they go to. Rows of one key stay in their order. */
private[moving] object Hashed {
  val Columns: StructType = new StructType()
    .add("place", IntegerType, nullable = false).add("family", IntegerType, nullable = false)
    .add("key", BinaryType, nullable = false).add("value", BinaryType, nullable = false)

  def sent(row: MovedRow, place: NewPlace): InternalRow =
    new GenericInternalRow(Array[Any](place(row), row.family, row.key.getBytes, row.value.getBytes))

  /** The rows as they were read. An exchange has unsafe rows, in which bytes lie as a struct does. */
  def moved(rows: Iterator[InternalRow], kind: StoreKind): Iterator[MovedRow] = {
    val moved = new MovedRow
    val keyFields = kind.families.map(_.key.length).toArray
    val valueFields = kind.families.map(_.value.length).toArray
    rows.map { row =>
      val family = row.getInt(1)
      moved.set(family, row.getStruct(2, keyFields(family)).asInstanceOf[UnsafeRow],
        row.getStruct(3, valueFields(family)).asInstanceOf[UnsafeRow])
    }
  }
}
