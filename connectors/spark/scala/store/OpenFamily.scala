package org.apache.spark.sql.cecstore.store

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.cecstore.state.{ListChunks, StateView}

/** A column family as one open store uses it, with a codec and a row for values of its own. */
private[store] final class OpenFamily(view: StateView, val number: Int, val codec: FamilyCodec, chunks: ListChunks.Family, where: String) {
  val valueRow: UnsafeRow = codec.newValueRow
  val lists = new ListChunks(view, number, chunks, where)

  /** The reference of the key's row, or [[KeyIndex.Absent]]. */
  def find(key: UnsafeRow): Long = {
    val bytes = codec.keyOf(key)
    view.find(number, bytes.array, 0, bytes.length)
  }

  /** The value of a row; where there are several, the first. */
  def value(reference: Long, into: UnsafeRow): UnsafeRow =
    if (codec.isMultiple) codec.decodeFirst(lists.first(reference))
    else codec.decodeValue(view.state.rowsOf(reference), reference.toInt, into)

  def values(reference: Long): Iterator[UnsafeRow] = lists.pieces(reference).flatMap(codec.decodeValues)

  def put(key: UnsafeRow, value: UnsafeRow): Unit = {
    val place = codec.keyOf(key)
    if (codec.isMultiple) lists.replace(place.array, place.length, codec.encoded(value))
    else {
      val bytes = codec.valueOf(value)
      view.state.put(number, place.array, 0, place.length, bytes.array, 0, bytes.length)
    }
  }

  def putAll(key: UnsafeRow, values: Array[UnsafeRow], keep: Boolean): Unit = {
    val (place, encoded) = (codec.keyOf(key), ListChunks.joined(values.toSeq.map(codec.encoded)))
    if (keep) lists.append(place.array, place.length, encoded) else lists.replace(place.array, place.length, encoded)
  }

  def remove(key: UnsafeRow): Unit = { val place = codec.keyOf(key); remove(place.array, place.length) }

  /** Remove what a reference of this family stands for. */
  def remove(reference: Long): Unit = {
    val key = view.state.rowsOf(reference).key(reference.toInt)
    remove(key, key.length)
  }

  private def remove(key: Array[Byte], length: Int): Unit =
    if (codec.isMultiple) lists.remove(key, length) else view.state.remove(number, key, 0, length)

  def requireMultiple(operation: String): Unit =
    require(codec.isMultiple, s"$operation requires a column family that allows multiple values per key")
}
