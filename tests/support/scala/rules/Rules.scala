package org.apache.spark.sql.cecstore.testing

import java.nio.file.{Files, Path, Paths}
import java.util.concurrent.Executors

import scala.collection.immutable.{TreeMap, Vector}
import scala.util.{Failure, Success, Try}

import org.apache.spark.sql.execution.streaming.state._

/** One fact after the other about a provider, each in a folder of its own: `ok`, or what is wrong. */
object Rules {
  private val all: Seq[(String, Setting => Unit)] =
    Seq(Handles.rules, LoadingRules.rules, TransformRules.rules, UpkeepRules.rules, JointRules.rules, LocalRules.rules, IndexRules.rules, OrderRules.rules,
      DirectoryRules.rules).flatten

  def run(words: Arguments): Programs.Result = of(all, words)
  def ofReplicas(words: Arguments): Programs.Result = of(ReplicaRules.rules, words)

  private def of(rules: Seq[(String, Setting => Unit)], words: Arguments): Programs.Result = {
    val runs = for ((name, rule) <- rules; v2 <- Seq(false, true)) yield {
      val folder = Paths.get(words.text("root"), name, if (v2) "V2" else "V1")
      Files.createDirectories(folder)
      val said = try {
        rule(new Setting(folder, words, v2))
        "ok"
      } catch { case wrong: Throwable => s"$wrong ${wrong.getStackTrace.take(3).mkString(" ")}" }
      (name, s"${if (v2) "V2" else "V1"}: $said")
    }
    runs.groupMap(_._1)(_._2).map { case (name, said) =>
      name -> said.filterNot(_.endsWith(": ok")).mkString("; ")
    }
  }
}

/** What a rule works with: providers of one store, whose default family is `family`. */
final class Setting(val folder: Path, val words: Arguments, val v2: Boolean) {
  val family: Family = Family.kinds("plain")("default", false)

  def stores(settings: Map[String, String] = Map.empty, scheme: String = ""): Stores = new Stores(
    if (scheme.isEmpty) folder.toString else s"$scheme:$folder", words.text("provider"),
    words.settings ++ settings, v2 = v2)

  def provider(settings: (String, String)*): StateStoreProvider = stores(settings.toMap).provider(family)

  def put(store: StateStore, key: Int, value: Int): Unit =
    store.put(family.key(key), Values.row(value), "default")

  def remove(store: StateStore, key: Int): Unit = store.remove(family.key(key), "default")

  def commit(store: StateStore): Version = Stores.commit(store, v2)

  /** A version in which these keys have these values and all others are as before. */
  def version(provider: StateStoreProvider, base: Version, pairs: (Int, Int)*): Version = Tasks.run {
    val store = Stores.open(provider, base)
    pairs.foreach { case (key, value) => put(store, key, value) }
    commit(store)
  }

  /** What a provider that has nothing in memory finds. */
  def loaded(version: Version): Map[Int, Int] = {
    val fresh = provider()
    try Tasks.run(content(fresh.getReadStore(version.number, version.id))) finally fresh.close()
  }

  def content(store: ReadStateStore): Map[Int, Int] =
    StoreReader.content(store, family).map { case (key, values) => key -> values.head }

  def same(what: String, store: ReadStateStore, wanted: Map[Int, Int]): Unit = {
    Check.equal(s"$what, iterated", content(store), wanted)
    val model = Model(Map("default" -> TreeMap.from(wanted.map { case (key, value) => key -> Vector(value) })))
    (0 until family.size).foreach(StoreReader.sameKey(store, family, model, _))
  }
}

object Setting {
  /** The error of a call that has to fail. */
  def refused(call: => Any): Throwable = Try(call) match {
    case Failure(error) => error
    case Success(got) => throw new Wrong(s"not refused: $got")
  }

  def inThread[T](body: => T): T = {
    val threads = Executors.newSingleThreadExecutor()
    try threads.submit(() => body).get() catch {
      case failed: java.util.concurrent.ExecutionException => throw failed.getCause
    } finally threads.shutdown()
  }

  def causes(error: Throwable): List[Throwable] = List.unfold(error)(e => Option(e).map(e => e -> e.getCause))
}
