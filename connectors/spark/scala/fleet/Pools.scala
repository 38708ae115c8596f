package org.apache.spark.sql.cecstore.fleet

import java.util.{List => JList}
import scala.collection.mutable
import scala.jdk.CollectionConverters._
import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{Pool, SchedulingMode}

/**
 * Whose tasks get a free core first, where the application shares its cores out fairly: those of a fleet's queries that
 * keep up with their input. What they leave goes to queries that are behind, in the order of the fleet's plan, so
 * that queries come back one after the other, and not all late together. Su & Zhou, section 4.4.
 * However cores are shared out, a query that is behind does not wait for its triggers.
 *
 * A pool of Spark's has a place that is fixed, and a query's jobs go to the pool that its thread names: so each query
 * has a pool in either part, and the source of its rows says before each batch which one is meant.
 */
private[cecstore] object Pools {
  private val PoolKey = "spark.scheduler.pool"
  /** A local property of a query's thread: its pool while it is in time. Without it nothing here is done. */
  private val QueryKey = "spark.cec.fleet.query"
  private val InTime = "cec, in time"
  private val Behind = "cec, behind"
  /** Of each query that was arranged, its place among those that are behind. */
  private var places = Map.empty[String, Int]
  /** Sources of this thread's query that have more to read than they have given out. */
  private val late = ThreadLocal.withInitial { () =>
    val sources = mutable.Set.empty[AnyRef]
    Triggers.skipWhile(() => sources.nonEmpty)
    sources
  }

  /**
   * Have the query that this thread starts next go by these pools. A query that was not arranged comes after all others.
   *
   * @param inTurn else it has one pool, with the same share as any other, and waits for its triggers also while it is
   *   behind
   */
  def enter(context: SparkContext, query: String, inTurn: Boolean): Unit = synchronized {
    val root = context.taskScheduler.rootPool
    context.setLocalProperty(PoolKey, query)
    if (inTurn) {
      context.setLocalProperty(QueryKey, query)
      // First come, first served does without pools.
      if (root.schedulingMode == SchedulingMode.FAIR) {
        pool(pool(root, InTime, SchedulingMode.FAIR, Int.MaxValue), query)
        put(pool(pool(root, Behind), behind(query)), query)
      }
    }
  }

  /** Serve queries that are behind in this order from now on, those that run already among them. */
  def arrange(context: SparkContext, queries: JList[String]): Unit = synchronized {
    places = queries.asScala.zipWithIndex.toMap
    for (parent <- Option(context.taskScheduler.rootPool.getSchedulableByName(Behind)); query <- places.keys)
      parent.getSchedulableByName(behind(query)) match {
        case known: Pool => put(known, query)
        case _ => // it is entered when the query starts
      }
  }

  /** In a pool that is first in, first out its pools go by the number of their stage. */
  private def put(pool: Pool, query: String): Unit = pool.stageId = places.getOrElse(query, Int.MaxValue)

  /** This thread starts no more queries. */
  def leave(context: SparkContext): Unit = Seq(PoolKey, QueryKey).foreach(context.setLocalProperty(_, null))

  /** Of a source of the query whose thread this is: whether its next batch leaves rows that are there already. */
  def told(source: AnyRef, isBehind: Boolean): Unit =
    for (context <- SparkContext.getActive; query <- Option(context.getLocalProperty(QueryKey))) {
      if (isBehind) late.get += source else late.get -= source
      context.setLocalProperty(PoolKey, if (late.get.isEmpty) query else behind(query))
    }

  private def behind(query: String) = s"$query, behind"

  private def pool(parent: Pool, name: String, mode: SchedulingMode.SchedulingMode = SchedulingMode.FIFO, minShare: Int = 0): Pool =
    parent.getSchedulableByName(name) match {
      case known: Pool => known
      case _ =>
        val made = new Pool(name, mode, minShare, 1)
        parent.addSchedulable(made)
        made
    }
}
