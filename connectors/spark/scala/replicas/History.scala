package org.apache.spark.sql.cecstore.replicas

import scala.collection.mutable

/**
 * What has happened to executors, partitions, replicas and moves, the oldest first; the last [[History.Max]] are kept.
 * Most of it is told by what differs from one look at the roster to the next, so that whoever changes that has nothing to
 * say here. The lock of the [[Driver]] guards all of it.
 */
private[cecstore] final class History(clockMs: () => Long) {
  import History._

  private val events = mutable.Queue.empty[Map[String, Any]]
  private var count = 0L
  private var executors = Map.empty[String, Boolean]
  private var partitions = Map.empty[PartitionKey, Image]
  private var seen = 0L

  def all: Seq[Map[String, Any]] = events.toSeq

  /** Enter what has changed since the last look. */
  def see(roster: Roster): Unit = if (roster.generation != seen) {
    seen = roster.generation
    val (nowThere, before) = (roster.executors.map { case (id, entry) => id -> entry.isDraining }.toMap, executors)
    executors = nowThere
    // In the order of cause and effect: an executor comes before it owns something, and has lost that before it is gone.
    nowThere.keySet.diff(before.keySet).toSeq.sorted.foreach(id => add("executor_joined", executor = Some(id)))
    nowThere.filter { case (id, isDraining) => isDraining && !before.getOrElse(id, false) }.keys.toSeq.sorted
      .foreach(id => add("executor_draining", executor = Some(id)))
    val known = partitions
    partitions = roster.partitions.iterator.map { case (key, entry) => key -> imageOf(roster, entry, known.get(key)) }.toMap
    roster.partitions.keysIterator.foreach(key => differ(key, known.getOrElse(key, nothing(partitions(key).runId)), partitions(key)))
    (known -- partitions.keySet).foreach { case (key, image) => differ(key, image, nothing(image.runId)) }
    before.keySet.diff(nowThere.keySet).toSeq.sorted.foreach(id => add("executor_lost", executor = Some(id)))
  }

  private def imageOf(roster: Roster, entry: PartitionEntry, before: Option[Image]): Image = {
    // While a run begins nobody knows what its replicas are to have: they are as they were.
    val warm = if (entry.heads.isEmpty) before.fold(Set.empty[String])(_.warm) else entry.targets.filter(roster.lag(entry, _).nonEmpty).toSet
    Image(entry.runId, entry.owner, entry.targets, warm)
  }

  private def differ(key: PartitionKey, before: Image, now: Image): Unit = {
    def told(kind: String, executor: String, from: Option[String] = None): Unit = add(kind, Some(key -> now.runId), Some(executor), from)
    val owner = before.owner.filter(_ => before.runId == now.runId)
    if (owner != now.owner) now.owner match {
      case Some(executor) => told("owned", executor, owner)
      case None => told("orphaned", owner.get)
    }
    (now.targets.diff(before.targets)).foreach(told("replica_placed", _))
    now.targets.filter(id => now.warm(id) && !before.warm(id)).foreach(told("replica_warm", _))
    now.targets.filter(id => before.targets.contains(id) && before.warm(id) && !now.warm(id)).foreach(told("replica_evicted", _))
    before.targets.diff(now.targets).foreach(told("replica_dropped", _))
  }

  /** A migration has begun, or has ended. */
  def move(migration: Migration): Unit = add(if (migration.hasEnded) s"move_${migration.state}" else "move_ordered",
    Some(migration.partition.key -> migration.runId), Some(migration.to), migration.from, migration.reason, Some(migration.id))

  private def add(kind: String, of: Option[(PartitionKey, String)] = None, executor: Option[String], from: Option[String] = None,
      reason: String = "", move: Option[Long] = None): Unit = {
    count += 1
    events.enqueue(Map("number" -> count, "at_ms" -> clockMs(), "kind" -> kind, "query" -> of.map(_._2).orNull,
      "operator" -> of.map(_._1.operator).orNull, "partition" -> of.map(_._1.partition).orNull, "executor" -> executor.orNull,
      "from" -> from.orNull, "move" -> move.orNull, "reason" -> reason))
    if (events.size > Max) events.dequeue()
  }
}

private[cecstore] object History {
  val Max = 2000

  /**
   * One partition at a look.
   *
   * @param targets where its replicas are wanted
   * @param warm those of them that have a state
   */
  private final case class Image(runId: String, owner: Option[String], targets: Vector[String], warm: Set[String])

  /** Of a partition that nobody has heard of yet, or not any more. */
  private def nothing(runId: String): Image = Image(runId, None, Vector.empty, Set.empty)
}
