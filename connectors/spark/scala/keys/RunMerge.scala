package org.apache.spark.sql.cecstore.keys

import java.util.Arrays
import scala.util.control.NoStackTrace
import org.apache.spark.sql.cecstore.local.{LocalSpace, WriteBuffer}

/** A new run of the keys of a table and of what counts in the run below it, if any: one pass over both, in which no row is read. */
private[keys] final class RunMerge(rows: RowsTable, table: KeyTable, run: Option[KeyRun]) {
  import RunMerge._

  private val entries = table.size + run.fold(0)(_.size)
  private val spread = RunLayout.spread(entries)
  /** Of each key in the table its hash and, in the lower half, its slot; in the order of the hashes as numbers without sign. */
  private lazy val sorted = inOrder()

  /** Raises an IOException where there is no room for it, and then takes up none. */
  def written(space: LocalSpace): KeyRun =
    try written(space, spread + Spare) catch { case NoSlot => written(space, slotsNeeded) }

  private def written(space: LocalSpace, slots: Int): KeyRun = {
    val layout = RunLayout.of(rows, spread, slots)
    val (extent, at) = space.write(layout.bytes)(write(layout, _))
    new KeyRun(rows, entries, layout, extent, at)
  }

  /** Up to the last entry: where very many keys have the last hashes, it stands far behind. */
  private def slotsNeeded: Int = {
    var end = 0
    foreach((hash, _) => end = math.max(end, RunLayout.home(hash, spread)) + 1)
    math.max(end, spread)
  }

  private def write(layout: RunLayout, out: WriteBuffer): Unit = {
    var end = 0
    def skipTo(place: Int): Unit = while (end < place) { layout.addEmpty(out); end += 1 }
    foreach { (hash, reference) =>
      skipTo(RunLayout.home(hash, spread))
      if (end == layout.slots) throw NoSlot
      layout.addTo(out, hash, reference)
      end += 1
    }
    skipTo(layout.slots)
  }

  /** Call with the hash and the reference of each key, in the order of hashes without sign. */
  private def foreach(each: (Long, Long) => Unit): Unit = {
    var i = 0
    def above(hash: Long): Unit = while (i < sorted.length && sorted(i) >>> 32 <= hash) {
      each(sorted(i) >>> 32, table.reference(sorted(i).toInt))
      i += 1
    }
    run.foreach(_.foreach { (hash, reference) =>
      above(hash)
      each(hash, reference)
    })
    above(HashMax)
  }

  private def inOrder(): Array[Long] = {
    val shift = Integer.numberOfLeadingZeros(math.max(2, table.size)) + 1
    val ends = new Array[Int]((1 << (32 - shift)) + 1)
    table.foreach((hash, _) => ends((hash >>> shift).toInt + 1) += 1)
    (1 until ends.length).foreach(bucket => ends(bucket) += ends(bucket - 1))
    val sorted = new Array[Long](table.size)
    // Each of them is then where its bucket ends.
    table.foreach { (hash, slot) =>
      val bucket = (hash >>> shift).toInt
      sorted(ends(bucket)) = hash << 32 | slot
      ends(bucket) += 1
    }
    var start = 0
    (0 until ends.length - 1).foreach { bucket =>
      // Hashes of a bucket have the same first bit, so that their order with and without sign is one.
      if (ends(bucket) - start > 1) Arrays.sort(sorted, start, ends(bucket))
      start = ends(bucket)
    }
    sorted
  }
}

private object RunMerge {
  private val HashMax = 0xffffffffL
  /** Slots behind those that hashes are spread over: of evenly spread ones a few dozen are too many there. */
  private val Spare = 256
  private object NoSlot extends RuntimeException with NoStackTrace
}
