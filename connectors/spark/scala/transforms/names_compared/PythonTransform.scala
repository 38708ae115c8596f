package org.apache.spark.sql.cecstore.transforms

import org.apache.spark.sql.cecstore.CecExtensions
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec

/** `transformWithState` and `transformWithStateInPandas` of Python; Spark's own in all but which stores it takes. */
private[transforms] final class PythonTransform(@transient private val sparks: TransformWithStateInPySparkExec)
  extends TransformWithStateInPySparkExec(
    sparks.functionExpr, sparks.groupingAttributes, sparks.output, sparks.outputMode, sparks.timeMode, sparks.stateInfo,
    sparks.batchTimestampMs, sparks.prevBatchTimestampMs, sparks.eventTimeWatermarkForLateEvents,
    sparks.eventTimeWatermarkForEviction, sparks.userFacingDataType, sparks.child, sparks.isStreaming, sparks.hasInitialState,
    sparks.initialState, sparks.initialStateGroupingAttrs, sparks.initialStateSchema) {

  override protected def validateStateStoreProvider(isStreaming: Boolean): Unit =
    if (!CecExtensions.isOurs(conf)) super.validateStateStoreProvider(isStreaming)

  /** Not equal to the node of Spark's that it replaces: a parent keeps a child that is equal to its new one. */
  override def equals(other: Any): Boolean = other.isInstanceOf[PythonTransform] && super.equals(other)
  override def canEqual(other: Any): Boolean = other.isInstanceOf[PythonTransform]
  override def hashCode: Int = super.hashCode

  override protected def withNewChildrenInternal(left: SparkPlan, right: SparkPlan): TransformWithStateInPySparkExec =
    new PythonTransform(super.withNewChildrenInternal(left, right))

  override def makeCopy(arguments: Array[AnyRef]): SparkPlan =
    OnAnyStore.withTags(this, new PythonTransform(sparks.makeCopy(arguments).asInstanceOf[TransformWithStateInPySparkExec]))
}
