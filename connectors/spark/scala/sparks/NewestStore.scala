package org.apache.spark.sql.cecstore.sparks

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/**
 * What the newest Spark calls on a store, and some older one does not know: with all of it declared here one store
 * overrides the same methods on each. Where Spark calls a method by fewer arguments, the others are said here.
 */
private[cecstore] trait NewestStore extends StateStore with StoreWithSeeking {
  // Since 4.3.
  def registerColFamily(name: String, keySchema: StructType, valueSchema: StructType, spec: KeyStateEncoderSpec,
      isMultiple: Boolean, isInternal: Boolean): Unit

  // Since 4.2.
  def deleteRange(start: UnsafeRow, end: UnsafeRow, name: String): Unit
  def multiGet(keys: Array[UnsafeRow], name: String): Iterator[UnsafeRow]
  def keyExists(key: UnsafeRow, name: String): Boolean
  def iteratorWithMultiValues(name: String): StateStoreIterator[UnsafeRowPair]
  def prefixScanWithMultiValues(prefix: UnsafeRow, name: String): StateStoreIterator[UnsafeRowPair]
  def rangeScan(start: Option[UnsafeRow], end: Option[UnsafeRow], name: String): StateStoreIterator[UnsafeRowPair]
  def rangeScanWithMultiValues(start: Option[UnsafeRow], end: Option[UnsafeRow], name: String): StateStoreIterator[UnsafeRowPair]
  def allColumnFamilyNames: Set[String]

  // Since 4.1.
  def putList(key: UnsafeRow, values: Array[UnsafeRow], name: String): Unit
  def mergeList(key: UnsafeRow, values: Array[UnsafeRow], name: String): Unit
  def release(): Unit
}
