package org.apache.spark.sql.cecstore.moving

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{Dataset, Row}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeRow}
import org.apache.spark.sql.functions.{col, greatest, lit, sum}
import org.apache.spark.sql.types.{BinaryType, IntegerType, LongType, StructType}

/** Whether two checkpoints hold the same state, whatever provider and partitions they have it in. */
private[moving] object Comparing {
  private val Columns = new StructType()
    .add("family", IntegerType, nullable = false).add("key", BinaryType, nullable = false)
    .add("place", LongType, nullable = false).add("value", BinaryType, nullable = false)

  /** For each store: how many rows there are on either side, and how many the other one does not have. */
  def run(first: Source, second: Source): Seq[Map[String, Any]] = {
    val others = second.kinds.map(kind => (kind.operator, kind.store) -> kind).toMap
    val (mine, theirs) = (first.kinds.map(said), second.kinds.map(said))
    if (mine != theirs) throw new Refused(
      s"these are checkpoints of other queries: the one keeps ${mine.diff(theirs).mkString(", ")}, the other " +
        theirs.diff(mine).mkString(", "))
    first.kinds.map { kind =>
      val here = frame(first, kind).withColumn("here", lit(1L)).withColumn("there", lit(0L))
      val there = frame(second, inOrderOf(kind, others((kind.operator, kind.store)))).withColumn("here", lit(0L)).withColumn("there", lit(1L))
      // Each is read once: how often a row is on either side.
      val counted = here.union(there).groupBy(Columns.map(field => col(field.name)): _*).agg(sum("here").as("here"), sum("there").as("there"))
      val more = (one: String, other: String) => sum(greatest(col(one) - col(other), lit(0L)))
      val sums = counted.agg(sum("here"), sum("there"), more("here", "there"), more("there", "here")).head()
      val Seq(rows, otherRows, onlyHere, onlyThere) = (0 until 4).map(n => if (sums.isNullAt(n)) 0L else sums.getLong(n))
      Map("operator" -> kind.operator, "name" -> kind.operatorName, "store" -> kind.store, "rows" -> rows, "other_rows" -> otherRows,
        "only_here" -> onlyHere, "only_there" -> onlyThere)
    }
  }

  private def said(kind: StoreKind): String = {
    val families = kind.families.map(f => s"${f.name}: ${f.key.simpleString} -> ${f.value.simpleString}").sorted
    s"operator ${kind.operator} (${kind.operatorName}), store ${kind.store}, ${families.mkString("; ")}"
  }

  private def inOrderOf(kind: StoreKind, other: StoreKind): StoreKind =
    other.copy(families = kind.families.map(family => other.families.find(_.name == family.name).get))

  private def frame(source: Source, kind: StoreKind): Dataset[Row] =
    source.session.internalCreateDataFrame(rowsOf(source, kind), Columns)

  private def rowsOf(source: Source, kind: StoreKind): RDD[InternalRow] = source.rows[InternalRow](kind) { (kind, _, rows) =>
    val placed = new Placed(kind)
    rows.map(placed.sent)
  }
}

/** Says of each row its place in the list that it is of. */
private final class Placed(kind: StoreKind) {
  private var family = -1
  private var key: UnsafeRow = _
  private var place = 0L

  def sent(row: MovedRow): InternalRow = {
    if (!kind.families(row.family).isList) place = 0
    else if (row.family == family && row.key == key) place += 1
    else { family = row.family; key = row.key.copy(); place = 0 }
    new GenericInternalRow(Array[Any](row.family, row.key.getBytes, place, row.value.getBytes))
  }
}
