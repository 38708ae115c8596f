package org.apache.spark.sql.cecstore.keys

import java.util.Arrays
import org.apache.spark.sql.cecstore.local.{Extent, WriteBuffer}
import org.apache.spark.unsafe.Platform

/**
 * Keys in a local file, which never change: slots with the hashes of keys in ascending order, without sign, each as near as it gets
 * behind where it would stand if hashes were spread evenly. So a look-up goes to one place and reads on for a few slots. Of
 * its entries those count that no newer one has replaced; which have been is noted in the heap, a bit for each slot. So an
 * entry of which the row is gone is never taken for a key's, whatever its hash.
 *
 * @param entries how many it has, replaced ones included
 * @param at the address of the first slot
 */
private[cecstore] final class KeyRun(rows: RowsTable, val entries: Int, val layout: RunLayout, extent: Extent, at: Long) {
  import KeyRun._

  private val replaced = new Array[Long]((layout.slots + 63) >>> 6)
  private var replacedCount_ = 0

  def replacedCount: Int = replacedCount_
  def size: Int = entries - replacedCount_
  /** Bytes in the heap. */
  def memoryBytes: Long = replaced.length * 8L
  /** Bytes in the local file. */
  def localBytes: Long = layout.bytes

  /** The place of the key's entry, or [[Nowhere]]. */
  def placeOf(hash: Int, key: Array[Byte], from: Int, length: Int): Int = {
    var place = layout.home(hash)
    while (isUpto(place, hash)) {
      if (hashAt(place) == hash && counts(place)) {
        val held = reference(place)
        if (rows.of(held).hasKey(held.toInt, key, from, length)) return place
      }
      place += 1
    }
    Nowhere
  }

  /**
   * The place of a key that has an entry here. Where one entry alone has its hash, it is the key's, and no key is read: so a state
   * of which the rows are still in the log can be followed.
   */
  def placeOfKnown(hash: Int, key: Array[Byte], from: Int, length: Int): Int = {
    var place = layout.home(hash)
    var only = Nowhere
    while (isUpto(place, hash)) {
      if (hashAt(place) == hash && counts(place)) {
        if (only != Nowhere) return placeOf(hash, key, from, length)
        only = place
      }
      place += 1
    }
    only
  }

  /** The place of the entry with this reference, or [[Nowhere]]; no key is read. */
  def placeHolding(hash: Int, held: Long): Int = {
    var place = layout.home(hash)
    while (isUpto(place, hash)) {
      if (hashAt(place) == hash && reference(place) == held && counts(place)) return place
      place += 1
    }
    Nowhere
  }

  /** Whether the place has an entry, and none whose hash is greater. Behind the last slot there is none. */
  private def isUpto(place: Int, hash: Int): Boolean = place < layout.slots && {
    val hashThere = hashAt(place)
    hashThere != KeyTable.Empty && Integer.compareUnsigned(hashThere, hash) <= 0
  }

  private def hashAt(place: Int): Int = Platform.getInt(null, at + place.toLong * layout.width)
  def reference(place: Int): Long = layout.reference(Platform.getLong(null, at + place.toLong * layout.width + HashBytes))
  private def counts(place: Int): Boolean = !has(replaced, place)

  /** The entry counts no more: its key has a newer one above the run, or none. */
  def replace(place: Int): Unit = { replaced(place >>> 6) |= 1L << place; replacedCount_ += 1 }

  /** One of those that read it does so no more. */
  def letGo(): Unit = extent.release()

  /** References of the entries that count now, whatever replaces them meanwhile. It holds the run until it is through or closed. */
  final class Scan extends Iterator[Long] with AutoCloseable {
    private val replacedBefore = Arrays.copyOf(replaced, replaced.length)
    private var place = 0
    private var isOpen = true
    extent.retain()
    advance()

    /** Whether the entry had been replaced when the scan began. */
    def wasReplaced(place: Int): Boolean = has(replacedBefore, place)

    override def hasNext: Boolean = isOpen
    override def next(): Long = {
      if (!isOpen) throw new NoSuchElementException("the end of a scan")
      val given = reference(place)
      place += 1
      advance()
      given
    }

    private def advance(): Unit = {
      while (place < layout.slots && (hashAt(place) == KeyTable.Empty || wasReplaced(place))) place += 1
      if (place >= layout.slots) close()
    }

    override def close(): Unit = if (isOpen) { isOpen = false; letGo() }
  }

  /** Call with the hash and the reference of each entry that counts, in the order of hashes without sign. */
  def foreach(each: (Long, Long) => Unit): Unit = {
    var place = 0
    while (place < layout.slots) {
      val hash = hashAt(place)
      if (hash != KeyTable.Empty && counts(place)) each(hash & 0xffffffffL, reference(place))
      place += 1
    }
  }
}

private[cecstore] object KeyRun {
  private[keys] val Nowhere: Int = -1
  private[keys] val HashBytes = 4
  /** So many keys of a family have no run, and as many changes above one are not merged into it. Tests lower it. */
  @volatile private[cecstore] var keysMin: Int = 1 << 16

  private def has(bits: Array[Long], place: Int): Boolean = (bits(place >>> 6) & (1L << place)) != 0
}

/**
 * How a run lies in its file: a slot is a hash of four bytes, and a reference in as few as the state needs, where a row's id counts
 * from `firstId`. A quarter of the slots that hashes are spread over has no entry.
 *
 * @param spread over how many slots; a few more may be behind, where hashes are many at the end
 */
private[cecstore] final case class RunLayout(spread: Int, slots: Int, firstId: Int, idBits: Int, rowBits: Int) {
  private val idMask = (1L << idBits) - 1
  private val rowMask = (1L << rowBits) - 1
  private val referenceBytes = (idBits + rowBits + 7) >>> 3
  private val referenceMask = -1L >>> 64 - 8 * referenceBytes
  /** Bytes of a slot. */
  val width: Int = KeyRun.HashBytes + referenceBytes
  /** A reference is read as eight bytes, behind the last slot as well. */
  def bytes: Long = slots.toLong * width + 8

  /** Where a hash would stand if hashes were spread evenly. */
  def home(hash: Int): Int = RunLayout.home(hash & 0xffffffffL, spread)
  def reference(stored: Long): Long = ((stored >>> rowBits & idMask) + firstId) << 32 | stored & rowMask
  def addEmpty(out: WriteBuffer): Unit = { out.addNumber(KeyTable.Empty, KeyRun.HashBytes); out.addNumber(0, referenceBytes) }
  def addTo(out: WriteBuffer, hash: Long, reference: Long): Unit = {
    out.addNumber(hash, KeyRun.HashBytes)
    out.addNumber(stored(reference), referenceBytes)
  }
  private def stored(reference: Long): Long = (reference >>> 32) - firstId << rowBits | reference & 0xffffffffL

  /** Put an entry into an array of slots, which has eight bytes more than they take. */
  def put(slots: Array[Byte], slot: Int, hash: Int, reference: Long): Unit = {
    val at = Platform.BYTE_ARRAY_OFFSET + slot.toLong * width
    Platform.putInt(slots, at, hash)
    val next = Platform.getLong(slots, at + KeyRun.HashBytes) & ~referenceMask
    Platform.putLong(slots, at + KeyRun.HashBytes, next | stored(reference))
  }
}

private[cecstore] object RunLayout {
  def home(hash: Long, spread: Int): Int = (hash * spread >>> 32).toInt
  def spread(entries: Int): Int = math.min(entries + entries / 3L + 1, Int.MaxValue - 8L).toInt

  /** The one for references of these rows. */
  def of(rows: RowsTable, spread: Int, slots: Int): RunLayout = {
    val (newest, mostRows) = rows.span
    RunLayout(spread, slots, rows.firstId, bitsOf(newest - rows.firstId), bitsOf(mostRows))
  }

  private def bitsOf(most: Int): Int = 32 - Integer.numberOfLeadingZeros(math.max(1, most))
}
