package org.apache.spark.sql.cecstore.store

import java.util.concurrent.{ConcurrentHashMap, ExecutionException, Executors, FutureTask}
import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer
import org.apache.spark.TaskContext
import org.apache.spark.sql.cecstore.log.JoinNames
import org.apache.spark.sql.execution.streaming.state.StateStoreId

/**
 * Stores with rows of joins that tasks may still change. To find old rows Spark scans the store that counts them, which
 * asks here for the one with the rows.
 */
private[cecstore] object JoinStores {
  /** By task attempt and store; only the task's own thread opens one. */
  private val open = new ConcurrentHashMap[(Long, StateStoreId), List[CecStateStore]]

  def opened(task: TaskContext, store: CecStateStore): Unit = if (JoinNames.holdsRows(store.id.storeName)) {
    val key = (task.taskAttemptId(), store.id)
    val before = Option(open.get(key)).getOrElse(Nil)
    open.put(key, store :: before)
    if (before.isEmpty) task.addTaskCompletionListener[Unit](_ => open.remove(key))
  }

  /**
   * The rows that a store counts, as the same task has them open at the same version. None where the task has evaluated the join
   * twice, as where a batch is joined with itself: which rows belong to which counts is not known then.
   */
  def rowsOf(counts: CecStateStore): Option[CecStateStore] = for {
    task <- Option(TaskContext.get()) if JoinNames.countsRows(counts.id.storeName)
    id = counts.id.copy(storeName = JoinNames.rowsBeside(counts.id.storeName))
    rows <- Option(open.get((task.taskAttemptId(), id))).collect { case List(only) => only } if rows.version == counts.version
  } yield rows
}

/**
 * The commits of a join's stores, of which a task makes one after the other: each is written while the task goes on to
 * the next, and the last one returns when all are in the log. So a task waits for one sync, or one request to an object
 * store, where it would wait for four. Only the task's thread calls it.
 */
private[cecstore] final class JointCommits(task: TaskContext) {
  import JointCommits.Underway

  private val open = mutable.Set.empty[StateStoreId]
  private val underway = ArrayBuffer.empty[Underway]

  private def opened(id: StateStoreId): Unit = synchronized(open += id)

  /** The store is given up; the others go on. */
  def leave(id: StateStoreId): Unit = synchronized(open -= id)

  /**
   * Write what a store has committed. The last of the stores waits for all of them, and raises what the first that failed has raised.
   *
   * @param write what is left to do for it to be in the log, if anything is
   * @param done called by the task once it is there
   */
  def add(id: StateStoreId, write: Option[() => Unit], done: () => Unit): Unit = synchronized {
    open -= id
    val writing = write.map(left => new FutureTask[Unit](() => left()))
    val one = new Underway(writing, done)
    underway += one
    // Whatever becomes of the other stores: nobody takes this one's state over before its write has ended.
    task.addTaskCompletionListener[Unit](_ => one.await())
    if (open.isEmpty) { writing.foreach(_.run()); awaitAll() } else writing.foreach(JointCommits.threads.execute(_))
  }

  private def awaitAll(): Unit = {
    val failures = underway.reverseIterator.flatMap(one => try { one.await(); None } catch { case e: Throwable => Some(e) }).toSeq
    underway.clear()
    failures.lastOption.foreach { first =>
      failures.init.foreach(first.addSuppressed)
      throw first
    }
  }
}

private[cecstore] object JointCommits {
  /** Whether stores write side by side; a benchmark measures it without. */
  @volatile private[cecstore] var isOn: Boolean = true

  private val ofTasks = new ConcurrentHashMap[(Long, Long), JointCommits]
  /** They wait for a disk or a network, so they are as many as there are writes. */
  private lazy val threads = Executors.newCachedThreadPool { work =>
    val thread = new Thread(work, "cec-commit")
    thread.setDaemon(true)
    thread
  }

  /** A task has opened a store to write to; it has all of a join's open before it commits the first. */
  def opened(task: TaskContext, store: CecStateStore): Unit = if (isOn && isOfJoin(store.id)) {
    val key = keyOf(task, store.id)
    val commits = ofTasks.computeIfAbsent(key, _ => {
      task.addTaskCompletionListener[Unit](_ => ofTasks.remove(key))
      new JointCommits(task)
    })
    commits.opened(store.id)
  }

  def of(store: CecStateStore): Option[JointCommits] =
    for (task <- Option(TaskContext.get()) if isOfJoin(store.id); commits <- Option(ofTasks.get(keyOf(task, store.id)))) yield commits

  private def isOfJoin(id: StateStoreId): Boolean = JoinNames.countsRows(id.storeName) || JoinNames.holdsRows(id.storeName)
  private def keyOf(task: TaskContext, id: StateStoreId): (Long, Long) = (task.taskAttemptId(), id.operatorId)

  /** A version of a store, with its write where that is not over yet. */
  private final class Underway(writing: Option[FutureTask[Unit]], done: () => Unit) {
    private var isOver = false

    /** Return once it is in the log. Raises what the write has raised, to the first that awaits it. */
    def await(): Unit = if (!isOver) {
      isOver = true
      writing.foreach(awaited)
      done()
    }

    /** An interrupt does not end a write that is under way, and the state is nobody's until it has ended. */
    private def awaited(writing: FutureTask[Unit]): Unit = {
      var isInterrupted = false
      try {
        var isDone = false
        while (!isDone) try { writing.get(); isDone = true } catch {
          case _: InterruptedException => isInterrupted = true
          case e: ExecutionException => throw e.getCause
        }
      } finally if (isInterrupted) Thread.currentThread.interrupt()
    }
  }
}
