package org.apache.spark.sql.cecstore

import java.util.concurrent.atomic.AtomicInteger

/** What users set under `spark.sql.streaming.stateStore.cec.`; names and limits are refused here. */
private[cecstore] final case class Settings(
    extentFactor: Double, extentMaxRecords: Option[Long], recoveryTimeMs: Option[Long], checkTimeMs: Long,
    isSynced: Boolean, compressionLevel: Int, segmentBytes: Long) {

  /** The most that an extent may cost, in records, with so many open windows. A number that was given has no floor. */
  def extentCostMax(openWindows: Long): Long = {
    val asked = extentMaxRecords.getOrElse(math.max(Settings.FloorRecords,
      recoveryTimeMs.map(LoadRate.recordsIn).getOrElse((openWindows * extentFactor).toLong)))
    math.max(asked, (openWindows * Settings.FactorMin).toLong)
  }

  /** Whether fewer records are asked for than the open windows need. */
  def cannotBeMet(openWindows: Long): Boolean =
    recoveryTimeMs.map(LoadRate.recordsIn).orElse(extentMaxRecords)
      .exists(asked => asked < openWindows * Settings.FactorMin && asked < openWindows)
}

private[cecstore] object Settings {
  val Prefix = "spark.sql.streaming.stateStore.cec."
  private val Names = Seq("extentFactor", "extentMaxRecords", "recoveryTimeMs", "checkTimeMs", "syncMode",
    "compressionLevel", "segmentBytes")
  /** Nearer to the open windows, almost every commit would write all of them again. */
  private val FactorMin = 1.1
  /** An extent of so few records is read in no time. */
  private val FloorRecords = 64 * LiveState.FrameCostRecords

  def parse(conf: Map[String, String]): Settings = {
    val ours = conf.collect { case (key, value) if key.startsWith(Prefix) => key.stripPrefix(Prefix) -> value }
    ours.keys.find(!Names.contains(_)).foreach(name => refuse(name, ours(name), s"there is no such setting; there are ${Names.mkString(", ")}"))
    def long(name: String, low: Long, high: Long): Option[Long] = ours.get(name).map(value =>
      value.trim.toLongOption.filter(n => n >= low && n <= high).getOrElse(refuse(name, value, s"a whole number from $low to $high is needed")))
    val factor = ours.get("extentFactor").map(value => value.trim.toDoubleOption.filter(f => f >= 1.25 && f <= 1000)
      .getOrElse(refuse("extentFactor", value, "a number from 1.25 to 1000 is needed")))
    val records = long("extentMaxRecords", 1, Long.MaxValue / 4)
    val time = long("recoveryTimeMs", 100, 24 * 3600 * 1000)
    if (Seq(factor, records, time).count(_.nonEmpty) > 1) {
      refuse("extentFactor", "…", "set one of extentFactor, extentMaxRecords and recoveryTimeMs")
    }
    val sync = ours.getOrElse("syncMode", "commit") match {
      case "commit" => true
      case "none" => false
      case other => refuse("syncMode", other, "'commit' or 'none' is needed")
    }
    val segmentBytes = ours.get("segmentBytes").map(value =>
      try org.apache.spark.network.util.JavaUtils.byteStringAsBytes(value.trim)
      catch { case _: NumberFormatException => refuse("segmentBytes", value, "a size such as 64m is needed") }).getOrElse(64L << 20)
    if (segmentBytes < (64 << 10) || segmentBytes > (1L << 30)) refuse("segmentBytes", s"$segmentBytes", "64k to 1g is possible")
    Settings(factor.getOrElse(2.0), records, time, long("checkTimeMs", 0, 3600 * 1000).getOrElse(100L), sync,
      long("compressionLevel", 0, 19).getOrElse(1L).toInt, segmentBytes)
  }

  private def refuse(name: String, value: String, need: String): Nothing =
    throw new IllegalArgumentException(s"$Prefix$name = $value: $need")
}

/**
 * How many records a load reads in a millisecond in this process: a careful guess until a load has been timed,
 * then close to the slowest one, since a restart is as slow as a cold process.
 */
private[cecstore] object LoadRate {
  private val FixedMs = 60L
  private val TooFewToTell = 50000L
  /** Leaves room for a slower restart. */
  private val Margin = 0.7
  @volatile private var recordsPerMs = 400.0
  @volatile private var isMeasured = false
  /** Stores open in this process: those of one core are loaded one after the other. */
  val stores = new AtomicInteger

  def measured(records: Long, ms: Long): Unit = if (records >= TooFewToTell) synchronized {
    val rate = records.toDouble / math.max(1L, ms - FixedMs / 2)
    recordsPerMs = if (!isMeasured || rate < recordsPerMs) rate else 0.9 * recordsPerMs + 0.1 * rate
    isMeasured = true
  }

  def recordsIn(ms: Long): Long = {
    val inTurn = math.max(1.0, stores.get.toDouble / Runtime.getRuntime.availableProcessors)
    (math.max(ms / inTurn - FixedMs, ms * 0.1) * recordsPerMs * Margin).toLong
  }
}
