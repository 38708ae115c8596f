package org.apache.spark.sql.cecstore.store

import org.apache.spark.sql.cecstore.state.Instance
import org.apache.spark.sql.execution.streaming.state._

/** What a progress report shows under `customMetrics`; Spark adds the stores' figures up. */
private[cecstore] object CecMetrics {
  private val extentRecords = StateStoreCustomSumMetric("cecExtentRecords", "cec: records that a restart reads")
  private val extentBytes = StateStoreCustomSizeMetric("cecExtentBytes", "cec: bytes of the log that a restart reads")
  private val openWindows = StateStoreCustomSumMetric("cecOpenWindows", "cec: open windows")
  private val checks = StateStoreCustomSumMetric("cecCheckRecordsWritten", "cec: footprints written again to bound the extent")
  private val appended = StateStoreCustomSizeMetric("cecBytesAppended", "cec: bytes appended to the log")
  private val appendMs = StateStoreCustomTimingMetric("cecAppendLatencyMs", "cec: time to encode, append and sync")
  private val loadMs = StateStoreCustomTimingMetric("cecLoadLatencyMs", "cec: time to load the state from the log")
  private val loaded = StateStoreCustomSumMetric("cecLoadedRecords", "cec: records read to load the state")

  val all: Seq[StateStoreCustomMetric] =
    Seq(extentRecords, extentBytes, openWindows, checks, appended, appendMs, loadMs, loaded)

  /** The load counts in the first batch after it only. */
  def of(instance: Instance): Map[StateStoreCustomMetric, Long] = {
    val isFirst = !instance.isLoadReported
    instance.isLoadReported = true
    Map(extentRecords -> instance.extentRecords, extentBytes -> instance.state.extentBytes,
      openWindows -> instance.state.openWindows, checks -> instance.renewedRecords, appended -> instance.appendedBytes,
      appendMs -> instance.appendMs, loadMs -> (if (isFirst) instance.loadMs else 0L),
      loaded -> (if (isFirst) instance.loadedRecords else 0L))
  }
}
