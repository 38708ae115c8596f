package org.apache.spark.sql.cecstore.keys

import java.util.Arrays
import org.apache.spark.sql.cecstore.local.{LocalSpace, WriteBuffer}
import org.apache.spark.unsafe.Platform

/**
 * Makes a run out of rows of which each has another key, by their keys' hashes alone, which come in any order: each entry is put
 * where it stands in the run. Slots are in the heap until they are written, a part of them after the other where they are many.
 * So a restart runs one short loop, before it is compiled well.
 *
 * @param entries how many there are
 * @param bytesMax of the slots in the heap
 */
private[cecstore] final class HashedRun(rows: RowsTable, entries: Int, bytesMax: Long) {
  import RunWriter.{NoSlot, Spare}

  private val hashBits = HashIndex.hashBits
  private val spread = RunLayout.spread(entries)
  private var layout = RunLayout.of(rows, spread, spread + Spare)
  private val width = layout.width
  private val partSlots = math.min(spread, HashedRun.heapBytes(bytesMax) / width).toInt
  private var slots = new Array[Byte](bytesFor(partSlots + Spare))
  /** Entries whose hashes belong to the slots from here on are taken now; the first of them is the array's first. */
  private var from = 0
  private var until = 0
  /** Entries of the first part have been added. */
  private var hasBegun = false

  /** A reference is written as eight bytes, behind the last slot as well. */
  private def bytesFor(slots: Int): Int = Math.toIntExact(slots.toLong * width + 8)

  /** Take the entries of the first part, or all if there is no other one, before [[written]] is called. */
  def begin(): Unit = { until = partSlots; hasBegun = true }

  /**
   * The run. Raises an IOException where there is no room for it, and then takes up none.
   *
   * @param addAll calls [[add]] for each entry; it is called once for each part of the slots, but for one that [[begin]] began
   */
  def written(space: LocalSpace)(addAll: () => Unit): KeyRun = try writtenOnce(space, addAll) catch { case NoSlot =>
    layout = layout.copy(slots = spread + behind)
    Arrays.fill(slots, 0.toByte)
    writtenOnce(space, addAll)
  }

  private def writtenOnce(space: LocalSpace, addAll: () => Unit): KeyRun = {
    val (extent, at) = space.write(layout.bytes)(write(_, addAll))
    new KeyRun(rows, entries, layout, extent, at)
  }

  /** How many entries have found no slot of the part they belong to. */
  private def behind: Int = Iterator.from(0).find(hashAt(_) == KeyTable.Empty).get

  private def write(out: WriteBuffer, addAll: () => Unit): Unit = {
    until = 0
    while (until < spread) {
      from = until
      until = math.min(spread, from + partSlots)
      if (hasBegun) hasBegun = false else addAll()
      val slotsOfPart = until - from
      out.add(slots, slotsOfPart.toLong * width)
      // What is behind them comes first in the next part.
      System.arraycopy(slots, slotsOfPart * width, slots, 0, slots.length - slotsOfPart * width)
      Arrays.fill(slots, slots.length - slotsOfPart * width, slots.length, 0.toByte)
    }
    if (behind > layout.slots - spread) throw NoSlot
    out.add(slots, layout.bytes - spread.toLong * width)
  }

  def add(hash: Int, reference: Long): Unit = {
    val counted = HashIndex.counted(hash, hashBits)
    val home = layout.home(counted)
    if (home >= from && home < until) insert(counted, reference, home - from)
  }

  private def insert(hash: Int, reference: Long, home: Int): Unit = {
    var place = home
    while (isUpto(place, hash)) place += 1
    var free = place
    while (hashAt(free) != KeyTable.Empty) free += 1
    // The last slot of the array stays empty.
    if (bytesFor(free + 2) > slots.length) slots = Arrays.copyOf(slots, bytesFor(free + 2 + Spare))
    if (free > place) System.arraycopy(slots, place * width, slots, (place + 1) * width, (free - place) * width)
    layout.put(slots, place, hash, reference)
  }

  private def isUpto(place: Int, hash: Int): Boolean = {
    val there = hashAt(place)
    there != KeyTable.Empty && Integer.compareUnsigned(there, hash) <= 0
  }

  private def hashAt(place: Int): Int = Platform.getInt(slots, Platform.BYTE_ARRAY_OFFSET + place.toLong * width)
}

private[cecstore] object HashedRun {
  /** Of slots in the heap, whatever the limit: a state with a directory has about so many. Tests lower it. */
  @volatile private[cecstore] var leastBytes: Int = 16 << 20
  /** Of one array. */
  private val BytesMax = 1L << 30

  /** How many bytes of slots are in the heap at once, where so many may be. */
  def heapBytes(bytesMax: Long): Long = math.min(BytesMax, math.max(bytesMax, leastBytes))

  /** What the slots of so many entries take. */
  def slotBytes(rows: RowsTable, entries: Int): Long = {
    val spread = RunLayout.spread(entries)
    spread.toLong * RunLayout.of(rows, spread, spread + RunWriter.Spare).width
  }
}
