package org.apache.spark.sql.cecstore.transforms

import org.apache.spark.sql.execution.python.streaming.FlatMapGroupsInPandasWithStateExec
import org.apache.spark.sql.execution.streaming.operators.stateful
import org.apache.spark.sql.execution.streaming.operators.stateful.flatmapgroupswithstate.FlatMapGroupsWithStateExec
import org.apache.spark.sql.execution.streaming.operators.stateful.join

/** Spark's stateful operators, where these have a package of their own. */
private[transforms] object Operators {
  type Stateful = stateful.StateStoreWriter
  type WithWatermark = stateful.WatermarkSupport
  type Aggregation = stateful.StateStoreSaveExec
  type Deduplication = stateful.StreamingDeduplicateExec
  type DeduplicationWithin = stateful.StreamingDeduplicateWithinWatermarkExec
  type Sessions = stateful.SessionWindowStateStoreSaveExec
  type Groups = FlatMapGroupsWithStateExec
  type Join = join.StreamingSymmetricHashJoinExec
  type JoinPredicate = join.StreamingSymmetricHashJoinHelper.JoinStateWatermarkPredicate
  type GroupsInPandas = FlatMapGroupsInPandasWithStateExec
}
