package org.apache.spark.sql.cecstore.state

import java.util.{Arrays, Comparator}
import java.util.concurrent.ConcurrentSkipListMap
import scala.jdk.CollectionConverters._
import org.apache.spark.unsafe.hash.Murmur3_x86_32
import org.apache.spark.unsafe.Platform

/** Where the newest row of each key of one column family is: key to reference. */
private[cecstore] sealed trait KeyIndex {
  def size: Int
  def memoryBytes: Long
  /** The key's reference, or [[KeyIndex.Absent]]. */
  def find(key: Array[Byte], from: Int, length: Int): Long
  /** Set the key's reference, unless it has one that is not to be replaced, and return the one it had. */
  def put(key: Array[Byte], from: Int, length: Int, reference: Long, replace: Boolean): Long
  final def swap(key: Array[Byte], from: Int, length: Int, reference: Long): Long =
    put(key, from, length, reference, replace = true)
  def delete(key: Array[Byte], from: Int, length: Int): Unit
  /** All references; keys may be put and removed while it is read. */
  def references: Iterator[Long]
}

private[cecstore] object KeyIndex {
  val Absent = 0L
  val Unsigned: Comparator[Array[Byte]] = (a, b) => Arrays.compareUnsigned(a, b)
}

/** Open addressing over arrays: 12 bytes a slot, no object per key. */
private[cecstore] final class HashIndex(rows: RowsTable, sizeHint: Int) extends KeyIndex {
  import KeyIndex.Absent
  private val Deleted = -1L
  private var references_ = new Array[Long](HashIndex.slots(sizeHint))
  private var hashes = new Array[Int](references_.length)
  private var used = 0 // slots that are not empty, deleted ones included
  private var size_ = 0

  override def size: Int = size_
  override def memoryBytes: Long = references_.length * 12L

  override def find(key: Array[Byte], from: Int, length: Int): Long = {
    val slot = slotOf(HashIndex.hash(key, from, length), key, from, length)
    if (slot < 0) Absent else references_(slot)
  }

  override def put(key: Array[Byte], from: Int, length: Int, reference: Long, replace: Boolean): Long = {
    val hash = HashIndex.hash(key, from, length)
    val slot = slotOf(hash, key, from, length)
    val old = if (slot < 0) Absent else references_(slot)
    if (slot < 0) insert(~slot, hash, reference)
    else if (replace) references_(slot) = reference
    old
  }

  private def insert(slot: Int, hash: Int, reference: Long): Unit = {
    if (references_(slot) == Absent) used += 1
    references_(slot) = reference
    hashes(slot) = hash
    size_ += 1
    if (used * 3L > references_.length * 2L) rehash()
  }

  override def delete(key: Array[Byte], from: Int, length: Int): Unit = {
    val slot = slotOf(HashIndex.hash(key, from, length), key, from, length)
    if (slot >= 0) { references_(slot) = Deleted; size_ -= 1 }
  }

  override def references: Iterator[Long] = {
    val slots = references_ // a rehash leaves this array as it is; dead references are looked up again
    Iterator.range(0, slots.length).map(slots(_)).filter(_ > 0)
  }

  /** The key's slot; where it has none, `~` of the one that it can have. */
  private def slotOf(hash: Int, key: Array[Byte], from: Int, length: Int): Int = {
    val mask = references_.length - 1
    var slot = hash & mask
    var free = -1
    while (references_(slot) != Absent) {
      val there = references_(slot)
      if (there == Deleted) { if (free < 0) free = slot }
      else if (hashes(slot) == hash && rows.of(there).hasKey(there.toInt, key, from, length)) return slot
      slot = (slot + 1) & mask
    }
    ~(if (free < 0) slot else free)
  }

  /** Into arrays that fit what is left; hashes are stored, so no key is touched. */
  private def rehash(): Unit = {
    val (oldReferences, oldHashes) = (references_, hashes)
    references_ = new Array[Long](HashIndex.slots(size_ * 2))
    hashes = new Array[Int](references_.length)
    val mask = references_.length - 1
    oldReferences.indices.foreach(i => if (oldReferences(i) > 0) {
      var slot = oldHashes(i) & mask
      while (references_(slot) != Absent) slot = (slot + 1) & mask
      references_(slot) = oldReferences(i)
      hashes(slot) = oldHashes(i)
    })
    used = size_
  }
}

private[cecstore] object HashIndex {
  /** A power of two, at most two thirds full with so many keys. */
  def slots(keys: Int): Int = Integer.highestOneBit(math.max(8, keys) * 3 / 2 - 1) << 1

  def hash(key: Array[Byte], from: Int, length: Int): Int = {
    val at = Platform.BYTE_ARRAY_OFFSET + from.toLong
    // Spark's own tables hash rows, whose size is always a multiple of eight, by the first of the two: where a
    // restart loads a state, it is compiled already.
    if ((length & 7) == 0) Murmur3_x86_32.hashUnsafeWords(key, at, length, 0)
    else Murmur3_x86_32.hashUnsafeBytes2(key, at, length, 0)
  }
}

/** Keys in the order of their bytes, for families with prefix or range scans. */
private[cecstore] final class OrderedIndex extends KeyIndex {
  private val map = new ConcurrentSkipListMap[Array[Byte], java.lang.Long](KeyIndex.Unsigned)
  private var keyBytes = 0L
  private var size_ = 0 // the map counts its own by walking it

  override def size: Int = size_
  override def memoryBytes: Long = size_ * 96L + keyBytes

  private def exact(key: Array[Byte], from: Int, length: Int): Array[Byte] =
    if (from == 0 && length == key.length) key else Arrays.copyOfRange(key, from, from + length)

  override def find(key: Array[Byte], from: Int, length: Int): Long =
    map.getOrDefault(exact(key, from, length), KeyIndex.Absent)

  override def put(key: Array[Byte], from: Int, length: Int, reference: Long, replace: Boolean): Long = {
    val own = Arrays.copyOfRange(key, from, from + length)
    val old = if (replace) map.put(own, reference) else map.putIfAbsent(own, reference)
    if (old != null) return old
    keyBytes += length
    size_ += 1
    KeyIndex.Absent
  }

  override def delete(key: Array[Byte], from: Int, length: Int): Unit =
    if (map.remove(exact(key, from, length)) != null) { keyBytes -= length; size_ -= 1 }

  override def references: Iterator[Long] = between(null, null)

  /** References of the keys in `[start, end)`, in order; null is open. */
  def between(start: Array[Byte], end: Array[Byte]): Iterator[Long] = {
    val from = if (start == null) map else map.tailMap(start, true)
    val upto = if (end == null) from
    else if (start != null && KeyIndex.Unsigned.compare(start, end) >= 0) from.headMap(start, false)
    else from.headMap(end, false)
    upto.values.iterator.asScala.map(_.longValue)
  }

  /** References of the keys that start with the prefix, in order. */
  def startingWith(prefix: Array[Byte]): Iterator[Long] = {
    map.tailMap(prefix, true).entrySet.iterator.asScala
      .takeWhile(entry => entry.getKey.length >= prefix.length &&
        Arrays.equals(entry.getKey, 0, prefix.length, prefix, 0, prefix.length))
      .map(_.getValue.longValue)
  }
}
