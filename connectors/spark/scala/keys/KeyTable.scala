package org.apache.spark.sql.cecstore.keys

/**
 * Keys in the heap: open addressing over arrays, no object per key. A slot has 12 bytes, and 16 over a run.
 *
 * @param keysHint how many keys it may get
 * @param isOverRun whether it also keeps what each key had in the run below: see [[insert]]
 */
private[keys] final class KeyTable(rows: RowsTable, keysHint: Int, isOverRun: Boolean) {
  import KeyIndex.Absent
  import KeyTable._

  private var references = new Array[Long](slotsFor(keysHint))
  private var hashes = new Array[Int](references.length)
  private var origins = if (isOverRun) new Array[Int](references.length) else null
  private var used = 0 // slots that are not empty, deleted ones included
  private var size_ = 0

  def size: Int = size_
  def memoryBytes: Long = references.length * (if (isOverRun) 16L else 12L)
  def reference(slot: Int): Long = references(slot)
  def set(slot: Int, reference: Long): Unit = references(slot) = reference
  def delete(slot: Int): Unit = { references(slot) = Absent; hashes(slot) = Deleted; size_ -= 1 }

  /**
   * Take in a key at `free`, a slot as [[slotOf]] or [[freeSlot]] gives it.
   *
   * @param origin the place of the entry in the run that this one replaces; `~` of a number of scans where there is none
   */
  def insert(free: Int, hash: Int, reference: Long, origin: Int): Unit = {
    val slot = ~free
    if (hashes(slot) == Empty) used += 1
    references(slot) = reference
    hashes(slot) = hash
    if (isOverRun) origins(slot) = origin
    size_ += 1
    if (used * 3L > references.length * 2L) rehash()
  }

  /** The key's slot; where it has none, `~` of the one that it can have. Until a hash is the same, one array alone is read. */
  def slotOf(hash: Int, key: Array[Byte], from: Int, length: Int): Int = {
    val mask = hashes.length - 1
    var slot = hash & mask
    var free = -1
    while (hashes(slot) != Empty) {
      if (hashes(slot) == hash) {
        val there = references(slot)
        if (rows.of(there).hasKey(there.toInt, key, from, length)) return slot
      } else if (hashes(slot) == Deleted && free < 0) free = slot
      slot = (slot + 1) & mask
    }
    ~(if (free < 0) slot else free)
  }

  /** The slot of the key that has this reference: no key is read, which with many keys is where the time goes. */
  def slotHolding(hash: Int, held: Long): Int = {
    val mask = hashes.length - 1
    var slot = hash & mask
    while (references(slot) != held) {
      if (hashes(slot) == Empty) throw new IllegalStateException(s"no key of this hash has the reference $held")
      slot = (slot + 1) & mask
    }
    slot
  }

  /** `~` of the slot that a key can have which is not here. */
  def freeSlot(hash: Int): Int = {
    val mask = hashes.length - 1
    var slot = hash & mask
    while (hashes(slot) != Empty && hashes(slot) != Deleted) slot = (slot + 1) & mask
    ~slot
  }

  /**
   * All references; keys may be put and removed meanwhile.
   *
   * @param isGiven of the origin of an entry, whether it is among them
   */
  def scan(isGiven: Int => Boolean): Iterator[Long] = {
    if (size_ == 0) return Iterator.empty
    val (slots, from) = (references, origins) // a rehash leaves these as they are; dead references are looked up again
    val all = Iterator.range(0, slots.length)
    (if (isOverRun) all.filter(slot => slots(slot) > 0 && isGiven(from(slot))) else all).map(slots(_)).filter(_ > 0)
  }

  /** Call with the hash, as a number without sign, and the slot of each key. */
  def foreach(each: (Long, Int) => Unit): Unit = {
    var slot = 0
    while (slot < references.length) {
      if (references(slot) > 0) each(hashes(slot) & 0xffffffffL, slot)
      slot += 1
    }
  }

  /** Into arrays that fit what is left and half as many more; hashes are stored, so no key is touched. */
  private def rehash(): Unit = {
    val larger = new Array[Long](slotsFor(size_ + size_ / 2))
    val (hashesOfLarger, originsOfLarger) = (new Array[Int](larger.length), if (isOverRun) new Array[Int](larger.length) else null)
    val mask = larger.length - 1
    var old = 0
    while (old < references.length) {
      if (references(old) > 0) {
        var slot = hashes(old) & mask
        while (hashesOfLarger(slot) != Empty) slot = (slot + 1) & mask
        larger(slot) = references(old)
        hashesOfLarger(slot) = hashes(old)
        if (isOverRun) originsOfLarger(slot) = origins(old)
      }
      old += 1
    }
    references = larger
    hashes = hashesOfLarger
    origins = originsOfLarger
    used = size_
  }
}

private[cecstore] object KeyTable {
  /** Of a slot without a key, instead of a hash. */
  val Empty = 0
  private val Deleted = 1
  /** No key has a hash below. */
  val HashMin = 2

  /** A power of two, at most two thirds full with so many keys. */
  private def slotsFor(keys: Int): Int = Integer.highestOneBit((math.max(8, keys) * 3L / 2 - 1).toInt) << 1

  /** Bytes that a table takes which is made for so many keys. */
  def bytesFor(keys: Int): Long = slotsFor(keys) * 12L
}
