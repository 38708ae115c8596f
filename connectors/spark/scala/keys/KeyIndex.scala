package org.apache.spark.sql.cecstore.keys

import java.util.{Arrays, Comparator}

/** Where the newest row of each key of one column family is: key to reference. */
private[cecstore] trait KeyIndex {
  def size: Int
  /** Bytes in the heap. */
  def memoryBytes: Long
  /** Bytes in local files. */
  def localBytes: Long = 0
  /** The key's reference, or [[KeyIndex.Absent]]. */
  def find(key: Array[Byte], from: Int, length: Int): Long
  /** Set the key's reference, unless it has one that is not to be replaced, and return the one it had. */
  def put(key: Array[Byte], from: Int, length: Int, reference: Long, replace: Boolean): Long
  final def swap(key: Array[Byte], from: Int, length: Int, reference: Long): Long =
    put(key, from, length, reference, replace = true)
  def delete(key: Array[Byte], from: Int, length: Int): Unit
  /** As [[swap]], of a key that has a reference. */
  def swapKnown(key: Array[Byte], from: Int, length: Int, reference: Long): Long = swap(key, from, length, reference)
  /** Give the key, of which `held` is known to be the reference, another one. */
  def move(key: Array[Byte], from: Int, length: Int, held: Long, reference: Long): Unit = swap(key, from, length, reference)
  /** Delete the key, of which `held` is known to be the reference. */
  def deleteHeld(key: Array[Byte], from: Int, length: Int, held: Long): Unit = delete(key, from, length)
  /** All references; keys may be put and removed while it is read. */
  def references: Iterator[Long]
  /** Nobody looks up keys in it any more: its room in local files is free once scans are through. */
  def letGo(): Unit = ()
}

private[cecstore] object KeyIndex {
  val Absent = 0L
  val Unsigned: Comparator[Array[Byte]] = (a, b) => Arrays.compareUnsigned(a, b)
}
