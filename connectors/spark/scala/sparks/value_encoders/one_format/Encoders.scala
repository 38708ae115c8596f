package org.apache.spark.sql.cecstore.sparks

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** Spark's encoders, where values have one format and only one kind of keys lies in order. */
private[cecstore] object Encoders {
  def ofValues(data: RocksDBDataEncoder, schema: StructType, isMultiple: Boolean): RocksDBValueStateEncoder =
    RocksDBStateEncoder.getValueEncoder(data, schema, isMultiple)

  def supportsRangeScan(keys: RocksDBKeyStateEncoder): Boolean = keys.isInstanceOf[RangeKeyScanStateEncoder]
  def supportsDeleteRange(keys: RocksDBKeyStateEncoder): Boolean = supportsRangeScan(keys)
}
