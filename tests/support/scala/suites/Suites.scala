// In the package of Spark's own suites: some of them can be seen from there only.
package org.apache.spark.sql.streaming

import org.apache.spark.SparkConf
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider
import org.apache.spark.sql.internal.SQLConf

/** Spark's suites with our provider wherever they set RocksDB's. */
trait OnOurStore extends StreamTest {
  private val ours = "org.apache.spark.sql.cecstore.CecStateStoreProvider"
  private val rocksDb = classOf[RocksDBStateStoreProvider].getName

  override protected def sparkConf: SparkConf = super.sparkConf
    .set("spark.sql.extensions", "org.apache.spark.sql.cecstore.CecExtensions")
    .set(SQLConf.STATE_STORE_PROVIDER_CLASS.key, ours)

  private val changelogs = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"

  /** A test that asks once more with what is RocksDB's alone is told as cancelled. */
  override protected def withSQLConf[T](pairs: (String, String)*)(work: => T): T = {
    if (pairs.contains(changelogs -> "false")) cancel("the same once more: changelogs are RocksDB's")
    super.withSQLConf(pairs.map { case (name, value) => name -> (if (value == rocksDb) ours else value) }: _*)(work)
  }
}

class CecTransformWithStateSuite extends TransformWithStateUnsafeRowSuite with OnOurStore
class CecTransformWithStateAvroSuite extends TransformWithStateAvroSuite with OnOurStore
class CecTransformWithStateChainingSuite extends TransformWithStateChainingSuite with OnOurStore
class CecTransformWithStateInitialStateSuite extends TransformWithStateInitialStateSuite with OnOurStore
class CecTransformWithStateValidationSuite extends TransformWithStateValidationSuite with OnOurStore
class CecTransformWithListStateSuite extends TransformWithListStateSuite with OnOurStore
class CecTransformWithMapStateSuite extends TransformWithMapStateSuite with OnOurStore
class CecTransformWithValueStateTTLSuite extends TransformWithValueStateTTLSuite with OnOurStore
class CecTransformWithListStateTTLSuite extends TransformWithListStateTTLSuite with OnOurStore
class CecTransformWithMapStateTTLSuite extends TransformWithMapStateTTLSuite with OnOurStore

class CecStreamingAggregationSuite extends StreamingAggregationSuite with OnOurStore
class CecStreamingDeduplicationSuite extends StreamingDeduplicationSuite with OnOurStore
class CecStreamingDeduplicationWithinWatermarkSuite extends StreamingDeduplicationWithinWatermarkSuite with OnOurStore
class CecFlatMapGroupsWithStateSuite extends FlatMapGroupsWithStateSuite with OnOurStore
// By default it runs on the HDFS-backed store, which looks at no row that it has not loaded; RocksDB's does, as ours.
class SparksFlatMapGroupsWithStateWithInitialStateSuite extends FlatMapGroupsWithStateWithInitialStateSuite {
  override protected def sparkConf: SparkConf =
    super.sparkConf.set(SQLConf.STATE_STORE_PROVIDER_CLASS.key, classOf[RocksDBStateStoreProvider].getName)
}
class CecFlatMapGroupsWithStateWithInitialStateSuite extends FlatMapGroupsWithStateWithInitialStateSuite with OnOurStore
class CecStreamingInnerJoinSuite extends StreamingInnerJoinWithoutVCFSuite with OnOurStore
class CecStreamingOuterJoinSuite extends StreamingOuterJoinWithoutVCFSuite with OnOurStore
class CecStreamingFullOuterJoinSuite extends StreamingFullOuterJoinWithoutVCFSuite with OnOurStore
class CecStreamingLeftSemiJoinSuite extends StreamingLeftSemiJoinWithoutVCFSuite with OnOurStore
class CecStreamingInnerJoinWithVCFSuite extends StreamingInnerJoinWithVCFSuite with OnOurStore
class CecStreamingOuterJoinWithVCFSuite extends StreamingOuterJoinWithVCFSuite with OnOurStore
class CecStreamingFullOuterJoinWithVCFSuite extends StreamingFullOuterJoinWithVCFSuite with OnOurStore
class CecStreamingLeftSemiJoinWithVCFSuite extends StreamingLeftSemiJoinWithVCFSuite with OnOurStore
class CecStreamingSessionWindowSuite extends StreamingSessionWindowSuite with OnOurStore
