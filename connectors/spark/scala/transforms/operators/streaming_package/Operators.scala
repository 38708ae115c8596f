package org.apache.spark.sql.cecstore.transforms

import org.apache.spark.sql.execution.python.streaming.FlatMapGroupsInPandasWithStateExec
import org.apache.spark.sql.execution.streaming

/** Spark's stateful operators, where these are among the classes of all of streaming. */
private[transforms] object Operators {
  type Stateful = streaming.StateStoreWriter
  type WithWatermark = streaming.WatermarkSupport
  type Aggregation = streaming.StateStoreSaveExec
  type Deduplication = streaming.StreamingDeduplicateExec
  type DeduplicationWithin = streaming.StreamingDeduplicateWithinWatermarkExec
  type Sessions = streaming.SessionWindowStateStoreSaveExec
  type Groups = streaming.FlatMapGroupsWithStateExec
  type Join = streaming.StreamingSymmetricHashJoinExec
  type JoinPredicate = streaming.StreamingSymmetricHashJoinHelper.JoinStateWatermarkPredicate
  type GroupsInPandas = FlatMapGroupsInPandasWithStateExec
}
