package org.apache.spark.sql.cecstore.state

/**
 * How long an extent may get: at most one of `maxRecords` and `recoveryTimeMs` is set, else `factor` counts.
 *
 * @param hasDirectories restarts of large states go by key directories: then a recovery time bounds what lies behind
 *   them, and `factor` the extent, which no restart reads
 */
private[cecstore] final case class ExtentTarget(
    factor: Double, maxRecords: Option[Long], recoveryTimeMs: Option[Long], hasDirectories: Boolean = false) {
  import ExtentTarget._

  /** The most that an extent may cost, in records, with so many open windows. A number that was given has no floor. */
  def costMax(openWindows: Long): Long = {
    val inTime = recoveryTimeMs.filterNot(_ => goesByDirectory(openWindows)).map(LoadRate.recordsIn)
    val asked = maxRecords.getOrElse(math.max(FloorRecords,
      inTime.fold((openWindows * factor).toLong)(math.min(_, openWindows * HeldFactor))))
    math.max(asked, (openWindows * FactorMin).toLong)
  }

  /** With so many records behind a key directory another one is due: a sixteenth of the keys, or fewer if a time is given. */
  def behindMax(openWindows: Long): Long = {
    val inTime = recoveryTimeMs.map(ms => math.max(FloorRecords, LoadRate.recordsIn(ms) - openWindows / KeysPerRecord))
    math.min(openWindows / ChangedPart, inTime.getOrElse(Long.MaxValue))
  }

  /** The most bytes that the extent's keys and values may have, dead ones included: all of it is in the heap or in local files. */
  def bytesMax(liveBytes: Long): Long = math.max(FloorBytes, (liveBytes * math.max(factor, HeldFactor.toDouble)).toLong)

  /** Whether a load has taken longer than a user may expect. One of few records waited for the machine, which no target changes. */
  def isSlow(records: Long, ms: Long): Boolean = records > FloorRecords && ms > math.max(SlowMs, recoveryTimeMs.getOrElse(0L))

  /** Says why no restart can meet the target, if none can: its keys alone take longer, at the rate of past loads. */
  def unmet(openWindows: Long): Option[String] = recoveryTimeMs match {
    case Some(ms) =>
      val least = if (goesByDirectory(openWindows)) openWindows / KeysPerRecord else openWindows
      LoadRate.expectedMs(least) match {
        case (expected, how) if expected > ms => Some(s"reading its $openWindows keys alone takes about $expected ms ($how), and recoveryTimeMs is $ms")
        case _ => None
      }
    case None => maxRecords.filter(_ < openWindows).map(most => s"it has $openWindows keys, and extentMaxRecords is $most")
  }

  private def goesByDirectory(openWindows: Long): Boolean =
    hasDirectories && KeyDirectories.areWorth(openWindows)
}

private[cecstore] object ExtentTarget {
  /** Reading one more frame takes as long as about so many records: small commits count too. */
  val FrameCostRecords = 128L
  /** Putting so many hashes of a key directory into an index takes about as long as reading a record. */
  private val KeysPerRecord = 2L
  /** Each directory has a bit for each row, and is a file more. */
  private val ChangedPart = 16
  /** Nearer to the open windows, almost every commit would write all of them again. */
  private val FactorMin = 1.1
  /** Whatever the target, dead rows may not fill the heap and the local files. */
  private val HeldFactor = 4L
  private val FloorBytes = 4L << 20
  /** A load that takes longer is told with a warning. */
  private val SlowMs = 1000L
  /** An extent of so few records is read in no time. */
  private val FloorRecords = 64 * FrameCostRecords
}
