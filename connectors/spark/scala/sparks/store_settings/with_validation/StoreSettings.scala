package org.apache.spark.sql.cecstore.sparks

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreConf, StateStoreId}

/** What this Spark lets be set for its stores; it can have the driver count the commits of a batch. */
private[cecstore] object StoreSettings {
  def deletedPerMaintenance(conf: StateStoreConf): Int = conf.maxVersionsToDeletePerMaintenance
  def isClosedOnCommit(conf: StateStoreConf): Boolean = conf.unloadOnCommit

  def report(conf: StateStoreConf, version: Long, id: StateStoreId, hadoopConf: Configuration): Unit =
    if (conf.commitValidationEnabled) StateStore.reportCommitToCoordinator(version, id, hadoopConf)
}
