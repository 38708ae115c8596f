package org.apache.spark.sql.cecstore.replicas

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.state.StateStoreId

/**
 * One state store, whichever run of the query uses it.
 *
 * @param root the folder `state` of the query's checkpoint
 */
private[cecstore] final case class StoreKey(root: String, operator: Long, partition: Int, name: String) {
  def id: StateStoreId = StateStoreId(root, operator, partition, name)
  def folder: Path = id.storeCheckpointLocation()
  def of: PartitionKey = PartitionKey(root, operator, partition)
}

private[cecstore] object StoreKey {
  def apply(id: StateStoreId): StoreKey = StoreKey(id.checkpointRootLocation, id.operatorId, id.partitionId, id.storeName)
}

/** All stores of an operator's partition: they are read by one task, and move together. */
private[cecstore] final case class PartitionKey(root: String, operator: Long, partition: Int)

/**
 * Where a store's newest version ends.
 *
 * @param uniqueId of the version's last frame, with either checkpoint format. docs/format.md §9
 */
private[cecstore] final case class Head(version: Long, uniqueId: String)
