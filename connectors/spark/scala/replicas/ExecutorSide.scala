package org.apache.spark.sql.cecstore.replicas

import java.util.concurrent.{Semaphore, TimeUnit}
import scala.util.control.NonFatal
import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.api.plugin.PluginContext
import org.apache.spark.deploy.SparkHadoopUtil
import org.apache.spark.internal.Logging
import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.cecstore.log.SegmentFolder

/**
 * Connects the [[ReplicaHost]] of this process with the driver, which cannot call executors: they ask it, again and
 * again, and its answer says what to keep. One thread asks, another one reads logs, so that a load holds nothing up.
 */
private[cecstore] final class ExecutorSide(plugin: PluginContext) extends Logging {
  import ExecutorSide._

  private val host = new ReplicaHost(memoryBytesMax(plugin.conf.getOption(MemoryKey)), (key, conf) =>
    SegmentFolder.ofFollower(key.folder, conf.getOrElse(SparkHadoopUtil.get.newConfiguration(plugin.conf))))
  private val spare = new SpareCores(plugin.conf.getInt("spark.executor.cores", Runtime.getRuntime.availableProcessors) /
    plugin.conf.getInt("spark.task.cpus", 1))
  private val news = new Semaphore(0)
  private var seen = 0L
  @volatile private var isStopped = false
  private val asking = thread("cec-replicas-ask", PollMs) { ask() }
  private val following = thread("cec-replicas-follow", 0) {
    news.tryAcquire(QuietMs, TimeUnit.MILLISECONDS)
    news.drainPermits()
    val untilNs = System.nanoTime() + PatienceMs * 1000000
    host.follow(() => spare.await(untilNs))
  }

  def start(): Unit = {
    ReplicaHost.ofProcess = Some(host)
    asking.start()
    following.start()
  }

  def stop(): Unit = {
    isStopped = true
    if (ReplicaHost.ofProcess.contains(host)) ReplicaHost.ofProcess = None
    asking.interrupt()
    following.interrupt()
  }

  /** Spark tells plugins of each task that begins, but not of each that ends: its context does. */
  def taskBegan(task: TaskContext): Unit = {
    spare.taskBegan()
    task.addTaskCompletionListener[Unit](_ => spare.taskEnded())
  }

  private def ask(): Unit = ExecutorSide.hostOf(SparkEnv.get).foreach { there =>
    val answer = Instructions.decode(plugin.ask(host.report(plugin.executorID, there, seen).encoded).asInstanceOf[Array[AnyRef]])
    answer.content.foreach(host.instructed)
    if (answer.content.nonEmpty) news.release()
    seen = answer.generation
  }

  private def thread(name: String, pauseMs: Long)(work: => Unit): Thread = {
    val made = new Thread(() => while (!isStopped) {
      try { work; Thread.sleep(pauseMs) } catch {
        case _: InterruptedException => isStopped = true
        case NonFatal(e) if isStopped => ()
        case NonFatal(e) =>
          logWarning(s"cec: $name tries again: $e")
          seen = 0
          try Thread.sleep(AgainMs) catch { case _: InterruptedException => isStopped = true }
      }
    }, name)
    made.setDaemon(true)
    made
  }
}

private[cecstore] object ExecutorSide {
  val MemoryKey = "spark.sql.streaming.stateStore.cec.replicaMemoryBytes"
  private val PollMs = 100L
  /** So long the replicas wait for tasks in all: a batch may leave no core spare for much longer. */
  private val PatienceMs = 1000L
  /** Replicas that had no room, or failed, are looked at as often as this. */
  private val QuietMs = 1000L
  private val AgainMs = 1000L
  /** Of the heap, where nothing is said. */
  private val HeapShare = 4

  /**
   * The host by which Spark's own stores report themselves; an executor's RPC has no address of its own. None where it is
   * not known yet: where the driver runs the tasks itself, plugins begin before its block manager has a name.
   */
  private def hostOf(env: SparkEnv): Option[String] =
    for (known <- Option(env); manager <- Option(known.blockManager); id <- Option(manager.blockManagerId)) yield id.host

  def memoryBytesMax(text: Option[String]): Long =
    text.map(JavaUtils.byteStringAsBytes).getOrElse(Runtime.getRuntime.maxMemory / HeapShare)
}

/**
 * Whether this executor has a core that no task uses. Whoever works beside the tasks waits for one, so as not to make a
 * batch longer for what can be done between two.
 *
 * @param tasksMax as many as it runs at once
 */
private[cecstore] final class SpareCores(tasksMax: Int) {
  private var running = 0

  def taskBegan(): Unit = synchronized(running += 1)

  def taskEnded(): Unit = synchronized {
    running -= 1
    notifyAll()
  }

  /** Until a core is spare, or until this moment (of System.nanoTime) at the latest: tasks may leave none for hours. */
  def await(untilNs: Long): Unit = synchronized {
    var leftNs = untilNs - System.nanoTime()
    while (running >= tasksMax && leftNs > 0) {
      TimeUnit.NANOSECONDS.timedWait(this, leftNs)
      leftNs = untilNs - System.nanoTime()
    }
  }
}
