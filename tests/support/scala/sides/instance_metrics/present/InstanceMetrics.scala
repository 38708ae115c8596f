package org.apache.spark.sql.cecstore.testing

import org.apache.spark.sql.execution.streaming.state.{StateStoreMetrics, StateStoreProvider}

/** What a store says of its partition. */
object InstanceMetrics {
  val areThere = true
  def told(metrics: StateStoreMetrics): Map[String, Long] =
    metrics.instanceMetrics.map { case (metric, value) => metric.name -> value }
  def supported(provider: StateStoreProvider, partition: Int): Seq[String] =
    provider.supportedInstanceMetrics.map(_.withNewId(partition, "default").name)
}
