package org.apache.spark.sql.cecstore.state

import java.util.{Arrays, Comparator}
import org.apache.spark.unsafe.hash.Murmur3_x86_32
import org.apache.spark.unsafe.Platform

/** Where the newest row of each key of one column family is: key to reference. */
private[cecstore] trait KeyIndex {
  def size: Int
  def memoryBytes: Long
  /** The key's reference, or [[KeyIndex.Absent]]. */
  def find(key: Array[Byte], from: Int, length: Int): Long
  /** Set the key's reference, unless it has one that is not to be replaced, and return the one it had. */
  def put(key: Array[Byte], from: Int, length: Int, reference: Long, replace: Boolean): Long
  final def swap(key: Array[Byte], from: Int, length: Int, reference: Long): Long =
    put(key, from, length, reference, replace = true)
  def delete(key: Array[Byte], from: Int, length: Int): Unit
  /** Give the key, of which `held` is known to be the reference, another one. */
  def move(key: Array[Byte], from: Int, length: Int, held: Long, reference: Long): Unit = swap(key, from, length, reference)
  /** Delete the key, of which `held` is known to be the reference. */
  def deleteHeld(key: Array[Byte], from: Int, length: Int, held: Long): Unit = delete(key, from, length)
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
    if (slot >= 0) deleteAt(slot)
  }

  override def move(key: Array[Byte], from: Int, length: Int, held: Long, reference: Long): Unit =
    references_(slotHolding(HashIndex.hash(key, from, length), held)) = reference

  override def deleteHeld(key: Array[Byte], from: Int, length: Int, held: Long): Unit =
    deleteAt(slotHolding(HashIndex.hash(key, from, length), held))

  private def deleteAt(slot: Int): Unit = { references_(slot) = Deleted; size_ -= 1 }

  /** The slot of a reference that is there: no key is read, which with many keys is where the time goes. */
  private def slotHolding(hash: Int, held: Long): Int = {
    val mask = references_.length - 1
    var slot = hash & mask
    while (references_(slot) != held) {
      if (references_(slot) == Absent) throw new IllegalStateException(s"no key of this hash has the reference $held")
      slot = (slot + 1) & mask
    }
    slot
  }

  override def references: Iterator[Long] = {
    if (size_ == 0) return Iterator.empty
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

  /** Into arrays that fit what is left and half as many more; hashes are stored, so no key is touched. */
  private def rehash(): Unit = {
    val (oldReferences, oldHashes) = (references_, hashes)
    references_ = new Array[Long](HashIndex.slots(size_ + size_ / 2))
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
