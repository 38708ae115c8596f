package org.apache.spark.sql.cecstore.keys

import scala.collection.mutable.ArrayBuffer

/**
 * Puts references in the order of their keys' bytes, which stay where they are.
 *
 * It goes by the four bytes behind those that all keys begin with, and with those of which these are equal in the same way: a restart has
 * millions at once, and comparing one with the other takes longer.
 */
private final class KeyOrder(rows: RowsTable, references: Array[Long]) {
  import KeyOrder.Few

  private val byBytes = new HashOrder
  private val words = new Array[Long](references.length)
  private val moved = new Array[Long](references.length)

  /** @param known how many bytes at least all of these begin with */
  private def sort(from: Int, until: Int, known: Int): Unit = if (until - from <= Few) sortFew(from, until)
    else {
      val (common, count) = (commonBytes(from, until, known), until - from)
      var i = 0
      while (i < count) {
        val reference = references(from + i)
        words(i) = rows.of(reference).keyWord(reference.toInt, common) << 32 | i
        i += 1
      }
      val sorted = byBytes.sort(words, count, common = 0)
      val equal = ArrayBuffer.empty[(Int, Int)]
      var start = 0
      i = 0
      while (i < count) {
        moved(i) = references(from + sorted(i).toInt)
        i += 1
        if (i == count || sorted(i) >>> 32 != sorted(start) >>> 32) {
          if (i - start > 1) equal += ((from + start, from + i))
          start = i
        }
      }
      System.arraycopy(moved, 0, references, from, count)
      // Of keys that end here, and others that go on with zeros.
      if (equal.headOption.contains((from, until))) sortWhole(from, until)
      else equal.foreach { case (start, end) => sort(start, end, common) }
    }

  private def sortFew(from: Int, until: Int): Unit = {
    var i = from + 1
    while (i < until) {
      val reference = references(i)
      var at = i
      while (at > from && rows.compareKeys(references(at - 1), reference) > 0) { references(at) = references(at - 1); at -= 1 }
      references(at) = reference
      i += 1
    }
  }

  private def sortWhole(from: Int, until: Int): Unit =
    references.slice(from, until).sortWith((a, b) => rows.compareKeys(a, b) < 0).copyToArray(references, from)

  /** How many bytes all of these begin with. */
  private def commonBytes(from: Int, until: Int, known: Int): Int = {
    val one = rows.of(references(from)).key(references(from).toInt)
    var common = one.length
    var i = from + 1
    while (i < until && common > known) {
      common = rows.of(references(i)).keyInCommon(references(i).toInt, one, known, common)
      i += 1
    }
    common
  }
}

private[keys] object KeyOrder {
  private val Few = 16

  /** @param references of which no two have one key */
  def sort(rows: RowsTable, references: Array[Long]): Unit = new KeyOrder(rows, references).sort(0, references.length, 0)
}
