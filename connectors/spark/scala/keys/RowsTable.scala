package org.apache.spark.sql.cecstore.keys

import java.util.Arrays
import org.apache.spark.sql.cecstore.format.Rows

/**
 * All rows of a state by their id. The oldest are dropped first: an array that begins at some id holds them. A load
 * puts in the newest first and goes back from [[RowsTable.NewestLoadedId]].
 */
private[cecstore] final class RowsTable {
  private var table = new Array[Rows](16)
  /** The id of table(0); 0 is not an id, so that no reference is [[KeyIndex.Absent]]. */
  private var base = 1
  /** The oldest id that was put and not dropped; above all ids while there is none. */
  private var oldest = Int.MaxValue

  def isEmpty: Boolean = oldest == Int.MaxValue
  def firstId: Int = oldest
  /** The newest id, and the most rows that one id has. */
  def span: (Int, Int) = {
    var (newest, most) = (0, 0)
    table.foreach(rows => if (rows != null) { newest = math.max(newest, rows.id); most = math.max(most, rows.count) })
    (newest, most)
  }
  def apply(id: Int): Rows = table(id - base)
  def of(reference: Long): Rows = apply((reference >>> 32).toInt)

  def haveOneKey(a: Long, b: Long): Boolean = {
    val (in, row) = (of(a), a.toInt)
    of(b).hasKey(b.toInt, in.keyArray(row), in.keyFrom(row), in.keyLength(row))
  }

  /** How the key of a row stands to this one in the order of bytes without sign: below 0, 0 or above. */
  def compare(reference: Long, key: Array[Byte], from: Int, length: Int): Int = of(reference).compareKey(reference.toInt, key, from, length)

  def compareKeys(a: Long, b: Long): Int = {
    val (in, row) = (of(b), b.toInt)
    compare(a, in.keyArray(row), in.keyFrom(row), in.keyLength(row))
  }

  def put(rows: Rows): Unit = {
    if (isEmpty) base = math.max(1, rows.id - table.length + 1)
    if (rows.id < base) {
      val more = math.min(table.length, base - 1)
      val longer = new Array[Rows](table.length + more)
      System.arraycopy(table, 0, longer, more, table.length)
      table = longer
      base -= more
    }
    while (rows.id - base >= table.length) table = Arrays.copyOf(table, table.length * 2)
    letGo(rows.id)
    table(rows.id - base) = rows
    oldest = math.min(oldest, rows.id)
  }

  private def letGo(id: Int): Unit = if (table(id - base) != null) table(id - base).letGo()

  def dropBelow(id: Int): Unit = if (id > oldest) {
    (oldest until id).foreach(letGo)
    Arrays.fill(table.asInstanceOf[Array[AnyRef]], oldest - base, id - base, null)
    oldest = id
    if (id - base > table.length / 2) {
      table = Arrays.copyOfRange(table, id - base, id - base + table.length)
      base = id
    }
  }

  /** Those of a version that was given up. */
  def dropFrom(id: Int): Unit = if (id - base < table.length) {
    (id until base + table.length).foreach(letGo)
    Arrays.fill(table.asInstanceOf[Array[AnyRef]], id - base, table.length, null)
  }

  /** Nobody reads any of them any more. */
  def letGo(): Unit = table.foreach(rows => if (rows != null) rows.letGo())

  def localBytes: Long = table.iterator.filter(_ != null).map(_.localBytes).sum

  /** Bytes in the heap. */
  def memoryBytes: Long = table.filter(_ != null).map(_.memoryBytes).sum + table.length * 8L
}

private[cecstore] object RowsTable {
  /** Room for a thousand million frames on either side. */
  val NewestLoadedId: Int = 1 << 30
}
