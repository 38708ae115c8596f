package org.apache.spark.sql.cecstore.sparks

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** Spark's encoders, where values have formats with numbers and keys say what they support. */
private[cecstore] object Encoders {
  def ofValues(data: RocksDBDataEncoder, schema: StructType, isMultiple: Boolean): RocksDBValueStateEncoder =
    RocksDBStateEncoder.getValueEncoder(data, schema, isMultiple, 1)

  def supportsRangeScan(keys: RocksDBKeyStateEncoder): Boolean = keys.supportsRangeScan
  def supportsDeleteRange(keys: RocksDBKeyStateEncoder): Boolean = keys.supportsDeleteRange
}
