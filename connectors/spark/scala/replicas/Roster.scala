package org.apache.spark.sql.cecstore.replicas

import scala.collection.mutable
import org.apache.spark.sql.cecstore.format.RefusedOption
import org.apache.spark.sql.cecstore.log.JoinNames

/** One executor as the driver knows it. */
private[cecstore] final class ExecutorEntry(val id: String) {
  var host = ""
  /** Where the cluster manager knows it. */
  var rack = Option.empty[String]
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
private[cecstore] final class Roster(clockMs: () => Long, limits: ReplicaLimits, rackOf: String => Option[String]) {
  val executors: mutable.Map[String, ExecutorEntry] = mutable.TreeMap.empty
  val partitions: mutable.Map[PartitionKey, PartitionEntry] = mutable.LinkedHashMap.empty
  /** Runs of each query's checkpoint in the order in which they were heard of. */
  private val runs = mutable.Map.empty[String, Vector[String]]
  private var generation_ = 1L
  /** Replicas that are being loaded, by partition and executor, where only so many may be at a time. */
  private var warmingUp = Vector.empty[(PartitionKey, String)]

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
    if (executor.host != report.host) {
      executor.host = report.host
      executor.rack = rackOf(report.host)
    }
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

  /** Whether the executor has a replica that lacks no more than a warm one may. */
  def isWarm(entry: PartitionEntry, executor: String): Boolean = lag(entry, executor).exists(_ <= limits.warmLagVersions)

  /**
   * Let replicas be loaded, no more at a time than the limit has it; those that partitions are on their way to go first.
   *
   * @param moving where partitions are on their way to
   */
  def warmUp(moving: PartitionEntry => Option[String]): Unit = if (limits.warmUps > 0) {
    val cold = for {
      entry <- partitions.valuesIterator.toVector
      id <- entry.targets if isCold(entry, id)
    } yield (entry.key, id) -> moving(entry).contains(id)
    val loading = warmingUp.filter(cold.toMap.contains)
    val waiting = cold.sortBy { case (_, isMoving) => !isMoving }.map(_._1).filter(!loading.contains(_))
    val now = loading ++ waiting.take(limits.warmUps - loading.size)
    if (now != warmingUp) { warmingUp = now; changed() }
  }

  /**
   * Whether a replica has to be loaded. One that has no room or fails takes nobody's turn; what is left over of a provider
   * becomes a replica without a load, and may be gone soon.
   */
  private def isCold(entry: PartitionEntry, executor: String): Boolean = executors.get(executor).exists { there =>
    val keys = entry.heads.map(_._1).toSeq
    !entry.owner.contains(executor) && replicaVersion(entry, executor) < 0 && !isLeftOver(entry, executor) &&
      keys.forall(there.held.get(_).forall(held => held.state == "warm" || held.state == "loading"))
  }

  /** Whether the executor has providers of the partition from when it owned it. */
  def isLeftOver(entry: PartitionEntry, executor: String): Boolean = !entry.owner.contains(executor) && entry.heads.nonEmpty &&
    executors.get(executor).exists(there => entry.heads.forall { case (key, _) => there.owned.contains(key) })

  /** Why the replica is not begun; none where it is, or need not wait. */
  def waitsFor(entry: PartitionEntry, executor: String): Option[String] =
    Option.when(limits.warmUps > 0 && isCold(entry, executor) && !warmingUp.contains(entry.key -> executor))(
      s"it waits until others are loaded: replicaWarmUps = ${limits.warmUps}")

  /** The executor that could take the partition over with the least to read. */
  def nearest(entry: PartitionEntry): Option[ExecutorEntry] = entry.targets.flatMap(executors.get)
    .filter(e => !e.isDraining && lag(entry, e.id).nonEmpty).minByOption(e => lag(entry, e.id))

  /** @param moving where partitions are on their way to */
  def instructions(executor: String, seen: Long, moving: PartitionEntry => Option[String]): Instructions =
    if (seen == generation) Instructions(generation, None) else {
      val wanted = for {
        entry <- partitions.valuesIterator if entry.targets.contains(executor) && !entry.owner.contains(executor)
        if waitsFor(entry, executor).isEmpty
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

/**
 * How the driver decides about replicas that lack something. docs/spark-replicas.md
 *
 * @param warmLagVersions a replica that lacks no more is warm: a partition may move to it, and one that it replaces may go
 * @param warmUps how many are loaded at a time, on all executors together; 0 for as many as there are
 */
private[cecstore] final case class ReplicaLimits(warmLagVersions: Long = 1, warmUps: Int = 0)

private[cecstore] object ReplicaLimits {
  private val Prefix = "spark.sql.streaming.stateStore.cec."
  private val LagMax = 1000000L
  private val WarmUpsMax = 10000L

  /** By the settings of these names; one that is not allowed is refused. */
  def parse(conf: String => Option[String]): ReplicaLimits = {
    def whole(name: String, most: Long, unless: Long): Long = conf(Prefix + name).fold(unless)(text =>
      text.trim.toLongOption.filter(n => n >= 0 && n <= most).getOrElse(throw new RefusedOption(Prefix + name,
        s"$Prefix$name = $text: a whole number from 0 to $most is needed")))
    ReplicaLimits(whole("replicaWarmLagVersions", LagMax, 1), whole("replicaWarmUps", WarmUpsMax, 0).toInt)
  }
}

private object Roster {
  private val RunsKept = 20
  private val EndedMs = 60L * 1000

  /** Which one of a partition's stores tells what is counted once for the partition. */
  private def toldOf(stores: Iterable[String]): Option[String] = stores.find(JoinNames.holdsRows).orElse(stores.headOption)
}
