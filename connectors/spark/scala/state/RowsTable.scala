package org.apache.spark.sql.cecstore.state

import java.util.Arrays

import org.apache.spark.sql.cecstore.format.Rows

/** All rows of a state by their id. The oldest ones go first, so that an array does. */
private[cecstore] final class RowsTable {
  private var table = new Array[Rows](16)
  /** The id of table(0); 0 is not an id, so that no reference is [[KeyIndex.Absent]]. */
  private var firstId_ = 1

  def firstId: Int = firstId_
  def apply(id: Int): Rows = table(id - firstId_)
  def of(reference: Long): Rows = apply(Rows.idOf(reference))

  def put(rows: Rows): Unit = {
    while (rows.id - firstId_ >= table.length) table = Arrays.copyOf(table, table.length * 2)
    table(rows.id - firstId_) = rows
  }

  def dropBelow(id: Int): Unit = {
    Arrays.fill(table.asInstanceOf[Array[AnyRef]], 0, id - firstId_, null)
    if (id - firstId_ > table.length / 2) {
      table = Arrays.copyOfRange(table, id - firstId_, id - firstId_ + table.length)
      firstId_ = id
    }
  }

  /** How many frames of the log hold the rows `from` until `until`. */
  def frames(from: Int, until: Int): Long = {
    var sum = 0L
    var id = from
    while (id < until) { sum += apply(id).frames; id += 1 }
    sum
  }

  def memoryBytes: Long = table.filter(_ != null).map(_.memoryBytes).sum + table.length * 8L
}
