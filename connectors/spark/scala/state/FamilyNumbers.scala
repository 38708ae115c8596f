package org.apache.spark.sql.cecstore.state

import java.nio.charset.StandardCharsets.UTF_8
import org.apache.spark.sql.cecstore.format.Format._
import org.apache.spark.sql.execution.streaming.state.StateStore.DEFAULT_COL_FAMILY_NAME

/** The numbers of a store's column families. All but the default one's are state: records of family 0. docs/format.md §9. */
private[cecstore] final class FamilyNumbers(view: StateView) {
  private def state: LiveState = view.state

  /** How many records of the state are such numbers. */
  def records: Int = state.keyCount(NamesFamily)
  def names: Set[String] = all.keySet

  def numberOf(name: String): Option[Int] = if (name == DEFAULT_COL_FAMILY_NAME) Some(DefaultFamily) else {
    val key = name.getBytes(UTF_8)
    Some(view.find(NamesFamily, key, 0, key.length)).filter(_ != KeyIndex.Absent).map(decoded)
  }

  /** The family gets the number above all others. */
  def add(name: String): Unit = {
    val number = all.values.max + 1
    val key = name.getBytes(UTF_8)
    state.put(NamesFamily, key, 0, key.length, Array(number.toByte, (number >> 8).toByte), 0, 2)
  }

  def remove(name: String): Unit = {
    val key = name.getBytes(UTF_8)
    state.remove(NamesFamily, key, 0, key.length)
  }

  private def all: Map[String, Int] = view.live(NamesFamily, _.references).map { reference =>
    val (rows, row) = (state.rowsOf(reference), reference.toInt)
    new String(rows.key(row), UTF_8) -> decoded(reference)
  }.toMap + (DEFAULT_COL_FAMILY_NAME -> DefaultFamily)

  private def decoded(reference: Long): Int =
    littleEndian(state.rowsOf(reference).value(reference.toInt)).getShort & 0xffff
}
