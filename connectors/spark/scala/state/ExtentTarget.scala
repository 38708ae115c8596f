package org.apache.spark.sql.cecstore.state

/** How long an extent may get: at most one of `maxRecords` and `recoveryTimeMs` is set, else `factor` counts. */
private[cecstore] final case class ExtentTarget(factor: Double, maxRecords: Option[Long], recoveryTimeMs: Option[Long]) {
  import ExtentTarget._

  /** The most that an extent may cost, in records, with so many open windows. A number that was given has no floor. */
  def costMax(openWindows: Long): Long = {
    val asked = maxRecords.getOrElse(math.max(FloorRecords,
      recoveryTimeMs.map(ms => math.min(LoadRate.recordsIn(ms), openWindows * HeldFactor)).getOrElse((openWindows * factor).toLong)))
    math.max(asked, (openWindows * FactorMin).toLong)
  }

  /** The most bytes that the extent's keys and values may have, dead ones included: all of it is in the heap or in local files. */
  def bytesMax(liveBytes: Long): Long = math.max(FloorBytes, (liveBytes * math.max(factor, HeldFactor.toDouble)).toLong)

  /** Says why no restart can meet the target, if none can: its keys alone take longer, at the rate of past loads. */
  def unmet(openWindows: Long): Option[String] = recoveryTimeMs match {
    case Some(ms) => LoadRate.expectedMs(openWindows) match {
      case (expected, how) if expected > ms => Some(s"reading its $openWindows keys alone takes about $expected ms ($how), and recoveryTimeMs is $ms")
      case _ => None
    }
    case None => maxRecords.filter(_ < openWindows).map(most => s"it has $openWindows keys, and extentMaxRecords is $most")
  }
}

private[cecstore] object ExtentTarget {
  /** Reading one more frame takes as long as about so many records: small commits count too. */
  val FrameCostRecords = 128L
  /** Nearer to the open windows, almost every commit would write all of them again. */
  private val FactorMin = 1.1
  /** Whatever the target, dead rows may not fill the heap and the local files. */
  private val HeldFactor = 4L
  private val FloorBytes = 4L << 20
  /** An extent of so few records is read in no time. */
  private val FloorRecords = 64 * FrameCostRecords
}
