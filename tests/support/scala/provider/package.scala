package org.apache.spark.sql.cecstore

import scala.language.implicitConversions

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.cecstore.sparks.{NewestProvider, NewestStore}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/**
 * What the newest Spark calls on stores and providers, for programs that are compiled against one without it: there
 * only ours has it. Scala takes these where the class itself has no such method.
 */
package object testing {
  implicit final class OnRead(private val given: ReadStateStore) {
    private def store: NewestStore = given match {
      case newest: NewestStore => newest
      case wrapped =>
        val field = wrapped.getClass.getDeclaredFields.find(each => classOf[ReadStateStore].isAssignableFrom(each.getType)).get
        field.setAccessible(true)
        field.get(wrapped).asInstanceOf[NewestStore]
    }

    def registerColFamily(name: String, keys: StructType, values: StructType, spec: KeyStateEncoderSpec, isMultiple: Boolean, isInternal: Boolean): Unit =
      store.registerColFamily(name, keys, values, spec, isMultiple, isInternal)
    def multiGet(keys: Array[UnsafeRow], name: String): Iterator[UnsafeRow] = store.multiGet(keys, name)
    def keyExists(key: UnsafeRow, name: String): Boolean = store.keyExists(key, name)
    def iteratorWithMultiValues(name: String): StateStoreIterator[UnsafeRowPair] = store.iteratorWithMultiValues(name)
    def prefixScanWithMultiValues(prefix: UnsafeRow, name: String): StateStoreIterator[UnsafeRowPair] = store.prefixScanWithMultiValues(prefix, name)
    def rangeScan(from: Option[UnsafeRow], until: Option[UnsafeRow], name: String): StateStoreIterator[UnsafeRowPair] =
      store.rangeScan(from, until, name)
    def rangeScanWithMultiValues(from: Option[UnsafeRow], until: Option[UnsafeRow], name: String): StateStoreIterator[UnsafeRowPair] =
      store.rangeScanWithMultiValues(from, until, name)
    def allColumnFamilyNames: Set[String] = store.allColumnFamilyNames
    def release(): Unit = store.release()
    def deleteRange(from: UnsafeRow, until: UnsafeRow, name: String): Unit = store.deleteRange(from, until, name)
    def putList(key: UnsafeRow, values: Array[UnsafeRow], name: String): Unit = store.putList(key, values, name)
    def mergeList(key: UnsafeRow, values: Array[UnsafeRow], name: String): Unit = store.mergeList(key, values, name)
  }

  implicit final class OnProvider(private val given: StateStoreProvider) {
    private def provider: NewestProvider = given.asInstanceOf[NewestProvider]

    def doSnapshotMaintenance(): Unit = provider.doSnapshotMaintenance()
    def doCleanupMaintenance(): Unit = provider.doCleanupMaintenance()
    def opened(version: Long, id: Option[String], loadEmpty: Boolean): StateStore = given match {
      case newest: NewestProvider => newest.getStore(version, id, forceSnapshotOnCommit = false, loadEmpty)
      case sparks => sparks.getStore(version, id)
    }
    /** Before 4.2 a writer is opened beside the reader, and the reader ends. */
    def upgradeReadStoreToWriteStore(reader: ReadStateStore, version: Long, id: Option[String], force: Boolean): StateStore = {
      val writer = provider.getStore(version, id, force, loadEmpty = false)
      reader.abort()
      writer
    }
  }

  implicit final class OnReplay(private val given: SupportsFineGrainedReplay) {
    def getStateStoreChangeDataReader(from: Long, until: Long, family: Option[String], id: Option[String]) =
      given.asInstanceOf[NewestProvider].getStateStoreChangeDataReader(from, until, family, id)
  }

  /** A task's processors. */
  implicit def whole(number: BigDecimal): Int = number.toInt
}
