package org.apache.spark.sql.cecstore.state

import java.util.Arrays

/** What a version changed in the indexes: of each key touched, a row of it in the version, and its reference before. */
private[cecstore] final class UndoLog {
  private var rows = new Array[Int](16)
  private var references = new Array[Long](16)
  private var count = 0

  def memoryBytes: Long = rows.length * 12L
  def clear(): Unit = count = 0

  def note(row: Int, reference: Long): Unit = {
    if (count == rows.length) {
      rows = Arrays.copyOf(rows, count * 2)
      references = Arrays.copyOf(references, count * 2)
    }
    rows(count) = row
    references(count) = reference
    count += 1
  }

  /** Take back what was noted, the last change first. */
  def rollback(restore: (Int, Long) => Unit): Unit = {
    while (count > 0) {
      count -= 1
      restore(rows(count), references(count))
    }
  }

  /** The version's rows have got other numbers; below 0 stands for a key that the version no longer has. */
  def renumber(numberNow: Int => Int): Unit = {
    val noted = count
    count = 0
    (0 until noted).foreach { i =>
      val row = numberNow(rows(i))
      if (row >= 0) note(row, references(i))
    }
  }
}
