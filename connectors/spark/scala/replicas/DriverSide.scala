package org.apache.spark.sql.cecstore.replicas

import scala.util.control.NonFatal
import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.{SparkListener, SparkListenerExecutorRemoved, TaskSchedulerImpl}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.util.Utils
import scala.jdk.CollectionConverters._

/** Connects the [[Driver]] with Spark: messages of executors, executors that are lost, time. */
private[cecstore] final class DriverSide(context: SparkContext) extends Logging {
  import DriverSide._

  private val driver = new Driver(new CoordinatorRouting(context.env), isDraining, () => activeRuns,
    () => System.currentTimeMillis(), ReplicaLimits.parse(context.conf.getOption), rackOf)
  @volatile private var isStopped = false
  private val ticking = new Thread(() => tickOn(), "cec-replicas-driver")

  private val losses = new SparkListener {
    override def onExecutorRemoved(event: SparkListenerExecutorRemoved): Unit = driver.lost(event.executorId)
  }

  def start(): Unit = {
    val provider = context.conf.get("spark.sql.streaming.stateStore.providerClass", "")
    if (provider.split('.').last != Provider) logWarning(s"cec: spark.plugins names the plugin for replicas, but " +
      s"the state store provider is '$provider': replicas are kept of the state that $Provider has")
    if (Utils.isDynamicAllocationEnabled(context.conf)) logWarning("cec: with dynamic allocation Spark takes executors away that " +
      "run no tasks, and with them the replicas that they hold: set spark.dynamicAllocation.minExecutors to as many as hold " +
      "state and replicas, or spark.dynamicAllocation.executorIdleTimeout longer than the pauses of the queries")
    // A queue of its own: other listeners may be slow.
    context.listenerBus.addToQueue(losses, "cecReplicas")
    ticking.setDaemon(true)
    ticking.start()
    Cluster.running = Some(driver)
  }

  def answer(message: Array[AnyRef]): AnyRef = driver.heard(Report.decode(message)).encoded

  private def tickOn(): Unit = while (!isStopped) {
    try { driver.tick(); Thread.sleep(TickMs) } catch {
      case _: InterruptedException => isStopped = true
      case NonFatal(e) =>
        logWarning("cec: the driver's side of replicas tries again", e)
        Thread.sleep(AgainMs)
    }
  }

  /** YARN knows racks; others do not. */
  private def rackOf(host: String): Option[String] = context.taskScheduler match {
    case scheduler: TaskSchedulerImpl => scheduler.getRackForHost(host)
    case _ => None
  }

  private def isDraining(executor: String): Boolean = {
    val scheduler = context.taskScheduler
    scheduler != null && scheduler.getExecutorDecommissionState(executor).nonEmpty
  }

  private def activeRuns: Set[String] = SparkSession.getDefaultSession.orElse(SparkSession.getActiveSession).toSeq.flatMap {
    case session: ClassicSession => session.sharedState.activeStreamingQueries.values.asScala.map(_.runId.toString)
    case _ => Nil
  }.toSet

  def stop(): Unit = {
    isStopped = true
    ticking.interrupt()
    if (Cluster.running.contains(driver)) Cluster.running = None
    context.listenerBus.removeListener(losses)
  }
}

private object DriverSide {
  private val Provider = "CecStateStoreProvider"
  private val TickMs = 50L
  private val AgainMs = 1000L
}
