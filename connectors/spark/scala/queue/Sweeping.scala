package org.apache.spark.sql.cecstore.queue

import scala.annotation.tailrec

/** Objects that no commit names any more are deleted after a grace period. docs/format.md §12. */
private[cecstore] object Sweeping {
  /** How long an object stays that no commit names, or names no more: for readers that began before, and tasks at work. */
  val GraceUs = 86400000000L

  /**
   * Delete what merges and trims behind commit `after` took away before this moment. Returns the last commit whose
   * objects are all deleted. A state that was opened by a whole summary does not know what was taken away before.
   */
  def gone(store: Store, log: ReferenceLog, state: QueueState, olderThanUs: Long, after: Long): Long = {
    val byCommit = state.gone.filter(_.removedAt > after).groupBy(_.removedAt)
    // A file of version 1 may hold records that count beside some that do not.
    val needed = state.live.map(_.segment.file).toSet
    @tailrec def sweep(numbers: List[Long], swept: Long): Long = numbers match {
      case number :: rest if log.createdUs(number) <= olderThanUs =>
        store.delete(byCommit(number).map(_.segment.file).distinct.filterNot(needed))
        sweep(rest, number)
      case _ => swept
    }
    sweep(byCommit.keys.toList.sorted, after)
  }
}
