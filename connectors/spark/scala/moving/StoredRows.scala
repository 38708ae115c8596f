package org.apache.spark.sql.cecstore.moving

import org.apache.spark.sql.{Dataset, Row}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.types.{BinaryType, IntegerType, StructType}

/** What stands in one partition of a store, as bytes, whatever provider has it. A list has a row for each of its values. */
private[moving] object StoredRows {
  private val Columns = new StructType()
    .add("family", IntegerType, nullable = false).add("key", BinaryType, nullable = false).add("value", BinaryType, nullable = false)

  /** The family `default` is 1, as in a state log; others follow in the order of the schema. */
  def of(source: Source, operator: Long, store: String, partition: Int): Dataset[Row] = {
    val kind = source.kinds.find(kind => kind.operator == operator && kind.store == store).get
    val rows = source.rows(kind, Seq(partition)) { kind =>
      val numbers = numbersOf(kind)
      row => new GenericInternalRow(Array[Any](numbers(row.family), row.key.getBytes, row.value.getBytes))
    }
    source.session.internalCreateDataFrame(rows, Columns)
  }

  private def numbersOf(kind: StoreKind): Array[Int] = {
    var last = 1
    kind.families.map(family => if (family.isDefault) 1 else { last += 1; last }).toArray
  }
}
