package org.apache.spark.sql.cecstore.transforms

import org.apache.spark.sql.cecstore.CecExtensions
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec

/** `transformWithState` of Scala and Java; Spark's own in all but which stores it takes. */
private[transforms] final class ScalaTransform(@transient private val sparks: TransformWithStateExec) extends ScalaNode(sparks) {
  override protected def validateStateStoreProvider(isStreaming: Boolean): Unit =
    if (!CecExtensions.isOurs(conf)) super.validateStateStoreProvider(isStreaming)

  /** Not equal to the node of Spark's that it replaces: a parent keeps a child that is equal to its new one. */
  override def equals(other: Any): Boolean = other.isInstanceOf[ScalaTransform] && super.equals(other)
  override def canEqual(other: Any): Boolean = other.isInstanceOf[ScalaTransform]
  override def hashCode: Int = super.hashCode

  override protected def withNewChildrenInternal(left: SparkPlan, right: SparkPlan): TransformWithStateExec =
    new ScalaTransform(super.withNewChildrenInternal(left, right))

  override def makeCopy(arguments: Array[AnyRef]): SparkPlan =
    OnAnyStore.withTags(this, new ScalaTransform(sparks.makeCopy(arguments).asInstanceOf[TransformWithStateExec]))
}
