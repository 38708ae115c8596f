package org.apache.spark.sql.cecstore.store

import org.apache.spark.sql.cecstore.state.Instance
import org.apache.spark.sql.execution.streaming.state._

/** What a progress report shows under `customMetrics`; Spark adds the stores' figures up. */
private[cecstore] object CecMetrics {
  private val figures: Seq[(StateStoreCustomMetric, Instance => Long)] = Seq(
    StateStoreCustomSumMetric("cecExtentRecords", "cec: records that a restart reads") -> (_.extentRecords),
    StateStoreCustomSizeMetric("cecExtentBytes", "cec: bytes of the log that a restart reads") -> (_.state.extentBytes),
    StateStoreCustomSumMetric("cecOpenWindows", "cec: open windows") -> (_.state.openWindows),
    StateStoreCustomSumMetric("cecCheckRecordsWritten", "cec: footprints written again to bound the extent") -> (_.renewedRecords),
    StateStoreCustomSizeMetric("cecBytesAppended", "cec: bytes appended to the log") -> (_.appendedBytes),
    StateStoreCustomTimingMetric("cecAppendLatencyMs", "cec: time to encode, append and sync") -> (_.appendMs),
    StateStoreCustomTimingMetric("cecLoadLatencyMs", "cec: time to load the state from the log") -> ofLoad(_.loadMs),
    StateStoreCustomSumMetric("cecLoadedRecords", "cec: records read to load the state") -> ofLoad(_.loadedRecords))

  val all: Seq[StateStoreCustomMetric] = figures.map(_._1)

  def of(instance: Instance): Map[StateStoreCustomMetric, Long] = {
    val found = figures.map { case (metric, figure) => metric -> figure(instance) }.toMap
    instance.isLoadReported = true
    found
  }

  /** The load counts in the first batch after it only. */
  private def ofLoad(figure: Instance => Long): Instance => Long = instance => if (instance.isLoadReported) 0 else figure(instance)
}
