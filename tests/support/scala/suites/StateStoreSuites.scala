// In the package of Spark's own suite, of whose helpers some can be seen from there only.
package org.apache.spark.sql.execution.streaming.state

import scala.util.{Random, Try}

import org.apache.hadoop.conf.Configuration
import org.apache.spark.SparkFunSuite
import org.apache.spark.sql.cecstore.CecStateStoreProvider
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.scalactic.source.Position
import org.scalatest.Tag

/** A test that calls what this Spark has no more has failed; it does not end the run. */
trait LinksLate extends SparkFunSuite {
  override protected def test(name: String, tags: Tag*)(body: => Any)(implicit pos: Position): Unit =
    super.test(name, tags: _*)(try body catch { case error: LinkageError => fail(error) })
}

class SparksStateStoreSuite extends StateStoreSuite with LinksLate

/** What Spark asks of every state store, of ours. */
class CecStateStoreSuite extends StateStoreSuiteBase[CecStateStoreProvider] with LinksLate {
  import StateStoreTestsHelper._

  // More versions than any of these tests makes.
  private val versionMax = 150

  private def provider(
      id: StateStoreId = StateStoreId(newDir(), Random.nextInt(), 0), useFamilies: Boolean = false, keys: StructType = keySchema,
      spec: Option[KeyStateEncoderSpec] = None, sql: SQLConf = SQLConf.get, hadoop: Configuration = new Configuration)
      : CecStateStoreProvider = {
    val made = newStoreProviderNoInit()
    made.init(id, keys, valueSchema, spec.getOrElse(NoPrefixKeyStateEncoderSpec(keys)), useFamilies, new StateStoreConf(sql), hadoop)
    made
  }

  override def newStoreProviderNoInit(): CecStateStoreProvider = new CecStateStoreProvider
  override def newStoreProvider(): CecStateStoreProvider = provider()
  override def newStoreProvider(useColumnFamilies: Boolean): CecStateStoreProvider = provider(useFamilies = useColumnFamilies)
  override def newStoreProvider(id: StateStoreId): CecStateStoreProvider = provider(id)
  override def newStoreProvider(id: StateStoreId, useColumnFamilies: Boolean): CecStateStoreProvider = provider(id, useColumnFamilies)
  override def newStoreProvider(id: StateStoreId, conf: Configuration): CecStateStoreProvider = provider(id, hadoop = conf)
  override def newStoreProvider(minDeltasForSnapshot: Int, numOfVersToRetainInMemory: Int): CecStateStoreProvider =
    provider(sql = getDefaultSQLConf(minDeltasForSnapshot, numOfVersToRetainInMemory))
  override def newStoreProvider(keys: StructType, spec: KeyStateEncoderSpec, useColumnFamilies: Boolean): CecStateStoreProvider =
    provider(useFamilies = useColumnFamilies, keys = keys, spec = Some(spec))
  override def newStoreProviderWithClonedConf(id: StateStoreId): CecStateStoreProvider = provider(id, sql = cloneSQLConf())

  override def getDefaultSQLConf(minDeltasForSnapshot: Int, numOfVersToRetainInMemory: Int): SQLConf = {
    val sql = new SQLConf()
    sql.setConf(SQLConf.STATE_STORE_MIN_DELTAS_FOR_SNAPSHOT, minDeltasForSnapshot)
    sql.setConf(SQLConf.MAX_BATCHES_TO_RETAIN_IN_MEMORY, numOfVersToRetainInMemory)
    sql.setConf(SQLConf.MIN_BATCHES_TO_RETAIN, 2)
    sql
  }

  override def getLatestData(of: CecStateStoreProvider, useColumnFamilies: Boolean = false): Set[((String, Int), Int)] =
    (versionMax to 0 by -1).iterator.flatMap(version => Try(getData(of, version, useColumnFamilies)).toOption).next()

  override def getData(of: CecStateStoreProvider, version: Int, useColumnFamilies: Boolean = false): Set[((String, Int), Int)] =
    if (version < 0) getLatestData(of, useColumnFamilies)
    else tryWithProviderResource(newStoreProvider(of.stateStoreId, useColumnFamilies)) { again =>
      val store = again.getReadStore(version)
      try store.iterator().map(rowPairToDataPair).toSet finally store.release()
    }
}
