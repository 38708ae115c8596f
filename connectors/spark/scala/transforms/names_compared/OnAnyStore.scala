package org.apache.spark.sql.cecstore.transforms

import org.apache.spark.sql.cecstore.CecExtensions.isOurs
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec

/** Spark's nodes for `transformWithState` become ours where the query keeps its state with our provider. */
private[cecstore] object OnAnyStore {
  def replaced(plan: SparkPlan): SparkPlan = plan.transformUp {
    case node: TransformWithStateExec if node.isStreaming && isOurs(node.conf) => withTags(node, new ScalaTransform(node))
    case node: TransformWithStateInPySparkExec if node.isStreaming && isOurs(node.conf) => withTags(node, new PythonTransform(node))
  }

  /** A node's tags say which logical plan it is of. */
  def withTags[A <: SparkPlan](from: SparkPlan, to: A): A = { to.copyTagsFrom(from); to }
}
