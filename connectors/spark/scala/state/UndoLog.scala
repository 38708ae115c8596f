package org.apache.spark.sql.cecstore.state

import java.util.Arrays

/** What each key of the version in progress had before, by the row that the key has in the version. */
private[cecstore] final class UndoLog {
  private var references = new Array[Long](16)

  def memoryBytes: Long = references.length * 8L
  def before(row: Int): Long = references(row)

  def note(row: Int, reference: Long): Unit = {
    if (row >= references.length) references = Arrays.copyOf(references, row * 2)
    references(row) = reference
  }
}
