package org.apache.spark.sql.cecstore.replicas

import scala.collection.mutable
import org.apache.spark.sql.cecstore.log.JoinNames

/** One executor as the driver knows it. */
private[cecstore] final class ExecutorEntry(val id: String) {
  var host = ""
  var memoryBytesMax = 0L
  var heardMs = 0L
  /** It is being decommissioned: nothing new goes there. */
  var isDraining = false
  var owned = Map.empty[StoreKey, Report.Owned]
  var held = Map.empty[StoreKey, Report.Held]
  def replicaBytes: Long = held.valuesIterator.map(_.memoryBytes).sum
}

/** One partition as the driver knows it. */
private[cecstore] final class PartitionEntry(val key: PartitionKey, var runId: String) {
  /** By store: what was reported last of where its newest version ends. */
  val stores: mutable.Map[String, Report.Owned] = mutable.TreeMap.empty
  var owner: Option[String] = None
  /** Where replicas are wanted. */
  var targets = Vector.empty[String]
  /** Somebody has said where: the driver fills up only what is lost. */
  var placed: Option[Vector[String]] = None
  var replicas = 0
  /** Its owner has it by a migration. */
  var hasArrived = false
  /** Whether its query runs, and when that was so last. */
  var isActive = true
  var aliveMs = 0L

  def heads: Iterator[(StoreKey, Head)] = stores.valuesIterator.flatMap(store => store.head.map(store.key -> _))
  def version: Long = heads.map(_._2.version).maxOption.getOrElse(0L)
}

/**
 * Who owns which partition, where its newest version ends, and where its replicas are: what executors have reported.
 * The lock of the [[Driver]] guards all of it.
 */
private[cecstore] final class Roster(clockMs: () => Long) {
  val executors: mutable.Map[String, ExecutorEntry] = mutable.TreeMap.empty
  val partitions: mutable.Map[PartitionKey, PartitionEntry] = mutable.LinkedHashMap.empty
  /** Runs of each query's checkpoint in the order in which they were heard of. */
  private val runs = mutable.Map.empty[String, Vector[String]]
  private var generation_ = 1L

  def generation: Long = generation_
  def changed(): Unit = generation_ += 1

  def partition(runId: String, operator: Long, number: Int): Option[PartitionEntry] =
    partitions.valuesIterator.find(p => p.runId == runId && p.key.operator == operator && p.key.partition == number)

  /**
   * An executor's report, which is complete.
   *
   * @param isActive whether a query has this run id: readers of a checkpoint open stores as well
   */
  def heard(report: Report, isActive: String => Boolean): Unit = {
    val executor = executors.getOrElseUpdate(report.executor, { changed(); new ExecutorEntry(report.executor) })
    executor.host = report.host
    executor.memoryBytesMax = report.memoryBytesMax
    executor.heardMs = clockMs()
    val before = executor.owned
    val owned = report.owned.filter(store => isActive(store.runId) && isCurrent(store))
    executor.owned = owned.map(store => store.key -> store).toMap
    owned.foreach(store => if (!before.get(store.key).contains(store)) news(executor.id, store, before.get(store.key)))
    (before.keySet -- executor.owned.keySet).foreach(leftBy(executor.id, _))
    val held = report.replicas.map(each => each.key -> each).toMap
    if (held != executor.held) changed()
    executor.held = held
  }

  private def news(executor: String, store: Report.Owned, before: Option[Report.Owned]): Unit = {
    val entry = partitions.getOrElseUpdate(store.key.of, new PartitionEntry(store.key.of, store.runId))
    if (entry.runId != store.runId) {
      // Another run of the query may have gone back to an older batch: what the last one said no longer counts.
      entry.runId = store.runId
      entry.stores.clear()
      entry.owner = None
    }
    entry.replicas = store.replicas
    entry.aliveMs = clockMs()
    val known = entry.stores.get(store.key.name)
    val isNew = before.forall(_.head != store.head)
    val isNewest = known.forall(_.head.forall(head => store.head.exists(_.version >= head.version)))
    // A provider that has just been opened has no version; one that is left over has an old one.
    if (isNewest && (isNew || entry.owner.contains(executor))) {
      entry.stores.put(store.key.name, store)
      if ((entry.owner.isEmpty || isNew && store.head.nonEmpty) && !entry.owner.contains(executor)) {
        entry.owner = Some(executor)
        entry.hasArrived = false
      }
      changed()
    }
  }

  private def isCurrent(store: Report.Owned): Boolean = {
    val known = runs.getOrElse(store.key.root, Vector.empty)
    if (!known.contains(store.runId)) runs.put(store.key.root, known.takeRight(Roster.RunsKept) :+ store.runId)
    runs(store.key.root).last == store.runId
  }

  /** The executor has no provider of the store any more. */
  private def leftBy(executor: String, key: StoreKey): Unit =
    partitions.get(key.of).filter(_.owner.contains(executor)).foreach { entry =>
      if (!executors(executor).owned.keysIterator.exists(_.of == entry.key)) { entry.owner = None; changed() }
    }

  /** The executor is gone; returns the partitions that it owned. */
  def lost(executor: String): Seq[PartitionEntry] = if (executors.remove(executor).isEmpty) Nil else {
    changed()
    val orphans = partitions.valuesIterator.filter(_.owner.contains(executor)).toSeq
    orphans.foreach(_.owner = None)
    orphans
  }

  /** Forget queries that have ended for good: a restart soon after finds its replicas. */
  def prune(active: Set[String]): Unit = {
    val now = clockMs()
    partitions.valuesIterator.foreach(p => p.isActive = active(p.runId))
    partitions.valuesIterator.filter(_.isActive).foreach(_.aliveMs = now)
    val gone = partitions.valuesIterator.filter(p => now - p.aliveMs > Roster.EndedMs).map(_.key).toSeq
    if (gone.nonEmpty) { partitions --= gone; changed() }
  }

  // -- what follows from it ---------------------------------------------------------------------

  /** The least version of the partition that the executor has replicas of; -1 while a store has none. */
  def replicaVersion(entry: PartitionEntry, executor: String): Long = executors.get(executor).fold(-1L) { there =>
    entry.stores.valuesIterator.map(store => there.held.get(store.key).fold(-1L)(_.version)).minOption.getOrElse(-1L)
  }

  /** How many versions the store of it that is furthest behind lacks; none while one has no replica there. */
  def lag(entry: PartitionEntry, executor: String): Option[Long] = executors.get(executor).flatMap { there =>
    val lags = entry.heads.map { case (key, head) => there.held.get(key).filter(_.version >= 0).map(held => head.version - held.version) }.toSeq
    Option.when(lags.nonEmpty && lags.forall(_.nonEmpty))(math.max(0L, lags.flatten.max))
  }

  /** The executor that could take the partition over with the least to read. */
  def nearest(entry: PartitionEntry): Option[ExecutorEntry] = entry.targets.flatMap(executors.get)
    .filter(e => !e.isDraining && lag(entry, e.id).nonEmpty).minByOption(e => lag(entry, e.id))

  /** @param moving where partitions are on their way to */
  def instructions(executor: String, seen: Long, moving: PartitionEntry => Option[String]): Instructions =
    if (seen == generation) Instructions(generation, None) else {
      val wanted = for {
        entry <- partitions.valuesIterator if entry.targets.contains(executor) && !entry.owner.contains(executor)
        (key, head) <- entry.heads
      } yield Wanted(key, head, entry.stores(key.name).isOrdered, moving(entry).contains(executor), entry.stores(key.name).stateBytes)
      val news = for {
        entry <- partitions.valuesIterator if entry.owner.contains(executor)
        (key, head) <- entry.heads
      } yield key -> newsOf(entry, key, head)
      Instructions(generation, Some(Instructions.Content(wanted.toSeq, news.toSeq)))
    }

  private def newsOf(entry: PartitionEntry, key: StoreKey, head: Head): OwnerNews = {
    val held = entry.targets.flatMap(executors.get).map(_.held.get(key))
    val behind = held.map(_.filter(_.version >= 0).fold(head.version)(each => math.max(0L, head.version - each.version)))
    val isTold = Roster.toldOf(entry.stores.keys).contains(key.name)
    OwnerNews(behind.maxOption.getOrElse(0L), held.flatten.map(_.memoryBytes).sum, if (entry.hasArrived && isTold) 1 else 0)
  }
}

private object Roster {
  private val RunsKept = 20
  private val EndedMs = 60L * 1000

  /** Which one of a partition's stores tells what is counted once for the partition. */
  private def toldOf(stores: Iterable[String]): Option[String] = stores.find(JoinNames.holdsRows).orElse(stores.headOption)
}
