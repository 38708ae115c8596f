package org.apache.spark.sql.cecstore.replicas

import java.util.concurrent.TimeUnit

/**
 * The cores of this executor that no task uses. Whoever works beside the tasks waits for one, so as not to make a
 * batch longer for what can be done between two.
 */
private[cecstore] final class SpareCores(cores: Int) {
  private var running = 0

  def taskBegan(): Unit = synchronized(running += 1)

  def taskEnded(): Unit = synchronized {
    running -= 1
    notifyAll()
  }

  /** Until a core is spare, or until this moment (of System.nanoTime) at the latest: tasks may leave none for hours. */
  def await(untilNs: Long): Unit = synchronized {
    var leftNs = untilNs - System.nanoTime()
    while (running >= cores && leftNs > 0) {
      TimeUnit.NANOSECONDS.timedWait(this, leftNs)
      leftNs = untilNs - System.nanoTime()
    }
  }
}
