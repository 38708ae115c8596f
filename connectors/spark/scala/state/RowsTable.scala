package org.apache.spark.sql.cecstore.state

import java.util.Arrays
import org.apache.spark.sql.cecstore.format.Rows

/** All rows of a state by their id. The oldest are dropped first: an array that begins at some id holds them. */
private[cecstore] final class RowsTable {
  private var table = new Array[Rows](16)
  /** The id of table(0); 0 is not an id, so that no reference is [[KeyIndex.Absent]]. */
  private[state] var firstId = 1

  def apply(id: Int): Rows = table(id - firstId)
  def of(reference: Long): Rows = apply((reference >>> 32).toInt)

  def put(rows: Rows): Unit = {
    while (rows.id - firstId >= table.length) table = Arrays.copyOf(table, table.length * 2)
    table(rows.id - firstId) = rows
  }

  def dropBelow(id: Int): Unit = {
    Arrays.fill(table.asInstanceOf[Array[AnyRef]], 0, id - firstId, null)
    if (id - firstId > table.length / 2) {
      table = Arrays.copyOfRange(table, id - firstId, id - firstId + table.length)
      firstId = id
    }
  }

  def memoryBytes: Long = table.filter(_ != null).map(_.memoryBytes).sum + table.length * 8L
}
