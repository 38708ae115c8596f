package org.apache.spark.sql.cecstore.store

import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.cecstore.format.RefusedOption
import org.apache.spark.sql.cecstore.replicas.{Cluster, ReplicaLimits}
import org.apache.spark.sql.cecstore.state.{ExtentTarget, RowMemory}

/** What users set under `spark.sql.streaming.stateStore.cec.`; names and limits are refused here. */
private[cecstore] final case class Settings(
    target: ExtentTarget, checkTimeMs: Long, isSynced: Boolean, compressionLevel: Int, segmentBytes: Long, replicas: Int, memory: RowMemory,
    keyDirectories: Boolean, checkDirectories: Boolean) {
  /** On the driver, before anything runs: replicas without the plugin would never come to be. */
  def checkPlugin(): Unit = {
    val isDriver = SparkEnv.get != null && SparkEnv.get.executorId == SparkContext.DRIVER_IDENTIFIER
    if (replicas > 0 && isDriver && !Cluster.isRunning) throw new RefusedOption(s"${Settings.Prefix}replicas",
      s"${Settings.Prefix}replicas = $replicas: the application has to begin with spark.plugins=${Settings.Plugin}; " +
        "spark.configure(builder, replicas=…) sets both")
  }
}

private[cecstore] object Settings {
  val Prefix = "spark.sql.streaming.stateStore.cec."
  private val Names = Seq("extentFactor", "extentMaxRecords", "recoveryTimeMs", "checkTimeMs", "syncMode",
    "compressionLevel", "segmentBytes", "memoryBytes", "keyDirectories", "checkDirectories", "replicas", "replicaMemoryBytes", "replicaWarmLagVersions", "replicaWarmUps")
  private val Plugin = "org.apache.spark.sql.cecstore.CecPlugin"
  private val ReplicasMax = 100

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
    def flag(name: String): Option[Boolean] =
      ours.get(name).map(value => value.trim.toBooleanOption.getOrElse(refuse(name, value, "true or false is needed")))
    val sync = ours.getOrElse("syncMode", "commit") match {
      case "commit" => true
      case "none" => false
      case other => refuse("syncMode", other, "'commit' or 'none' is needed")
    }
    def bytes(name: String): Option[Long] = ours.get(name).map(value =>
      try JavaUtils.byteStringAsBytes(value.trim)
      catch { case _: NumberFormatException => refuse(name, value, "a size such as 64m is needed") })
    val segmentBytes = bytes("segmentBytes").getOrElse(64L << 20)
    if (segmentBytes < (64 << 10) || segmentBytes > (1L << 30)) refuse("segmentBytes", s"$segmentBytes", "64k to 1g is possible")
    // The plugin has read these when the application began.
    bytes("replicaMemoryBytes")
    ReplicaLimits.parse(conf.get)
    Settings(ExtentTarget(factor.getOrElse(2.0), records, time), long("checkTimeMs", 0, 3600 * 1000).getOrElse(100L), sync,
      long("compressionLevel", 0, 19).getOrElse(1L).toInt, segmentBytes,
      long("replicas", 0, ReplicasMax).getOrElse(0L).toInt, RowMemory(bytes("memoryBytes").getOrElse(RowMemory.DefaultBytes)),
      flag("keyDirectories").getOrElse(true), flag("checkDirectories").getOrElse(false))
  }

  private def refuse(name: String, value: String, need: String): Nothing =
    throw new RefusedOption(s"$Prefix$name", s"$Prefix$name = $value: $need")
}
