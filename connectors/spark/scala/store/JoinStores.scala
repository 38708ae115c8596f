package org.apache.spark.sql.cecstore.store

import java.util.concurrent.ConcurrentHashMap
import org.apache.spark.TaskContext
import org.apache.spark.sql.cecstore.log.JoinNames

/**
 * Stores with rows of joins that tasks may still change. To find old rows Spark scans the store that counts them, which
 * asks here for the one with the rows.
 */
private[cecstore] object JoinStores {
  private val open = new ConcurrentHashMap[(Long, Any), CecStateStore]

  def opened(task: TaskContext, store: CecStateStore): Unit = if (JoinNames.holdsRows(store.id.storeName)) {
    val key = (task.taskAttemptId(), store.id)
    if (open.put(key, store) == null) task.addTaskCompletionListener[Unit](_ => open.remove(key))
  }

  /** The rows that a store counts, as the same task has them open at the same version. */
  def rowsOf(counts: CecStateStore): Option[CecStateStore] = for {
    task <- Option(TaskContext.get()) if JoinNames.countsRows(counts.id.storeName)
    id = counts.id.copy(storeName = JoinNames.rowsBeside(counts.id.storeName))
    rows <- Option(open.get((task.taskAttemptId(), id))) if rows.version == counts.version
  } yield rows
}
