package org.apache.spark.sql.cecstore.sparks

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.execution.streaming.state.{StateStoreConf, StateStoreId}

/** What can be set in a Spark where nobody counts the commits of a batch: here what it does without being told. */
private[cecstore] object StoreSettings {
  private val AllVersions = -1

  def deletedPerMaintenance(conf: StateStoreConf): Int = AllVersions
  def isClosedOnCommit(conf: StateStoreConf): Boolean = false
  def report(conf: StateStoreConf, version: Long, id: StateStoreId, hadoopConf: Configuration): Unit = ()
}
