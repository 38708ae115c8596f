package org.apache.spark.sql.cecstore.store

import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.cecstore.keys.KeyIndex
import org.apache.spark.sql.cecstore.state.LiveState
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.collection.OpenHashSet

/**
 * References of a join side's counts whose keys have rows that are due. Spark removes all due rows of a key before it asks for the next,
 * but writes what it counts of that key afterwards: so no key follows itself, though a row that Spark leaves (its
 * time is null) may bring it again later, once: what was counted of a key and has not changed is not given twice.
 *
 * @param due references of rows, of the state and the schema of keys that follow
 * @param all those of all counts: for a row whose key is not counted, which Spark never writes, nothing is left out
 */
private[store] final class DueKeys(due: Iterator[Long], rows: LiveState, rowKeys: StructType, rowCodec: FamilyCodec,
    counts: OpenFamily, countsAt: LiveState, all: () => Iterator[Long]) extends Iterator[Long] {
  import KeyIndex.Absent

  /** A row's key without its number. */
  private lazy val joinKey = UnsafeProjection.create(rowKeys.init.zipWithIndex.map { case (field, i) => BoundReference(i, field.dataType, field.nullable) })
  private val (rowKey, countKey) = (rowCodec.newKeyRow, counts.codec.newKeyRow)
  private var last: UnsafeRow = null
  private var rest: Iterator[Long] = null
  private var found = Absent
  private val given = new OpenHashSet[Long]

  override def hasNext: Boolean = {
    while (found == Absent && (if (rest == null) due else rest).hasNext) advance()
    found != Absent
  }

  override def next(): Long = {
    if (!hasNext) throw new NoSuchElementException("the end of a scan")
    val reference = found
    found = Absent
    reference
  }

  private def advance(): Unit = if (rest == null) {
    val reference = due.next()
    val key = joinKey(rowCodec.decodeKey(rows.rowsOf(reference), reference.toInt, rowKey))
    if (key != last) {
      val counted = counts.find(key)
      if (counted == Absent) rest = all()
      else if (!given.contains(counted)) {
        given.add(counted)
        found = counted
        last = key.copy()
      }
    }
  } else {
    val reference = rest.next()
    if (counts.codec.decodeKey(countsAt.rowsOf(reference), reference.toInt, countKey) != last) found = reference
  }
}
