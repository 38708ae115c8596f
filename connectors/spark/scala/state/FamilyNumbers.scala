package org.apache.spark.sql.cecstore.state

import java.nio.charset.StandardCharsets.UTF_8
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.Format._
import org.apache.spark.sql.cecstore.keys.KeyIndex
import org.apache.spark.sql.execution.streaming.state.StateStore.DEFAULT_COL_FAMILY_NAME

/**
 * The numbers of a store's column families. All but the default one's are state: records of family 0, which under the
 * empty name hold the highest number that was given up. docs/format.md §9.
 */
private[cecstore] final class FamilyNumbers(view: StateView) {
  import FamilyNumbers._

  private def state: LiveState = view.state

  /** How many records of the state are not keys of an operator or of a user's variables: names, chunks, Spark's own indexes. */
  def records(isInternal: String => Boolean): Long = state.keyCount(NamesFamily) +
    recorded.collect { case (name, number) if name.startsWith(OfChunks) || isInternal(name) => state.keyCount(number).toLong }.sum
  def names: Set[String] = all.keySet.filterNot(_.startsWith(OfChunks))

  /** Where chunks of a family's lists are: see [[ListChunks]]. */
  def chunksOf(name: String): ListChunks.Family = new ListChunks.Family {
    private var known = Option.empty[Int]
    override def number: Option[Int] = {
      if (known.isEmpty) known = numberOf(OfChunks + name)
      known
    }
    override def orNew(): Int = {
      if (number.isEmpty) add(OfChunks + name)
      number.get
    }
  }

  def numberOf(name: String): Option[Int] = if (name == DEFAULT_COL_FAMILY_NAME) Some(DefaultFamily) else {
    val key = name.getBytes(UTF_8)
    Some(view.find(NamesFamily, key, 0, key.length)).filter(_ != KeyIndex.Absent).map(decoded)
  }

  /** The family gets a number above all that were ever given: a change feed tells families of all times apart by it. */
  def add(name: String): Unit = {
    val number = math.max(all.values.max, givenUp) + 1
    if (number > NumberMax) throw new CecLogException(
      s"column family '$name' would be number $number: a state store can have $NumberMax in all, removed ones included. Begin a new checkpoint",
      named = Map("family" -> name))
    set(name, number)
  }

  /** Its chunks have a number of their own, which goes with it. */
  def remove(name: String): Unit = Seq(name, OfChunks + name).foreach(removeOne)

  private def removeOne(name: String): Unit = numberOf(name).foreach { number =>
    if (number > givenUp) set(GivenUp, number)
    val key = name.getBytes(UTF_8)
    state.remove(NamesFamily, key, 0, key.length)
  }

  private def set(name: String, number: Int): Unit = {
    val key = name.getBytes(UTF_8)
    state.put(NamesFamily, key, 0, key.length, Array(number.toByte, (number >> 8).toByte), 0, 2)
  }

  private def givenUp: Int = recorded.getOrElse(GivenUp, DefaultFamily)
  private def all: Map[String, Int] = recorded - GivenUp + (DEFAULT_COL_FAMILY_NAME -> DefaultFamily)

  private def recorded: Map[String, Int] = view.live(NamesFamily, _.references).map { reference =>
    val (rows, row) = (state.rowsOf(reference), reference.toInt)
    new String(rows.key(row), UTF_8) -> decoded(reference)
  }.toMap

  private def decoded(reference: Long): Int =
    littleEndian(state.rowsOf(reference).value(reference.toInt)).getShort & 0xffff
}

private[cecstore] object FamilyNumbers {
  /** No family has this name. */
  private val GivenUp = ""
  private val NumberMax = 0xffff
  /** Spark trims the names of families: none begins so. */
  val OfChunks = "\u0000"
}
