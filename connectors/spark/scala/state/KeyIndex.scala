package org.apache.spark.sql.cecstore.state

import java.util.{Arrays, Comparator}
import java.util.concurrent.ConcurrentSkipListMap

import scala.jdk.CollectionConverters._

import org.apache.spark.unsafe.Platform

/** Where the newest row of each key of one column family is: key to reference. */
private[cecstore] sealed trait KeyIndex {
  def size: Int
  def memoryBytes: Long
  /** The key's reference, or [[KeyIndex.Absent]]. */
  def find(key: Array[Byte], from: Int, length: Int): Long
  /** Set the key's reference and return the one it had. */
  def swap(key: Array[Byte], from: Int, length: Int, reference: Long): Long
  /** Set the reference of a key that has none; false where it has one. */
  def putIfAbsent(key: Array[Byte], from: Int, length: Int, reference: Long): Boolean
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
    val slot = slotOf(key, from, length)
    if (slot < 0) Absent else references_(slot)
  }

  override def swap(key: Array[Byte], from: Int, length: Int, reference: Long): Long =
    set(key, from, length, reference, replace = true)

  override def putIfAbsent(key: Array[Byte], from: Int, length: Int, reference: Long): Boolean =
    set(key, from, length, reference, replace = false) == Absent

  private def set(key: Array[Byte], from: Int, length: Int, reference: Long, replace: Boolean): Long = {
    val hash = HashIndex.hash(key, from, length)
    val mask = references_.length - 1
    var slot = hash & mask
    var free = -1
    while (references_(slot) != Absent) {
      val there = references_(slot)
      if (there == Deleted) { if (free < 0) free = slot }
      else if (hashes(slot) == hash && same(there, key, from, length)) {
        if (replace) references_(slot) = reference
        return there
      }
      slot = (slot + 1) & mask
    }
    if (free < 0) { free = slot; used += 1 }
    references_(free) = reference
    hashes(free) = hash
    size_ += 1
    if (used * 3L > references_.length * 2L) rehash()
    Absent
  }

  override def delete(key: Array[Byte], from: Int, length: Int): Unit = {
    val slot = slotOf(key, from, length)
    if (slot >= 0) { references_(slot) = Deleted; size_ -= 1 }
  }

  override def references: Iterator[Long] = {
    val slots = references_ // a rehash leaves this array as it is; dead references are looked up again
    Iterator.range(0, slots.length).map(slots(_)).filter(_ > 0)
  }

  private def same(reference: Long, key: Array[Byte], from: Int, length: Int): Boolean =
    rows.of(reference).hasKey(reference.toInt, key, from, length)

  private def slotOf(key: Array[Byte], from: Int, length: Int): Int = {
    val hash = HashIndex.hash(key, from, length)
    val mask = references_.length - 1
    var slot = hash & mask
    while (references_(slot) != Absent) {
      val there = references_(slot)
      if (there != Deleted && hashes(slot) == hash && same(there, key, from, length)) return slot
      slot = (slot + 1) & mask
    }
    -1
  }

  /** Into arrays that fit what is left; hashes are stored, so no key is touched. */
  private def rehash(): Unit = {
    val (oldReferences, oldHashes) = (references_, hashes)
    references_ = new Array[Long](HashIndex.slots(size_ * 2))
    hashes = new Array[Int](references_.length)
    val mask = references_.length - 1
    var i = 0
    while (i < oldReferences.length) {
      if (oldReferences(i) > 0) {
        var slot = oldHashes(i) & mask
        while (references_(slot) != Absent) slot = (slot + 1) & mask
        references_(slot) = oldReferences(i)
        hashes(slot) = oldHashes(i)
      }
      i += 1
    }
    used = size_
  }
}

private[cecstore] object HashIndex {
  /** A power of two, at most two thirds full with so many keys. */
  def slots(keys: Int): Int = Integer.highestOneBit(math.max(8, keys) * 3 / 2 - 1) << 1

  /** Eight bytes a step: rows of longs vary in few bytes, and each must reach every bit. */
  def hash(key: Array[Byte], from: Int, length: Int): Int = {
    var h = length * 0x9E3779B97F4A7C15L
    var at = Platform.BYTE_ARRAY_OFFSET + from.toLong
    var left = length
    while (left >= 8) {
      h = (h ^ Platform.getLong(key, at)) * 0xff51afd7ed558ccdL
      h ^= h >>> 32
      at += 8
      left -= 8
    }
    while (left > 0) {
      h = (h ^ Platform.getByte(key, at)) * 0x100000001b3L
      at += 1
      left -= 1
    }
    h = (h ^ (h >>> 33)) * 0xc4ceb9fe1a85ec53L
    (h ^ (h >>> 32)).toInt
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

  private def orAbsent(reference: java.lang.Long): Long =
    if (reference == null) KeyIndex.Absent else reference

  override def find(key: Array[Byte], from: Int, length: Int): Long =
    orAbsent(map.get(exact(key, from, length)))

  override def swap(key: Array[Byte], from: Int, length: Int, reference: Long): Long = {
    val old = orAbsent(map.put(Arrays.copyOfRange(key, from, from + length), reference))
    if (old == KeyIndex.Absent) { keyBytes += length; size_ += 1 }
    old
  }

  override def putIfAbsent(key: Array[Byte], from: Int, length: Int, reference: Long): Boolean =
    find(key, from, length) == KeyIndex.Absent && {
      swap(key, from, length, reference)
      true
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
