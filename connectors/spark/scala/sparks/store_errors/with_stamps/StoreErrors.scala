package org.apache.spark.sql.cecstore.sparks

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** Spark's errors for stores, where it has one for a thread that comes late. */
private[cecstore] object StoreErrors {
  def late(generation: Long, now: Long): Throwable = StateStoreErrors.invalidStamp(generation, now)
  def cannotLoad(cause: Throwable): Throwable = StateStoreErrors.cannotLoadStore(cause)

  /** Raises where a row does not fit what the query says of it. */
  def checkRow(key: UnsafeRow, keySchema: StructType, value: UnsafeRow, valueSchema: StructType, id: StateStoreId, conf: StateStoreConf): Unit =
    StateStoreProvider.validateStateRowFormat(key, keySchema, value, valueSchema, id, conf)
}
