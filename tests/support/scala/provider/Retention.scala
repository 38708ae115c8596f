package org.apache.spark.sql.cecstore.testing

import java.util.concurrent._

import scala.collection.concurrent.TrieMap
import scala.util.Random

import org.apache.hadoop.fs.Path
import org.apache.spark.SparkException
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.execution.streaming.state._

/** Maintenance forgets and merges beside commits and loads: what is kept loads, what is not vanishes. */
object Retention {
  def run(words: Arguments): Programs.Result = {
    val runs = Seeded.run(words, until = 4)(new RetentionRun(words, _))
    Map(
      "commits" -> runs.map(_.commits).sum,
      "restarts" -> runs.map(_.restarts).sum,
      "loads" -> runs.map(_.loads.sum).sum,
      "refused" -> runs.map(_.refused).sum,
      "made" -> runs.map(_.made.size).sum,
      "left" -> runs.map(_.left).sum) ++ NarrowFiles.counts
  }
}

final class RetentionRun(words: Arguments, seed: Long) extends Seeded {
  private val random = new Random(seed)
  private val v2 = seed % 2 == 1
  private val kept = 1 + random.nextInt(4)
  private val family = Family.kinds("plain")("default", false)
  private val root = Stores.root(words, seed)
  private val stores = new Stores(root, words.text("provider"), words.settings ++ Map(
    "spark.sql.streaming.minBatchesToRetain" -> kept.toString,
    "spark.sql.streaming.stateStore.minDeltasForSnapshot" -> "3",
    "spark.sql.streaming.stateStore.cec.syncMode" -> "none"), v2 = v2)
  private val threads = Executors.newCachedThreadPool { body =>
    val thread = new Thread(body)
    thread.setDaemon(true)
    thread
  }
  private var provider = stores.provider(family)
  private val models = TrieMap(0L -> (Stores.Start, Model.Empty))
  /** The newest version that may be in the log, and the newest that the test knows to be. */
  @volatile private var begun = 0L
  @volatile private var head = 0L
  @volatile private var done = false

  var (commits, restarts, refused, left) = (0, 0, 0, 0)
  val loads = Array(0, 0, 0)
  var made = Set.empty[String]
  var where = "start"

  def all(): Unit = {
    val readers = (0 until 2).map(n => threads.submit[Unit](() => readOn(n, new Random(seed * 2 + n))))
    var busy = Option.empty[Future[Unit]]
    try while (head < words.number("batches", 150)) {
      where = s"version $head of those to keep $kept"
      if (random.nextInt(5) == 0) restart()
      batch()
      made ++= segments
      if (random.nextBoolean() && busy.forall(_.isDone)) {
        busy.foreach(_.get())
        val maintained = provider
        busy = Some(threads.submit[Unit](() => maintained.doMaintenance()))
      }
      if (readers.exists(_.isDone)) readers.filter(_.isDone).foreach(_.get())
    } finally done = true
    (readers ++ busy).foreach(_.get())
    provider.doMaintenance()
    left = segments.size
    for (version <- 1L to head) loaded(version, 2)
    provider.close()
    threads.shutdown()
  }

  private def restart(): Unit = {
    provider.close()
    provider = stores.provider(family)
    restarts += 1
  }

  private def segments: Set[String] = {
    val folder = new java.io.File(new Path(root).toUri.getPath, "0/0")
    Option(folder.list()).toSet.flatMap((names: Array[String]) => names.toSet).filter(_.endsWith(".seg"))
  }

  private def batch(): Unit = {
    val (base, model) = models(head)
    val (version, now) = Tasks.run {
      val store = Stores.open(provider, base)
      StoreReader.same("just opened", store, family, model)
      val steps = new Steps(random, store, model)
      for (_ <- 0 until random.nextInt(6)) steps.take(family)
      begun = head + 1
      Stores.commit(store, v2) -> steps.result
    }
    models.put(version.number, version -> now)
    head = version.number
    commits += 1
  }

  private def readOn(reader: Int, random: Random): Unit =
    while (!done) loaded(math.max(0, head - random.nextInt(kept + 3)), reader)

  /** Right, or no longer kept and said to be. */
  private def loaded(version: Long, reader: Int): Unit = {
    val (name, model) = models(version)
    loads(reader) += 1
    val fresh = stores.provider(family)
    try Tasks.run {
      StoreReader.same(s"$name", fresh.getReadStore(name.number, name.id), family, model)
    } catch {
      case e: SparkException if e.getCause.isInstanceOf[CecLogException] =>
        Check.that(s"version $version is kept of $begun, and refused: $e", version < begun - kept)
        val oldest = "versions from (\\d+) on have".r.findFirstMatchIn(e.getCause.getMessage).map(_.group(1).toLong)
        // A merged copy may still be whole where the segment that the version is named by is not.
        val isMerged = root.startsWith("objects")
        Check.that(s"version $version: no word of the oldest: ${e.getCause.getMessage}", isMerged || oldest.exists(_ > version))
        if (done && !isMerged) Check.that(s"version $version: another is the oldest: ${e.getCause.getMessage}", oldest.exists(_ <= head - kept))
        refused += 1
    } finally fresh.close()
  }
}
