package org.apache.spark.sql.cecstore.transforms

import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec

/** A node like another one, as Spark makes it where it also has a mode of real time. */
private[transforms] abstract class ScalaNode(sparks: TransformWithStateExec) extends TransformWithStateExec(
    sparks.keyDeserializer, sparks.valueDeserializer, sparks.groupingAttributes, sparks.dataAttributes,
    sparks.statefulProcessor, sparks.timeMode, sparks.outputMode, sparks.keyEncoder, sparks.outputObjAttr,
    sparks.stateInfo, sparks.batchTimestampMs, sparks.prevBatchTimestampMs, sparks.eventTimeWatermarkForLateEvents,
    sparks.eventTimeWatermarkForEviction, sparks.child, sparks.isStreaming, sparks.isRealTimeMode, sparks.hasInitialState,
    sparks.initialStateGroupingAttrs, sparks.initialStateDataAttrs, sparks.initialStateDeserializer, sparks.initialState)
