package org.apache.spark.sql.cecstore.testing

import java.io.IOException

import scala.collection.mutable
import scala.util.Random

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.cecstore.keys.KeyRun
import org.apache.spark.sql.cecstore.log.{DerivedFiles, SegmentFolder, SegmentInput, SegmentOutput}
import org.apache.spark.sql.cecstore.replicas._
import org.apache.spark.sql.cecstore.state.{Instance, KeyDirectories}
import org.apache.spark.sql.execution.streaming.state._

/**
 * Executors that follow each other's stores, in one process, against a plain model: whatever happens, whoever opens a
 * version finds what it holds. Commits, moves, attempts at a version that are given up, batches that the query takes
 * back, stale orders, reads that fail, maintenance, evictions; V1 and V2.
 */
object ReplicaWalk {
  private val BodyBytes = 200

  def run(words: Arguments): Programs.Result = {
    Instance.bodyBytes = BodyBytes // a version of a few rows has several frames
    if (words.flag("directories")) { KeyDirectories.keysMin = 3; KeyRun.keysMin = 3; KeyDirectories.fills = false }
    val (used, refused) = (KeyDirectories.used.get, KeyDirectories.refused.get)
    val runs = Seeded.run(words, until = 8)(new ReplicaWalk(words, _))
    def sum(figure: ReplicaWalk => Int): Int = runs.map(figure).sum
    Map("commits" -> sum(_.commits), "hits" -> sum(_.hits), "loads" -> sum(_.loads), "retries" -> sum(_.retries),
      "hitsAfterRetries" -> sum(_.hitsAfterRetries), "goneBack" -> sum(_.goneBack), "misled" -> sum(_.misled),
      "failedReads" -> sum(_.failedReads), "evictions" -> sum(_.evictions),
      "byDirectory" -> (KeyDirectories.used.get - used), "refused" -> (KeyDirectories.refused.get - refused))
  }
}

private[cecstore] final class ReplicaWalk(words: Arguments, seed: Long) extends Seeded {
  private val random = new Random(seed)
  private val v2 = seed % 2 == 1
  /** There are key directories; stores whose keys are in order have none. */
  private val described = words.flag("directories")
  private val family = Family.kinds(if (described) "plain" else Seq("plain", "prefixed", "ranged")((seed / 2 % 3).toInt))("default", false)
  private val stores = new Stores(Stores.root(words, seed), words.text("provider"), words.settings ++ Map(
    "spark.sql.streaming.minBatchesToRetain" -> "6", "spark.sql.streaming.stateStore.minDeltasForSnapshot" -> "3",
    "spark.sql.streaming.stateStore.cec.syncMode" -> "none"), v2 = v2)
  private val key = StoreKey(StateStoreId(stores.root, 0, 0))
  /** Of the second: no room for two versions of the state. */
  private val hosts = Vector(Long.MaxValue, if (seed % 5 == 4) 3000L else Long.MaxValue, Long.MaxValue).map(new ReplicaHost(_, (_, conf) =>
    new FailingReads(SegmentFolder.ofFollower(new Path(stores.root + "/0/0"), conf.getOrElse(stores.hadoop)), () => isFailing)))
  private val providers = mutable.Map.empty[Int, StateStoreProvider]
  private val models = mutable.Map(0L -> (Stores.Start, Model.Empty))
  /** Ends of versions that were told, those of attempts and batches that do not count any more included. */
  private val heads = mutable.ArrayBuffer.empty[Head]
  private var head = 0L
  private var owner = 0
  private var isRetried = false

  var (commits, hits, loads, retries, hitsAfterRetries, goneBack, misled, failedReads, evictions) = (0, 0, 0, 0, 0, 0, 0, 0, 0)
  var where = "start"

  private def isFailing: Boolean = {
    val fails = failing && random.nextInt(4) == 0
    if (fails) failedReads += 1
    fails
  }
  private var failing = false

  def all(): Unit = {
    for (step <- 0 until words.number("steps", 60).toInt) {
      where = s"step $step, version $head, owner $owner"
      random.nextInt(12) match {
        case 0 | 1 | 2 | 3 => commit(owner)
        case 4 | 5 => owner = random.nextInt(hosts.size); commit(owner)
        case 6 => retry()
        case 7 if random.nextInt(3) == 0 => goBack()
        case 8 => providers.get(owner).foreach(_.doMaintenance())
        case 11 if described => providers.get(owner).foreach(_.doMaintenance())
        case 9 => close(random.nextInt(hosts.size))
        case 10 => mislead(random.nextInt(hosts.size))
        case _ => ()
      }
      hosts.indices.filter(_ => random.nextInt(3) > 0).foreach(follow(_, heads.lastOption))
    }
    providers.keys.toSeq.foreach(close)
  }

  private def provider(executor: Int): StateStoreProvider = providers.getOrElseUpdate(executor, {
    ReplicaHost.ofProcess = Some(hosts(executor))
    try stores.provider(family) finally ReplicaHost.ofProcess = None
  })

  private def close(executor: Int): Unit = providers.remove(executor).foreach(_.close())

  /** As the next batch, or another attempt at the one before: on the version `base`. */
  private def commit(executor: Int, base: Long = head): Unit = {
    val (version, model) = models(base)
    val before = figures(executor)
    Tasks.run {
      val store = Stores.open(provider(executor), version)
      StoreReader.same(s"version $base opened on $executor", store, family, model)
      StoreReader.sameKey(store, family, model, random.nextInt(family.size))
      val steps = new Steps(random, store, model)
      for (_ <- 0 until random.nextInt(8)) steps.take(family)
      models.put(base + 1, Stores.commit(store, v2) -> steps.result)
    }
    commits += 1
    head = base + 1
    val after = figures(executor)
    if (after != before && after.exists(_.version == base)) {
      if (after.exists(_.isFromReplica)) { hits += 1; if (isRetried) hitsAfterRetries += 1 } else loads += 1
    }
    isRetried = false
    reported(executor).flatMap(_.head).foreach(heads += _)
  }

  private def reported(executor: Int): Option[Report.Owned] = hosts(executor).report("e", "h", 0).owned.find(_.key == key)
  private def figures(executor: Int): Option[LoadFigures] = reported(executor).flatMap(_.load)

  /** A batch fails after its commit, and is tried again elsewhere: replicas may be a version ahead. */
  private def retry(): Unit = if (head > 0) {
    retries += 1
    isRetried = true
    owner = random.nextInt(hosts.size)
    commit(owner, head - 1)
  }

  /** The query begins again with an older batch; what was committed after it counts no more. */
  private def goBack(): Unit = if (head > 3) {
    goneBack += 1
    providers.keys.toSeq.foreach(close)
    commit(owner, head - 1 - random.nextInt(3))
    models.filterInPlace((version, _) => version <= head)
  }

  /** An order that has become wrong: of a version that does not count any more, or an old one. */
  private def mislead(executor: Int): Unit = if (heads.nonEmpty) {
    misled += 1
    follow(executor, Some(heads(random.nextInt(heads.size))))
  }

  private def follow(executor: Int, told: Option[Head]): Unit = {
    val wanted = told.filter(_ => executor != owner || random.nextInt(4) == 0).map(Wanted(key, _, family.ordered, isMoving = false))
    hosts(executor).instructed(Instructions.Content(wanted.toSeq, Nil))
    failing = random.nextInt(6) == 0
    try hosts(executor).follow() finally failing = false
    val held = hosts(executor).report("e", "h", 0).replicas
    if (held.exists(_.state == "no_room")) evictions += 1
    Check.that(s"replicas of $executor have ${hosts(executor).memoryBytes} bytes", hosts(executor).memoryBytes <= hosts(executor).memoryBytesMax)
  }
}

/** A folder whose reads break off now and then. */
private[cecstore] final class FailingReads(folder: SegmentFolder, isFailing: () => Boolean) extends ThroughFolder(folder) {
  private def tried[A](read: => A): A = if (isFailing()) throw new IOException("the read breaks off") else read

  override def list(): Array[Long] = tried(folder.list())
  override def open(id: Long): SegmentInput = failing(tried(folder.open(id)))
  override def derivedFiles: Option[DerivedFiles] = folder.derivedFiles.map(files => new ThroughFiles(files) {
    override def open(name: String): SegmentInput = failing(tried(files.open(name)))
    override def create(name: String, bytes: Iterator[Array[Byte]]): Unit = throw new UnsupportedOperationException("create")
    override def delete(name: String): Unit = throw new UnsupportedOperationException("delete")
  })
  private def failing(input: SegmentInput): SegmentInput = new ThroughInput(input) {
    override def read(from: Long, length: Int): Array[Byte] = tried(input.read(from, length))
  }
  override def create(id: Long, bytes: Iterator[Array[Byte]], sync: Boolean): SegmentOutput = throw new UnsupportedOperationException("create")
  override def delete(id: Long): Unit = throw new UnsupportedOperationException("delete")
}
