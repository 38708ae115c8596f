package org.apache.spark.sql.cecstore.sparks

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.streaming.state._

/** A provider whose partitions have metrics of their own in a progress report. */
private[cecstore] trait ReportsPartitions extends StateStoreProvider {
  override def supportedInstanceMetrics: Seq[StateStoreInstanceMetric] = Seq(ExtentOfPartition())
}

private[cecstore] object PartitionMetrics {
  /** A store's metrics, with what a restart of this partition would read. */
  def of(id: StateStoreId, keys: Long, memoryBytes: Long, ofStore: Map[StateStoreCustomMetric, Long], extentRecords: Long): StateStoreMetrics =
    StateStoreMetrics(keys, memoryBytes, ofStore, Map(ExtentOfPartition(Some(id.partitionId), id.storeName) -> extentRecords))
}

/** Since 4.3. */
private[sparks] trait CombinedByValue {
  def combine(before: Long, value: Long): Long
}

/** What a restart of one partition reads; Spark reports the largest few. */
private[sparks] final case class ExtentOfPartition(
    partitionId: Option[Int] = None, storeName: String = StateStoreId.DEFAULT_STORE_NAME) extends StateStoreInstanceMetric with CombinedByValue {
  override def metricPrefix: String = "CecExtentRecords"
  override def descPrefix: String = "cec: records that a restart of the partition reads"
  override def initValue: Long = 0
  override def createSQLMetric(context: SparkContext): SQLMetric = SQLMetrics.createMetric(context, desc)
  override def ordering: Ordering[Long] = Ordering.Long.reverse
  override def ignoreIfUnchanged: Boolean = true
  override def combine(before: SQLMetric, value: Long): Long = math.max(before.value, value)
  override def combine(before: Long, value: Long): Long = math.max(before, value)
  override def withNewId(partitionId: Int, storeName: String): ExtentOfPartition = copy(Some(partitionId), storeName)
}
