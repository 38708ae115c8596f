package org.apache.spark.sql.cecstore.moving

import scala.reflect.ClassTag
import org.apache.hadoop.conf.Configuration
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata
import org.apache.spark.sql.execution.streaming.state.{RocksDBConf, StateStoreConf}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.SerializableConfiguration

/**
 * A checkpoint whose state is read as a batch has left it.
 *
 * @param conf what the offset log says of this batch
 * @param ids checkpoint format V2's, by operator, partition and store; empty with V1
 */
private[moving] final class Source(
    val session: SparkSession, val checkpoint: String, val batch: Long, val conf: Map[String, String],
    ids: Map[String, Seq[Seq[String]]]) {
  val hadoop: Configuration = session.sessionState.newHadoopConf()
  // Makes the endpoint to which tasks report stores; without it each of them warns that there is none.
  session.streams.active
  val isV2: Boolean = ids.nonEmpty
  /** With RocksDB's changelog a store that is opened for writing begins a file in the checkpoint, and is not needed to read. */
  val side: Side = sideOf(checkpoint, None, Map(s"${RocksDBConf.ROCKSDB_SQL_CONF_NAME_PREFIX}.changelogCheckpointing.enabled" -> "false"))

  def joinFormat: Int = conf.get(SQLConf.STREAMING_JOIN_STATE_FORMAT_VERSION.key).fold(1)(_.toInt)

  lazy val kinds: Seq[StoreKind] = {
    val found = StoreKind.all(checkpoint, batch, conf, hadoop)
    // Which families have several values for a key stands in no file.
    found.find(kind => kind.hasFamilies && !kind.isTransform && !(kind.isJoin && joinFormat <= 3)).foreach(kind => throw new Refused(
      s"operator ${kind.operator} (${kind.operatorName}) keeps column families of which the kinds are not known" +
        (if (kind.isJoin) s": join state of format $joinFormat" else "")))
    found
  }

  /** A checkpoint of which the state is set as here, but for its provider and for these settings. */
  def sideOf(checkpoint: String, provider: Option[String], more: Map[String, String] = Map.empty): Side = {
    val settings = session.sessionState.conf.clone()
    // Set before, so that Spark does not warn of each that the checkpoint has otherwise than this session.
    conf.foreach { case (name, value) => settings.setConfString(name, value) }
    OffsetSeqMetadata.setSessionConf(OffsetSeqMetadata(0, 0, conf), settings)
    more.foreach { case (name, value) => settings.setConfString(name, value) }
    provider.foreach(settings.setConf(SQLConf.STATE_STORE_PROVIDER_CLASS, _))
    settings.setConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION, if (isV2) 2 else 1)
    // It asks the driver about a query that runs.
    settings.setConf(SQLConf.STATE_STORE_COMMIT_VALIDATION_ENABLED, false)
    Side(checkpoint, batch + 1, StateStoreConf(settings))
  }

  def idOf(kind: StoreKind, partition: Int): Option[String] = if (!isV2) None else {
    val stores = kinds.filter(_.operator == kind.operator).map(_.store)
    Some(ids(kind.operator.toString)(partition)(stores.indexOf(kind.store)))
  }

  /** Rows of a store in a form that can be sent, from a task for each of these partitions. */
  def rows[A: ClassTag](kind: StoreKind, partitions: Seq[Int])(sent: (StoreKind, Int, Iterator[MovedRow]) => Iterator[A]): RDD[A] = {
    val (side, settings) = (this.side, new SerializableConfiguration(hadoop))
    val tasks = partitions.map(partition => partition -> idOf(kind, partition))
    session.sparkContext.parallelize(tasks, tasks.size).flatMap { case (partition, id) =>
      sent(kind, partition, OpenedStore.rows(side, kind, partition, id, settings.value))
    }
  }

  def rows[A: ClassTag](kind: StoreKind)(sent: (StoreKind, Int, Iterator[MovedRow]) => Iterator[A]): RDD[A] =
    rows(kind, 0 until kind.partitions)(sent)
}
