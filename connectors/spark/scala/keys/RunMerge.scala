package org.apache.spark.sql.cecstore.keys

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
    def above(hash: Long): Unit = while (i < table.size && sorted(i) >>> 32 <= hash) {
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
    val entries = new Array[Long](table.size)
    var i = 0
    table.foreach { (hash, slot) => entries(i) = hash << 32 | slot; i += 1 }
    new HashOrder().sort(entries, entries.length, common = 0)
  }
}

private object RunMerge {
  private val HashMax = 0xffffffffL
}
