package org.apache.spark.sql.cecstore.keys

import java.util.Arrays
import org.apache.spark.sql.cecstore.local.LocalSpace

/** A new run of the keys of a table and of what counts in the run below it, if any: one pass over both, in which no row is read. */
private[keys] final class RunMerge(rows: RowsTable, table: KeyTable, run: Option[KeyRun]) {
  import RunMerge.HashMax

  private val entries = table.size + run.fold(0)(_.size)
  /** Of each key in the table its hash and, in the lower half, its slot; in the order of the hashes as numbers without sign. */
  private lazy val sorted = inOrder()

  /** Raises an IOException where there is no room for it, and then takes up none. */
  def written(space: LocalSpace): KeyRun = new RunWriter(rows, entries, foreach).written(space)

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
}
