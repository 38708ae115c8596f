package org.apache.spark.sql.cecstore.keys

import org.apache.spark.sql.cecstore.local.LocalSpace

/**
 * Makes a run out of rows that come newest first, of which the first one of each key counts. They are put aside by the first bits
 * of their keys' hashes, and sorted one share after the other, which the processor's cache has room for. So rows are not
 * looked up, one by one, in an index that is larger, and no runs are merged.
 *
 * @param keysHint how many keys are expected
 */
private[keys] final class RunLoad(rows: RowsTable, keysHint: Int, space: () => LocalSpace) {
  import RunLoad._

  private val added = new HashShares(HashShares.bitsFor(keysHint), space)
  private val share = new SortedShares(added)
  /** Made once all are in. */
  private lazy val newest = new HashShares(0, space)
  private var size_ = 0

  /** Take in a row, or one that says that its key is gone. Raises an IOException where there is no room for it. */
  def add(hash: Int, reference: Long, isClosed: Boolean): Unit = added.add(hash, if (isClosed) ~reference else reference)

  /**
   * All are in. Nothing is added any more.
   *
   * @param take called with the newest row of each key that is not closed
   */
  def finish(take: Long => Unit): Unit = {
    added.finish()
    (0 until added.count).foreach { number =>
      val count = share.read(number)
      val sorted = share.sorted
      var from = 0
      while (from < count) {
        var until = from + 1
        while (until < count && sorted(until) >>> 32 == sorted(from) >>> 32) until += 1
        takeNewest(sorted, from, until, take)
        from = until
      }
    }
    added.letGo()
    newest.finish()
  }

  /** Of rows with one hash, take the first one of each key. They are mostly one, or of one key. */
  private def takeNewest(sorted: Array[Long], from: Int, until: Int, take: Long => Unit): Unit = {
    var firsts = from
    var next = from
    while (next < until) {
      val row = sorted(next).toInt
      var i = from
      while (i < firsts && !haveOneKey(sorted(i).toInt, row)) i += 1
      if (i == firsts) {
        sorted(firsts) = sorted(next)
        firsts += 1
        val reference = share.reference(row)
        if (reference > 0) { newest.add(share.hash(row), reference); size_ += 1; take(reference) }
      }
      next += 1
    }
  }

  private def haveOneKey(a: Int, b: Int): Boolean = rows.haveOneKey(referenceOf(share.reference(a)), referenceOf(share.reference(b)))

  /** How many keys there are. */
  def size: Int = size_

  /** Call with the hash and the reference of each key, in the order of hashes without sign. */
  def foreach(each: (Long, Long) => Unit): Unit = newest.foreach(0)((hash, reference) => each(hash & 0xffffffffL, reference))

  /** Raises an IOException where there is no room for it. */
  def written(): KeyRun = new RunWriter(rows, size, foreach).written(space())

  def letGo(): Unit = newest.letGo()
}

private object RunLoad {
  /** Of one that says whether its row is closed. */
  private def referenceOf(marked: Long): Long = if (marked > 0) marked else ~marked
}
