package org.apache.spark.sql.cecstore.moving

import java.util.Arrays
import org.apache.spark.sql.{Dataset, Row}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.cecstore.store.{FamilyCodec, FamilyKind, PlainRows, ReusedBytes}
import org.apache.spark.sql.types.{BinaryType, IntegerType, StructType}

/** What stands in one partition of a store, in the bytes that a state log has, whatever provider keeps it. A list has a row for each value. */
private[moving] object StoredRows {
  private val Columns = new StructType()
    .add("family", IntegerType, nullable = false).add("key", BinaryType, nullable = false).add("value", BinaryType, nullable = false)

  /** The family `default` is 1, as in a state log; others follow in the order of the schema. */
  def of(source: Source, operator: Long, store: String, partition: Int): Dataset[Row] = {
    val kind = source.kinds.find(kind => kind.operator == operator && kind.store == store).get
    val rows = source.rows[InternalRow](kind, Seq(partition))(encoded)
    source.session.internalCreateDataFrame(rows, Columns)
  }

  private def encoded(kind: StoreKind, partition: Int, rows: Iterator[MovedRow]): Iterator[InternalRow] = {
    var last = 1
    val families = kind.families.map { family =>
      val number = if (family.isDefault) 1 else { last += 1; last }
      number -> new FamilyCodec(FamilyKind(family.name, family.spec, family.value, kind.hasFamilies, isMultiple = false), PlainRows)
    }.toArray
    rows.map { row =>
      val (number, codec) = families(row.family)
      new GenericInternalRow(Array[Any](number, copied(codec.keyOf(row.key)), copied(codec.valueOf(row.value))))
    }
  }

  private def copied(bytes: ReusedBytes): Array[Byte] = Arrays.copyOf(bytes.array, bytes.length)
}
