package org.apache.spark.sql.cecstore.sparks

import org.apache.spark.sql.execution.streaming.state._

/** In this Spark partitions have no metrics of their own. */
private[cecstore] trait ReportsPartitions

private[cecstore] object PartitionMetrics {
  /** A store's metrics; this Spark has no place for the partition's. */
  def of(id: StateStoreId, keys: Long, memoryBytes: Long, ofStore: Map[StateStoreCustomMetric, Long], extentRecords: Long): StateStoreMetrics =
    StateStoreMetrics(keys, memoryBytes, ofStore)
}
