package org.apache.spark.sql.cecstore.moving

import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.execution.streaming.operators.stateful.StatePartitionKeyExtractorFactory
import org.apache.spark.sql.execution.streaming.state.StatePartitionKeyExtractor
import org.apache.spark.sql.types.StructType

/**
 * The partition in which an operator looks for a row of its state, of so many: as the exchange before it hashes the
 * group that the row is of. A row of partition `from` that does not stand where its key is hashed to was put under
 * another key than that of its group, which would not find it again: Refused.
 */
private[moving] final class NewPlace(kind: StoreKind, from: Int, partitions: Int, joinFormat: Int) {
  private val ofFamily: Array[UnsafeRow => Int] = kind.families.map(inFamily).toArray

  def apply(row: MovedRow): Int = ofFamily(row.family)(row.key)

  private def misplaced = new Refused(
    s"operator ${kind.operator} (${kind.operatorName}): partition $from has state under a key that Spark's exchange sends " +
      "elsewhere, so its group would not find it among other partitions. So it is with a null in the key of " +
      "transformWithState in pandas, which keeps it as a text: leave such rows out of a new query, or keep the partitions")

  private def inFamily(family: Family): UnsafeRow => Int =
    if (kind.isOneKey) _ => 0
    else if (kind.isTransform && family.isDefault) _ => throw new IllegalStateException(s"${kind.operatorName} keeps rows in ${family.name}")
    else {
      val extractor = NewPlace.extractor(kind, family, joinFormat)
      val places = NewPlace.hash(extractor.partitionKeySchema, kind.partitions, partitions)
      key => {
        val found = places(extractor.partitionKey(key))
        if (found.getInt(0) != from) throw misplaced
        found.getInt(1)
      }
    }
}

private[moving] object NewPlace {
  /** Its partition among each of these numbers of them. */
  private def hash(key: StructType, partitions: Int*): UnsafeProjection = {
    val fields = key.zipWithIndex.map { case (field, place) => BoundReference(place, field.dataType, field.nullable) }
    UnsafeProjection.create(partitions.map(HashPartitioning(fields, _).partitionIdExpression))
  }

  private def extractor(kind: StoreKind, family: Family, joinFormat: Int): StatePartitionKeyExtractor =
    StatePartitionKeyExtractorFactory.create(
      kind.operatorName, family.key, kind.store, family.name, Some(joinFormat), family.variable)

  /** Raise for an operator of which it is not known. */
  def check(kind: StoreKind, joinFormat: Int): Unit = if (!kind.isOneKey) {
    val keyed = kind.families.filter(family => !(kind.isTransform && family.isDefault))
    try keyed.foreach(extractor(kind, _, joinFormat)) catch { case e: Exception =>
      throw new Refused(s"operator ${kind.operator} (${kind.operatorName}): which partition a row of its state belongs to is not known: ${e.getMessage}")
    }
  }
}
