package org.apache.spark.sql.cecstore.transforms

import org.apache.spark.sql.catalyst.expressions.{Attribute, BoundReference, Expression, GetStructField, LeafExpression, LessThanOrEqual, Literal}
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.cecstore.CecExtensions
import org.apache.spark.sql.cecstore.log.JoinNames
import org.apache.spark.sql.cecstore.store.ScanHint
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.state.StateStoreId
import org.apache.spark.sql.streaming.{GroupStateTimeout, OutputMode}
import org.apache.spark.sql.types.StructType

/**
 * Tells the stores of a batch which rows its operators look for when they read all of their state, as far as that goes by
 * a time: docs/watermarks.md. No plan is changed. Written on the thread that runs the query, whose jobs take it along;
 * an operator of which nothing is known has its hint cleared.
 */
private[cecstore] object ScanHints {
  import Operators._

  private val TimeoutColumn = "timeoutTimestamp"

  def write(plan: SparkPlan): Unit = plan.foreach {
    case node: Stateful if CecExtensions.isOurs(node.conf) => node.stateInfo.foreach { info =>
      bounds(node).foreach { case (store, bound) =>
        val hint = bound.map(b => ScanHint(info.storeVersion, b.isInKey, b.path, b.isInMillis, b.us).text)
        node.session.sparkContext.setLocalProperty(ScanHint.nameFor(info.queryRunId.toString, info.operatorId, store), hint.orNull)
      }
    }
    case _ =>
  }

  /** By the store that the operator scans. */
  private def bounds(node: Stateful): Seq[(String, Option[Bound])] = node match {
    case join: Join =>
      val predicates = join.stateWatermarkPredicates
      JoinNames.ofCounts.zip(Seq(ofSide(predicates.left, join.left.output), ofSide(predicates.right, join.right.output)))
    case _ => Seq(StateStoreId.DEFAULT_STORE_NAME -> bound(node))
  }

  private final case class Bound(isInKey: Boolean, path: Seq[Int], us: Long, isInMillis: Boolean = false)

  /** Rows at or below it are all that the operator looks for in a scan. */
  private def bound(node: Stateful): Option[Bound] = node match {
    case node: Aggregation if !node.outputMode.contains(OutputMode.Complete()) => ofKey(node)
    case node: Deduplication => ofKey(node)
    case node: DeduplicationWithin => node.eventTimeWatermarkForEviction.map(ms => Bound(isInKey = false, Seq(0), ms * 1000))
    case node: Sessions if node.outputMode.contains(OutputMode.Append()) => ofInput(node)
    case node: Groups => ofTimeout(node.timeoutConf, node.batchTimestampMs, node.eventTimeWatermarkForEviction, node.stateManager.stateSchema)
    case node: GroupsInPandas => ofTimeout(node.timeoutConf, node.batchTimestampMs, node.eventTimeWatermarkForEviction, node.stateManager.stateSchema)
    case _ => None
  }

  /** The operator's own test, where it is of a column of the key and of no other time. */
  private def ofKey(node: WithWatermark): Option[Bound] = for {
    (column: Attribute, field, us) <- node.watermarkExpressionForEviction.flatMap(test)
    times = node.keyExpressions.filter(_.metadata.contains(EventTimeWatermark.delayKey)) if times.nonEmpty && times.forall(_.exprId == column.exprId)
  } yield Bound(isInKey = true, node.keyExpressions.indexWhere(_.exprId == column.exprId) +: field.toSeq, us)

  /** The same of a column of the operator's input, whose rows are the values. */
  private def ofInput(node: WithWatermark): Option[Bound] = for {
    (column: Attribute, field, us) <- node.watermarkExpressionForEviction.flatMap(test)
    place <- Some(node.child.output.indexWhere(_.exprId == column.exprId)) if place >= 0
  } yield Bound(isInKey = false, place +: field.toSeq, us)

  /** One side of a join: its keys are those of the store that is scanned, its values those of the store beside it. */
  private def ofSide(predicate: Option[JoinPredicate], input: Seq[Attribute]): Option[Bound] = predicate.map(_.expr).flatMap(test).flatMap {
    case (key: BoundReference, field, us) => Some(Bound(isInKey = true, key.ordinal +: field.toSeq, us))
    case (column: Attribute, field, us) =>
      Some(input.indexWhere(_.exprId == column.exprId)).filter(_ >= 0).map(place => Bound(isInKey = false, place +: field.toSeq, us))
    case _ => None
  }

  /** A group times out before a time, not at it. */
  private def ofTimeout(kind: GroupStateTimeout, batchMs: Option[Long], watermarkMs: Option[Long], schema: StructType): Option[Bound] = for {
    ms <- if (kind == GroupStateTimeout.ProcessingTimeTimeout) batchMs else if (kind == GroupStateTimeout.EventTimeTimeout) watermarkMs else None
    place <- schema.getFieldIndex(TimeoutColumn)
  } yield Bound(isInKey = false, Seq(place), ms * 1000 - 1, isInMillis = true)

  /** What Spark's test of a watermark compares: a column, or a field of it, with microseconds. */
  private def test(expression: Expression): Option[(LeafExpression, Option[Int], Long)] = expression match {
    case LessThanOrEqual(column: LeafExpression, Literal(us: Long, _)) => Some((column, None, us))
    case LessThanOrEqual(GetStructField(column: LeafExpression, field, _), Literal(us: Long, _)) => Some((column, Some(field), us))
    case _ => None
  }
}
