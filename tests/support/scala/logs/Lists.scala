package org.apache.spark.sql.cecstore.testing

import java.nio.file.Paths
import java.util.UUID

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** The family `items` of a state log, list by list, by what its values say: a number and a text. */
private[cecstore] object Lists {
  private val Name = "items"
  private val keySchema = StructType(Seq(StructField("k", StringType)))
  private val valueSchema = StructType(Seq(StructField("n", LongType), StructField("text", StringType)))
  private val spec = NoPrefixKeyStateEncoderSpec(keySchema)
  private val Appended = 999L
  private type Value = Seq[Any]

  /** Versions 1 to `last` below `root`: what is in the lists, what their changes are, and the lists after an append to each. */
  def run(words: Arguments): Programs.Result = {
    val stores = new Stores(words.text("root"), words.text("provider"), words.settings)
    val versions = (1L to words.number("last", 1)).map { number =>
      Map("lists" -> lists(stores, number), "told" -> told(stores, number))
    }
    // The newest first: each makes its next version once more, and that one counts from then on.
    val again = versions.indices.reverse.map(at => appended(stores, at + 1L, versions(at)("lists")))
    Map("versions" -> versions, "appended" -> again.size)
  }

  /** What is said of lists that cannot be read. */
  def refused(words: Arguments): Programs.Result = {
    val stores = new Stores(words.text("root"), words.text("provider"), words.settings)
    val said = try { lists(stores, words.number("at", 1)); "" } catch { case NonFatal(e) => s"${e.getClass.getName}: ${e.getMessage}" }
    Map("said" -> said)
  }

  private def at[A](stores: Stores, number: Long)(work: (StateStoreProvider, StateStore) => A): A = {
    val provider = StateStoreProvider.createAndInit(
      StateStoreProviderId(StateStoreId(stores.root, 0, 0, StateStoreId.DEFAULT_STORE_NAME), UUID.randomUUID()),
      keySchema, valueSchema, spec, true, stores.conf, stores.hadoop, false, None)
    try Tasks.run {
      val store = Stores.open(provider, Version(number, None))
      store.createColFamilyIfAbsent(Name, keySchema, valueSchema, spec, true, false)
      work(provider, store)
    } finally provider.close()
  }

  private def key(text: String): UnsafeRow = UnsafeProjection.create(keySchema)(InternalRow(UTF8String.fromString(text)))
  private def value(row: UnsafeRow): Value = Seq(row.getLong(0), if (row.isNullAt(1)) null else row.getUTF8String(1).toString)

  /** Found by an iteration, and by the keys that it gave: both must say the same. */
  private def read(store: StateStore): Map[String, Seq[Value]] = {
    val pairs = store.iteratorWithMultiValues(Name).map(pair => pair.key.getUTF8String(0).toString -> value(pair.value)).toVector
    val found = pairs.groupMap(_._1)(_._2)
    found.foreach { case (name, all) => Check.equal(s"list $name by its key", store.valuesIterator(key(name), Name).map(value).toVector, all) }
    Check.equal("a list of no values", store.valuesIterator(key("none"), Name).toVector, Vector.empty)
    found
  }

  private def lists(stores: Stores, number: Long): Map[String, Seq[Value]] =
    at(stores, number) { (_, store) => try read(store) finally store.abort() }

  private def told(stores: Stores, number: Long): Seq[Any] = at(stores, number) { (provider, store) =>
    store.abort()
    val reader = provider.asInstanceOf[SupportsFineGrainedReplay].getStateStoreChangeDataReader(number, number, Some(Name), None)
    val changes = reader.map { case (kind, key, changed, batch) =>
      Check.equal("batch", batch, number - 1)
      Seq(kind.toString, key.getUTF8String(0).toString, if (changed == null) null else value(changed))
    }.toVector
    reader.closeIfNeeded()
    changes
  }

  /** One more value to each list, committed and loaded. */
  private def appended(stores: Stores, number: Long, before: Any): Unit = {
    val names = before.asInstanceOf[Map[String, Seq[Value]]]
    at(stores, number) { (_, store) =>
      val more = UnsafeProjection.create(valueSchema)
      names.keys.foreach(name => store.merge(key(name), more(InternalRow(Appended, null)).copy(), Name))
      store.commit()
    }
    Check.equal(s"after an append to version $number", lists(stores, number + 1), names.map { case (name, all) => name -> (all :+ Seq(Appended, null)) })
  }
}
