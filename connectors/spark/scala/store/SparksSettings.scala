package org.apache.spark.sql.cecstore.store

import java.util.concurrent.ConcurrentHashMap
import scala.util.Try
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.state.StateStoreConf
import org.apache.spark.sql.internal.SQLConf

/** Settings of Spark's own stores that change nothing here: said once in each process. docs/spark.md has them all. */
private[cecstore] object SparksSettings extends Logging {
  private val Prefix = "spark.sql.streaming.stateStore."
  private val NoSnapshots = "there are no snapshots: each commit is all that a restart needs"
  private val Checked = "every frame has a checksum, which each load checks"
  private val Ignored = Map(
    "compression.codec" -> "frames are compressed with zstd; cec.compressionLevel says how much",
    "rowChecksum.enabled" -> Checked,
    "rowChecksum.readVerificationRatio" -> Checked,
    "fileChecksumThreadPoolSize" -> Checked,
    "autoSnapshotRepair.enabled" -> NoSnapshots,
    "autoSnapshotRepair.numFailuresBeforeActivating" -> NoSnapshots,
    "autoSnapshotRepair.maxChangeFileReplay" -> NoSnapshots,
    "forceSnapshotUploadOnLag" -> NoSnapshots)
  private val said = ConcurrentHashMap.newKeySet[String]

  /**
   * Which settings the user has set and change nothing, with the reason. A value that is Spark's default, or that turns
   * off what is not there, asks for nothing.
   */
  def ignored(conf: StateStoreConf): Map[String, String] = conf.sqlConfs.collect {
    case (key, value) if key.startsWith(s"${Prefix}rocksdb.") && isSet(key, value) => key -> "this store is not RocksDB"
    case (key, value) if Ignored.contains(key.stripPrefix(Prefix)) && isSet(key, value) => key -> Ignored(key.stripPrefix(Prefix))
  } ++ Option.when(conf.maxVersionsToRetainInMemory != SQLConf.MAX_BATCHES_TO_RETAIN_IN_MEMORY.defaultValue.get)(
      SQLConf.MAX_BATCHES_TO_RETAIN_IN_MEMORY.key -> "the newest version is in memory, and what takes it one back")

  def sayIgnored(conf: StateStoreConf): Unit = ignored(conf).foreach { case (key, why) =>
    if (said.add(key)) logWarning(s"cec: $key changes nothing: $why")
  }

  private def isSet(key: String, value: String): Boolean =
    !Try(new SQLConf().getConfString(key)).toOption.contains(value) && !value.equalsIgnoreCase("false")
}
