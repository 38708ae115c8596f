package org.apache.spark.sql.cecstore.testing

import java.nio.file.Paths
import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.avro.SchemaConverters
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf

/** Makes providers as a task on an executor does, for one checkpoint folder and one configuration. */
final class Stores(
    val root: String,
    providerClass: String,
    settings: Map[String, String] = Map.empty,
    val v2: Boolean = false) {

  val hadoop: Configuration = {
    val conf = new Configuration()
    conf.set("sql.streaming.runId", UUID.randomUUID().toString)
    conf.set("streaming.sql.batchId", "0")
    NarrowFiles.register(conf)
    conf
  }

  val conf: StateStoreConf = {
    val sql = new SQLConf()
    sql.setConfString("spark.sql.streaming.stateStore.providerClass", providerClass)
    // There is no driver here that could count the commits.
    sql.setConfString("spark.sql.streaming.stateStore.commitValidation.enabled", "false")
    sql.setConfString("spark.sql.streaming.stateStore.checkpointFormatVersion", if (v2) "2" else "1")
    sql.setConfString(
      "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    settings.foreach { case (name, value) => sql.setConfString(name, value) }
    new StateStoreConf(sql)
  }

  /** `family` is what the default column family holds. */
  def provider(family: Family, families: Boolean = false, partition: Int = 0,
      store: String = StateStoreId.DEFAULT_STORE_NAME): StateStoreProvider =
    StateStoreProvider.createAndInit(
      StateStoreProviderId(StateStoreId(root, 0, partition, store), UUID.randomUUID()),
      family.keySchema, Values.schema, family.spec, families, conf, hadoop, family.multi, schemas)

  /** Which Spark gives to stores of `transformWithState` in either encoding: here to those whose rows are in Avro. */
  private def schemas: Option[StateSchemaProvider] = Option.when(conf.stateStoreEncodingFormat == "avro")(OnlyValues)
}

/** All families have values of one schema, which is the only one that they were ever written with. */
private object OnlyValues extends StateSchemaProvider {
  override def getCurrentStateSchemaId(family: String, isKey: Boolean): Short = 0

  override def getSchemaMetadataValue(key: StateSchemaMetadataKey): StateSchemaMetadataValue = {
    Check.equal(s"schema of a value of ${key.colFamilyName}", key, StateSchemaMetadataKey(key.colFamilyName, 0, isKey = false))
    StateSchemaMetadataValue(Values.schema, SchemaConverters.toAvroTypeWithDefaults(Values.schema))
  }
}

/** A state that was committed: `id` with checkpoint format V2 only. */
final case class Version(number: Long, id: Option[String])

object Stores {
  /** Each seed has a folder of its own; `schemes` are the file systems that they take by turns. */
  def root(words: Arguments, seed: Long): String = {
    val schemes = words.text("schemes", "").split(',')
    val scheme = schemes((seed / 4 % schemes.length).toInt)
    val folder = Paths.get(words.text("root"), s"seed-$seed").toString
    if (scheme.isEmpty) folder else s"$scheme:$folder"
  }

  val Start: Version = Version(0, None)

  def open(provider: StateStoreProvider, version: Version): StateStore =
    provider.getStore(version.number, version.id, forceSnapshotOnCommit = false, loadEmpty = false)

  /** Commits and says what it has made. */
  def commit(store: StateStore, v2: Boolean): Version = {
    val number = store.commit()
    Version(number, if (v2) store.getStateStoreCheckpointInfo().stateStoreCkptId else None)
  }
}
