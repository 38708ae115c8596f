package org.apache.spark.sql.cecstore.transforms

import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.cecstore.CecStateStoreProvider
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec
import org.apache.spark.sql.internal.SQLConf

/** Spark's nodes for `transformWithState` become ours where the query keeps its state with our provider. */
private[cecstore] object OnAnyStore extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case node: TransformWithStateExec if node.isStreaming && isOurs(node.conf) => withTags(node, new ScalaTransform(node))
    case node: TransformWithStateInPySparkExec if node.isStreaming && isOurs(node.conf) => withTags(node, new PythonTransform(node))
  }

  /** Which provider a query has stands in its checkpoint; Spark puts it into the settings of its plans. */
  def isOurs(conf: SQLConf): Boolean = conf.getConf(SQLConf.STATE_STORE_PROVIDER_CLASS) == classOf[CecStateStoreProvider].getName

  /** A node's tags say which logical plan it is of. */
  def withTags[A <: SparkPlan](from: SparkPlan, to: A): A = { to.copyTagsFrom(from); to }
}
