package org.apache.spark.sql.cecstore.testing

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.execution.streaming.state._

/** What a store says to calls that are wrong: asked of Spark's own provider and of ours. */
object Misuse {
  private val plain = Family.kinds("plain")("default", false)
  private val lists = Family.kinds("plain")("lists", true)
  private val prefixed = Family.kinds("prefixed")("prefixed", false)

  private val calls: Seq[(String, StateStore => Any)] = Seq(
    "put a null key" -> (_.put(null, Values.row(1), "default")),
    "put a null value" -> (_.put(plain.key(1), null, "default")),
    "get a null key" -> (_.get(null, "default")),
    "remove a null key" -> (_.remove(null, "default")),
    "merge a null value" -> (_.merge(lists.key(1), null, "lists")),
    "merge into single values" -> (_.merge(plain.key(1), Values.row(1), "default")),
    "mergeList into single values" -> (_.mergeList(plain.key(1), Array(Values.row(1)), "default")),
    "putList into single values" -> (_.putList(plain.key(1), Array(Values.row(1)), "default")),
    "putList of nothing" -> (_.putList(lists.key(1), Array(), "lists")),
    "mergeList of nothing" -> (_.mergeList(lists.key(1), Array(), "lists")),
    "values of single values" -> (_.valuesIterator(plain.key(1), "default")),
    "prefix scan without a prefix" -> (_.prefixScan(plain.key(1), "default")),
    "range scan without an order" -> (_.rangeScan(None, None, "default")),
    "range scan of prefixes" -> (_.rangeScan(None, None, "prefixed")),
    "delete a range without an order" ->
      (_.deleteRange(plain.key(1), plain.key(2), "default")),
    "put into no family" -> (_.put(plain.key(1), Values.row(1), "nowhere")),
    "get from no family" -> (_.get(plain.key(1), "nowhere")),
    "iterate no family" -> (_.iterator("nowhere")),
    "remove no family" -> (_.removeColFamilyIfExists("nowhere")),
    "remove the default family" -> (_.removeColFamilyIfExists("default")),
    "create the default family" -> (create(_, "default")),
    "create a family without a name" -> (create(_, "")),
    "create a family of blanks" -> (create(_, "  ")),
    "create a reserved family" -> (create(_, "_mine")),
    "create a family twice" -> (create(_, "lists", multi = true)))

  private def create(store: StateStore, name: String, multi: Boolean = false): Unit =
    store.createColFamilyIfAbsent(name, plain.keySchema, Values.schema, plain.spec, multi, false)

  private val later: Seq[(String, StateStore => Any)] = Seq(
    "put" -> (_.put(plain.key(1), Values.row(1), "default")),
    "get" -> (_.get(plain.key(1), "default")),
    "remove" -> (_.remove(plain.key(1), "default")),
    "iterate" -> (_.iterator("default").toVector),
    "commit" -> (_.commit()),
    "abort" -> (_.abort()),
    "metrics" -> (_.metrics))

  /** `ok`, or how it was refused: by Spark's name for the error where it has one. */
  private def outcome(call: => Any): String =
    try {
      call
      "ok"
    } catch {
      case named: SparkThrowable if named.getCondition != null => named.getCondition
      case other: Throwable => other.getClass.getSimpleName
    }

  def run(words: Arguments): Programs.Result = {
    val stores = new Stores(
      words.text("root"), words.text("provider"), words.settings, v2 = words.flag("v2"))
    val provider = stores.provider(plain, families = true)
    def fresh(): StateStore = {
      val store = Stores.open(provider, Stores.Start)
      create(store, "lists", multi = true)
      store.createColFamilyIfAbsent(
        "prefixed", prefixed.keySchema, Values.schema, prefixed.spec, false, false)
      store
    }
    val open = for ((name, call) <- calls) yield {
      val store = fresh()
      val said = outcome(call(store))
      store.abort()
      name -> said
    }
    val done = for ((name, call) <- later; end <- Seq("commit", "abort")) yield {
      val store = fresh()
      if (end == "commit") store.commit() else store.abort()
      s"$name after $end" -> outcome(call(store))
    }
    val missing = Seq(
      "load a version that is not there" -> outcome(Stores.open(provider, Version(99, None))),
      "load a version below zero" -> outcome(Stores.open(provider, Version(-1, None))))
    (open ++ done ++ missing).toMap
  }
}
