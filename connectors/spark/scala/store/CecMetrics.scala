package org.apache.spark.sql.cecstore.store

import org.apache.spark.sql.cecstore.replicas.{OwnedStore, OwnerNews}
import org.apache.spark.sql.cecstore.state.Instance
import org.apache.spark.sql.execution.streaming.state._

/** What a progress report shows under `customMetrics`; Spark adds the stores' figures up. */
private[cecstore] object CecMetrics {
  private val figures: Seq[(StateStoreCustomMetric, Instance => Long)] = Seq(
    StateStoreCustomSumMetric("cecExtentRecords", "cec: records that a restart reads") -> (_.extentRecords),
    StateStoreCustomSizeMetric("cecExtentBytes", "cec: bytes of the log that a restart reads") -> (_.state.extentBytes),
    StateStoreCustomSumMetric("cecOpenWindows", "cec: open windows") -> (_.state.openWindows),
    StateStoreCustomSizeMetric("cecLocalBytes", "cec: keys, values and indexes in local files, for want of room in the heap") -> (_.state.localBytes),
    StateStoreCustomSumMetric("cecCheckRecordsWritten", "cec: footprints written again to bound the extent") -> (_.renewedRecords),
    StateStoreCustomSizeMetric("cecBytesAppended", "cec: bytes appended to the log") -> (_.appendedBytes),
    StateStoreCustomTimingMetric("cecAppendLatencyMs", "cec: time to encode, append and sync") -> (_.appendMs),
    StateStoreCustomTimingMetric("cecLoadLatencyMs", "cec: time to load the state from the log") -> ofLoad(_.loadMs),
    StateStoreCustomSumMetric("cecLoadedRecords", "cec: records read to load the state") -> ofLoad(_.loadedRecords),
    StateStoreCustomSumMetric("cecReplicaHits", "cec: loads from a replica") -> ofLoad(i => if (i.isFromReplica) 1 else 0),
    StateStoreCustomSumMetric("cecGetCount", "cec: keys looked up") -> (_.gets),
    StateStoreCustomSumMetric("cecPutCount", "cec: keys put") -> (_.puts),
    StateStoreCustomSumMetric("cecRemoveCount", "cec: keys removed") -> (_.removals),
    StateStoreCustomSumMetric("cecScannedRows", "cec: rows read by scans of whole column families") -> (_.scannedRows),
    StateStoreCustomSumMetric("cecNarrowedScans", "cec: scans that read only rows which may be due") -> (_.narrowedScans))
  private val failures =
    StateStoreCustomSumMetric("cecMaintenanceFailures", "cec: runs of maintenance that failed since the state was loaded")

  private val ofReplicas: Seq[(StateStoreCustomMetric, OwnerNews => Long)] = Seq(
    StateStoreCustomSumMetric("cecReplicaLagVersions", "cec: versions that replicas on other executors lack") -> (_.lagVersions),
    StateStoreCustomSizeMetric("cecReplicaMemoryBytes", "cec: memory of replicas on other executors") -> (_.memoryBytes),
    StateStoreCustomSumMetric("cecMigrations", "cec: partitions that have come to another executor by order") -> (_.arrivals))

  val all: Seq[StateStoreCustomMetric] = figures.map(_._1) ++ ofReplicas.map(_._1) :+ failures

  def of(instance: Instance, maintenanceFailures: Long, owned: Option[OwnedStore]): Map[StateStoreCustomMetric, Long] = {
    val found = figures.map { case (metric, figure) => metric -> figure(instance) }.toMap
    instance.isLoadReported = true
    val news = owned.fold(OwnerNews.None)(_.takeNews())
    found ++ ofReplicas.map { case (metric, figure) => metric -> figure(news) } + (failures -> maintenanceFailures)
  }

  /** The load counts in the first batch after it only. */
  private def ofLoad(figure: Instance => Long): Instance => Long = instance => if (instance.isLoadReported) 0 else figure(instance)
}
