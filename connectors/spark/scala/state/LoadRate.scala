package org.apache.spark.sql.cecstore.state

import java.util.concurrent.atomic.AtomicInteger

/**
 * How many records a load reads in a millisecond in this process: a careful guess until a load has been timed,
 * then close to the slowest one, since a restart is as slow as a cold process. One for all threads of the
 * process; its lock guards writing, and readers take the newest value.
 */
private[cecstore] object LoadRate {
  private val FixedMs = 60L
  private val TooFewToTell = 50000L
  /** Leaves room for a slower restart. */
  private val Margin = 0.7
  @volatile private var recordsPerMs = 400.0
  private var isMeasured = false
  /** Stores open in this process: those of one core are loaded one after the other. */
  val stores = new AtomicInteger

  def measured(records: Long, ms: Long): Unit = if (records >= TooFewToTell) synchronized {
    val rate = records.toDouble / math.max(1L, ms - FixedMs / 2)
    recordsPerMs = if (!isMeasured || rate < recordsPerMs) rate else 0.9 * recordsPerMs + 0.1 * rate
    isMeasured = true
  }

  def recordsIn(ms: Long): Long = (math.max(ms / inTurn - FixedMs, ms * 0.1) * recordsPerMs * Margin).toLong

  /** What loading so many records takes, for each of the stores that one core loads in turn, and how that is known. */
  def expectedMs(records: Long): (Long, String) = synchronized {
    val known = if (isMeasured) f"$recordsPerMs%.0f records a ms were measured" else "no load has been timed yet"
    (((records / recordsPerMs + FixedMs) * inTurn).toLong, f"$known; $inTurn%.1f stores a core")
  }

  private def inTurn: Double = math.max(1.0, stores.get.toDouble / Runtime.getRuntime.availableProcessors)
}
