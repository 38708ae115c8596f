package org.apache.spark.sql.cecstore.moving

import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.execution.streaming.operators.stateful.StatePartitionKeyExtractorFactory
import org.apache.spark.sql.execution.streaming.state.StatePartitionKeyExtractor
import org.apache.spark.sql.types.StructType

/**
 * The partition in which an operator looks for a row of its state, of so many: as the exchange before it hashes the
 * group that the row is of.
 */
private[moving] final class NewPlace(kind: StoreKind, partitions: Int, joinFormat: Int) {
  private val ofFamily: Array[UnsafeRow => Int] = kind.families.map(inFamily).toArray

  def apply(row: MovedRow): Int = ofFamily(row.family)(row.key)

  private def inFamily(family: Family): UnsafeRow => Int =
    if (kind.isOneKey) _ => 0
    else if (kind.isTransform && family.isDefault) _ => throw new IllegalStateException(s"${kind.operatorName} keeps rows in ${family.name}")
    else {
      val extractor = NewPlace.extractor(kind, family, joinFormat)
      val hash = NewPlace.hash(extractor.partitionKeySchema, partitions)
      key => hash(extractor.partitionKey(key)).getInt(0)
    }
}

private[moving] object NewPlace {
  private def hash(key: StructType, partitions: Int): UnsafeProjection = {
    val fields = key.zipWithIndex.map { case (field, place) => BoundReference(place, field.dataType, field.nullable) }
    UnsafeProjection.create(Seq(HashPartitioning(fields, partitions).partitionIdExpression))
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
