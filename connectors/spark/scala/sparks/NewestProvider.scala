package org.apache.spark.sql.cecstore.sparks

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.util.NextIterator

/** What the newest Spark calls on a provider, and some older one does not know, or calls by fewer arguments. */
private[cecstore] trait NewestProvider extends StateStoreProvider with SupportsFineGrainedReplay with ReportsPartitions {
  // Since 4.3.
  def doSnapshotMaintenance(): Unit
  def doCleanupMaintenance(): Unit

  // Since 4.2.
  def getStore(version: Long, uniqueId: Option[String], forceSnapshotOnCommit: Boolean, loadEmpty: Boolean): StateStore
  def getStore(version: Long, uniqueId: Option[String]): StateStore =
    getStore(version, uniqueId, forceSnapshotOnCommit = false, loadEmpty = false)

  // Since 4.1.
  def replayStateFromSnapshot(snapshotVersion: Long, endVersion: Long, readOnly: Boolean,
      snapshotVersionStateStoreCkptId: Option[String], endVersionStateStoreCkptId: Option[String]): StateStore
  def replayStateFromSnapshot(snapshotVersion: Long, endVersion: Long): StateStore =
    replayStateFromSnapshot(snapshotVersion, endVersion, readOnly = false, None, None)
  def getStateStoreChangeDataReader(startVersion: Long, endVersion: Long, colFamilyNameOpt: Option[String],
      endVersionStateStoreCkptId: Option[String]): NextIterator[(RecordType.Value, UnsafeRow, UnsafeRow, Long)]
  def getStateStoreChangeDataReader(
      startVersion: Long, endVersion: Long, colFamilyNameOpt: Option[String]): NextIterator[(RecordType.Value, UnsafeRow, UnsafeRow, Long)] =
    getStateStoreChangeDataReader(startVersion, endVersion, colFamilyNameOpt, None)
}
