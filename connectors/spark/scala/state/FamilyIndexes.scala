package org.apache.spark.sql.cecstore.state

import java.util.Arrays
import org.apache.spark.sql.cecstore.format.Format

/**
 * The index of each column family, made when it is first asked for.
 *
 * @param isOrdered whether a column family needs its keys in order
 * @param keysHint how many keys the default family may get
 */
private[state] final class FamilyIndexes(rows: RowsTable, isOrdered: Int => Boolean, keysHint: Int) {
  private var indexes = new Array[KeyIndex](2)

  def size(family: Int): Int = if (family < indexes.length && indexes(family) != null) indexes(family).size else 0
  def memoryBytes: Long = indexes.filter(_ != null).map(_.memoryBytes).sum

  def apply(family: Int): KeyIndex = {
    if (family >= indexes.length) indexes = Arrays.copyOf(indexes, family + 1)
    if (indexes(family) == null) {
      indexes(family) = if (isOrdered(family)) new OrderedIndex
        else new HashIndex(rows, if (family == Format.DefaultFamily) keysHint else 0)
    }
    indexes(family)
  }

  /** Keep this family's keys in order from now on. */
  def order(family: Int): OrderedIndex = apply(family) match {
    case ordered: OrderedIndex => ordered
    case hashed =>
      val ordered = new OrderedIndex
      hashed.references.foreach { reference =>
        val (in, row) = (rows.of(reference), reference.toInt)
        ordered.swap(in.keys, in.keyStart(row), in.keyLength(row), reference)
      }
      indexes(family) = ordered
      ordered
  }
}
