package org.apache.spark.sql.cecstore.replicas

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.module.scala.DefaultScalaModule
import scala.collection.mutable
import org.apache.spark.{SparkContext, Success}
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent, SparkListenerJobEnd}
import org.apache.spark.scheduler.{SparkListenerJobStart, SparkListenerTaskEnd}
import org.apache.spark.sql.execution.SparkPlanInfo
import org.apache.spark.sql.execution.ui.{SparkListenerSQLExecutionEnd, SparkListenerSQLExecutionStart}
import org.apache.spark.sql.streaming.StreamingQueryListener

/**
 * What the tasks of each state partition have cost, from Spark's own task metrics, summed since this listens.
 *
 * No event says which operators a task works for. But a task tells the SQL metrics that it has counted, by their
 * accumulators, and the plan of an execution says of which operator each metric is. A task that works for several
 * operators is shared out evenly. What an executor does for no partition of state, as in stages without state, in other jobs
 * and in tasks that fail, is counted by executor. Of whole queries, stateful or not, the processor time of all tasks is counted, of those
 * that failed as well: Spark runs a query's jobs under its run id, as their group.
 *
 * Spark's bus calls from one thread, and whoever reads comes from another: the lock of `this` guards all fields.
 */
final class TaskLoads(clockNs: () => Long) extends SparkListener {
  import TaskLoads.{Group, Operator, Sums}

  /** By accumulator, of the executions that run. */
  private val operators = mutable.HashMap.empty[Long, Operator]
  private val ofExecution = mutable.HashMap.empty[Long, Seq[Long]]
  private val sums = mutable.HashMap.empty[Group, Sums]
  private val othersNsOf = mutable.HashMap.empty[String, Long]
  /** The run id by stage, of jobs that have not ended. */
  private val runOf = mutable.HashMap.empty[Int, String]
  private val stagesOf = mutable.HashMap.empty[Int, Seq[Int]]
  private val cpuNsOf = mutable.HashMap.empty[String, Long]
  /** When each run ended that has not been forgotten, the first one first. */
  private val endedNs = mutable.LinkedHashMap.empty[String, Long]

  override def onJobStart(start: SparkListenerJobStart): Unit =
    for (group <- Option(start.properties).flatMap(each => Option(each.getProperty(TaskLoads.JobGroup)))) synchronized {
      stagesOf(start.jobId) = start.stageIds
      runOf ++= start.stageIds.map(_ -> group)
    }

  override def onJobEnd(end: SparkListenerJobEnd): Unit = synchronized(stagesOf.remove(end.jobId).foreach(runOf --= _))

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case start: SparkListenerSQLExecutionStart => begin(start.executionId, start.sparkPlanInfo)
    case end: SparkListenerSQLExecutionEnd => synchronized(ofExecution.remove(end.executionId).foreach(operators --= _))
    case end: StreamingQueryListener.QueryTerminatedEvent => synchronized(endedNs(end.runId.toString) = clockNs())
    case _ =>
  }

  private def begin(execution: Long, plan: SparkPlanInfo): Unit = {
    val found = TaskLoads.metricsOf(plan).toMap
    if (found.nonEmpty) synchronized {
      operators ++= found
      ofExecution(execution) = found.keys.toSeq
    }
  }

  override def onTaskEnd(end: SparkListenerTaskEnd): Unit = {
    val metrics = end.taskMetrics
    if (metrics != null) synchronized {
      for (run <- runOf.get(end.stageId)) {
        val cpuNs = metrics.executorCpuTime + metrics.executorDeserializeCpuTime
        cpuNsOf(run) = cpuNsOf.getOrElse(run, 0L) + cpuNs
      }
    }
    if (metrics != null) synchronized {
      val of = if (end.reason == Success) end.taskInfo.accumulables.flatMap(each => operators.get(each.id)).distinct else Nil
      if (of.isEmpty) othersNsOf(end.taskInfo.executorId) =
        othersNsOf.getOrElse(end.taskInfo.executorId, 0L) + metrics.executorCpuTime
      val partition = if (end.taskInfo.partitionId >= 0) end.taskInfo.partitionId else end.taskInfo.index
      val read = metrics.shuffleReadMetrics
      of.foreach { operator =>
        val sum = sums.getOrElseUpdate(Group(operator.query, operator.id, partition), new Sums)
        sum.tasks += 1
        sum.cpuNs += metrics.executorCpuTime / of.size
        sum.rows += read.recordsRead / of.size
        sum.bytes += read.totalBytesRead / of.size
        sum.written += metrics.shuffleWriteMetrics.bytesWritten / of.size
        sum.memory = math.max(sum.memory, metrics.peakExecutionMemory)
      }
    }
  }

  /**
   * `[{"query": "…", "operator": 0, "partition": 3, "tasks": 12, "cpu_ns": 3400000, "rows": 100, "bytes": 2000,
   * "written_bytes": 300, "memory_bytes": 4000}]`, by the run id of the query: bytes of shuffles that were read and written,
   * and the most that a task had for sorts and aggregates, beside the state. A run is told of until ten minutes after its end.
   */
  def text(): String = synchronized {
    forgetEnded()
    TaskLoads.json.writeValueAsString(sums.toSeq.map { case (group, sum) =>
      Map("query" -> group.query, "operator" -> group.operator, "partition" -> group.partition, "tasks" -> sum.tasks,
        "cpu_ns" -> sum.cpuNs, "rows" -> sum.rows, "bytes" -> sum.bytes, "written_bytes" -> sum.written,
        "memory_bytes" -> sum.memory)
    })
  }

  /** `{"0": 3400000}`: processor time by the executor, of tasks for no partition of state. */
  def othersText(): String = synchronized(TaskLoads.json.writeValueAsString(othersNsOf))

  /** `{"…": 3400000}`: processor time by the run id, as long as [[text]] tells of it, or by another group of jobs. */
  def queriesText(): String = synchronized {
    forgetEnded()
    TaskLoads.json.writeValueAsString(cpuNsOf)
  }

  /** Each reader takes the difference to what it read last, so none may miss what came between that and the end. */
  private def forgetEnded(): Unit = {
    val runs = endedNs.iterator.takeWhile { case (_, at) => clockNs() - at > TaskLoads.EndedNs }.map(_._1).toSet
    if (runs.nonEmpty) {
      sums.filterInPlace((group, _) => !runs(group.query))
      cpuNsOf --= runs
      endedNs --= runs
    }
  }
}

object TaskLoads {
  private final case class Operator(query: String, id: Long)
  private final case class Group(query: String, operator: Long, partition: Int)
  private final class Sums { var tasks, cpuNs, rows, bytes, written, memory = 0L }

  private val EndedNs = 10L * 60 * 1000 * 1000 * 1000
  /** Spark's name for it among a job's properties. */
  private val JobGroup = "spark.jobGroup.id"
  private val json = new ObjectMapper().registerModule(DefaultScalaModule)
  /** As Spark's `StatefulOperatorStateInfo` prints itself in a plan. */
  private val StateInfo = "state info \\[ checkpoint = .*, runId = ([0-9a-f-]+), opId = (\\d+),".r.unanchored

  private var last: Option[(SparkContext, TaskLoads)] = None

  /** The one of this application, which listens from the first call on. */
  def of(context: SparkContext): TaskLoads = synchronized {
    last.collect { case (known, loads) if known eq context => loads }.getOrElse {
      val made = new TaskLoads(() => System.nanoTime())
      context.addSparkListener(made)
      last = Some(context -> made)
      made
    }
  }

  private def metricsOf(plan: SparkPlanInfo): Seq[(Long, Operator)] = {
    val own = plan.simpleString match {
      case StateInfo(query, operator) => plan.metrics.map(_.accumulatorId -> Operator(query, operator.toLong))
      case _ => Nil
    }
    own ++ plan.children.flatMap(metricsOf)
  }
}
