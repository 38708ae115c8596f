package org.apache.spark.sql.cecstore.testing

import java.nio.file.{Files, Paths}
import java.util.UUID

import scala.util.Try

import org.apache.spark.sql.cecstore.log.LocalFolder
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types._

/** What a provider tells of changes, what it says to rows of another schema, and which folders it makes. */
private[cecstore] object Feed {
  private type Told = Seq[Any]

  def run(words: Arguments): Programs.Result = Map(
    "families" -> families(new Stores(s"${words.text("root")}/families", words.text("provider"), words.settings)),
    "lists" -> lists(new Stores(s"${words.text("root")}/lists", words.text("provider"), words.settings)),
    "refusals" -> refusals(new Stores(s"${words.text("root")}/rows", words.text("provider"), words.settings)),
    "folders" -> folders(words.text("root")))

  private def version(provider: StateStoreProvider, number: Long)(work: StateStore => Unit): Unit = Tasks.run {
    val store = Stores.open(provider, Version(number, None))
    work(store)
    store.commit()
  }

  private def create(store: StateStore, family: Family): Unit =
    store.createColFamilyIfAbsent(family.name, family.keySchema, Values.schema, family.spec, family.multi, false)

  private def changes(provider: StateStoreProvider, last: Long, family: Family): Seq[Told] = {
    val reader = provider.asInstanceOf[SupportsFineGrainedReplay].getStateStoreChangeDataReader(1, last, Some(family.name), None)
    val told = reader.map { case (kind, key, value, batch) =>
      Seq(kind.toString, family.place(key), if (value == null) -1 else Values.place(value), batch)
    }.toVector
    reader.closeIfNeeded()
    told
  }

  /** One family goes and another comes: what is told of the second. */
  private def families(stores: Stores): Seq[Told] = {
    val (default, gone, come) =
      (Family.kinds("plain")("default", false), Family.kinds("plain")("gone", false), Family.kinds("plain")("come", false))
    val provider = stores.provider(default, families = true)
    version(provider, 0) { store => create(store, gone); store.put(gone.key(1), Values.row(1), "gone") }
    version(provider, 1)(_.removeColFamilyIfExists("gone"))
    version(provider, 2) { store => create(store, come); store.put(come.key(2), Values.row(2), "come") }
    try changes(provider, 3, come) finally provider.close()
  }

  private def lists(stores: Stores): Seq[Told] = {
    val family = Family.kinds("plain")("default", true)
    val provider = stores.provider(family)
    version(provider, 0)(_.putList(family.key(1), Array(3, 4).map(Values.row(_).copy()), "default"))
    version(provider, 1) { store => store.merge(family.key(1), Values.row(5), "default"); store.put(family.key(2), Values.row(6), "default") }
    version(provider, 2)(_.remove(family.key(1), "default"))
    try changes(provider, 3, family) finally provider.close()
  }

  /** Rows of two columns, read as rows of one text. */
  private def refusals(stores: Stores): Map[String, Boolean] = {
    val family = Family.kinds("prefixed")("default", false)
    val writer = stores.provider(family)
    version(writer, 0)(_.put(family.key(1), Values.row(1), "default"))
    writer.close()
    val calls: Seq[(String, StateStore => Any)] = Seq(
      "get" -> (_.get(family.key(1), "default")),
      "iterator" -> (_.iterator("default").toVector),
      "prefixScan" -> (_.prefixScan(family.prefix(1), "default").toVector))
    calls.map { case (name, call) =>
      val reader = StateStoreProvider.createAndInit(
        StateStoreProviderId(StateStoreId(stores.root, 0, 0), UUID.randomUUID()), family.keySchema,
        StructType(Seq(StructField("s", StringType))), family.spec, false, stores.conf, stores.hadoop, false, None)
      val said = Tasks.run(Try(call(Stores.open(reader, Version(1, None)))))
      reader.close()
      name -> said.isFailure
    }.toMap
  }

  private def folders(root: String): Seq[String] = {
    val there = Files.createDirectories(Paths.get(root, "folders"))
    val made = LocalFolder.made(there.resolve("state/0/0/left"))
    Check.that("the folder is there", Files.isDirectory(there.resolve("state/0/0/left")))
    made.map(path => there.relativize(path).toString)
  }
}
