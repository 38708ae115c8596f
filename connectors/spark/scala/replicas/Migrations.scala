package org.apache.spark.sql.cecstore.replicas

import scala.collection.mutable

/** One partition on its way from one executor to another. */
private[cecstore] final class Migration(val id: Long, val partition: PartitionEntry, val runId: String,
    val from: Option[String], val to: String, val protocol: String, val orderedMs: Long, val isRescue: Boolean) {
  var state: String = if (protocol == Migrations.LowLatency) Migrations.CatchingUp else Migrations.Locating
  var reason = ""
  var locatedMs, doneMs: Option[Long] = None
  var load: Option[LoadFigures] = None
  /** The heads of its stores when Spark's table was looked at last, and when that was. */
  var lookedAt: Seq[(StoreKey, Head)] = Nil
  var lookedMs: Option[Long] = None

  def hasEnded: Boolean = state != Migrations.CatchingUp && state != Migrations.Locating

  def document: Map[String, Any] = Map("id" -> id, "query" -> runId, "operator" -> partition.key.operator,
    "partition" -> partition.key.partition, "from" -> from.orNull, "to" -> to, "protocol" -> protocol, "state" -> state,
    "reason" -> reason, "ordered_ms" -> orderedMs, "located_ms" -> locatedMs.orNull, "done_ms" -> doneMs.orNull,
    "version" -> load.map(_.version).orNull, "is_from_replica" -> load.exists(_.isFromReplica),
    "records_read" -> load.fold(0L)(_.records), "load_ms" -> load.fold(0L)(_.ms))
}

/**
 * Partitions that move between two batches. Madsen & Zhou 2015, III: *direct*, the next owner loads; *CPA*, it has a
 * replica and reads the rest; *CPAL*, the replica catches up first and only then the location changes. The lock of the
 * [[Driver]] guards all of it.
 */
private[cecstore] final class Migrations(roster: Roster, routing: Routing, history: History, clockMs: () => Long) {
  import Migrations._

  private var count = 0L
  private val running = mutable.LinkedHashMap.empty[PartitionKey, Migration]
  private val ended = mutable.Queue.empty[Migration]

  def all: Seq[Migration] = (ended ++ running.values).toSeq.sortBy(_.id)
  def of(entry: PartitionEntry): Option[Migration] = running.get(entry.key)
  def byId(id: Long): Option[Migration] = running.valuesIterator.find(_.id == id).orElse(ended.find(_.id == id))

  def begin(entry: PartitionEntry, to: String, protocol: String): Migration = {
    if (!Protocols.contains(protocol)) throw new Refused("no_such_protocol", s"'$protocol': there are ${Protocols.mkString(", ")}")
    val there = roster.executors.getOrElse(to, throw new Refused("no_such_executor",
      s"there is no executor '$to'; there are ${roster.executors.keys.mkString(", ")}"))
    if (there.isDraining) throw new Refused("draining", s"executor $to is being decommissioned")
    if (entry.owner.contains(to)) throw new Refused("owns_it", s"executor $to has the partition already")
    of(entry).foreach(other => throw new Refused("migration_running",
      s"partition ${entry.key.partition} of operator ${entry.key.operator} is on its way to executor ${other.to}: migration ${other.id}"))
    if (protocol == Assisted && roster.lag(entry, to).isEmpty) throw new Refused("no_replica",
      s"executor $to has no warm replica of partition ${entry.key.partition}: with 'cpal' it makes one first")
    start(entry, to, protocol, isRescue = false)
  }

  /** @param isRescue its executor is lost, or will be: any other one that takes the partition is as good */
  def start(entry: PartitionEntry, to: String, protocol: String, isRescue: Boolean, reason: String = ""): Migration = {
    count += 1
    val migration = new Migration(count, entry, entry.runId, entry.owner, to, protocol, clockMs(), isRescue)
    migration.reason = reason
    running.put(entry.key, migration)
    history.move(migration)
    // One that is there but not wanted there, as it has just been replaced, has to stay until it is used.
    if (protocol != Direct && !entry.targets.contains(to)) { entry.targets = entry.targets :+ to; roster.changed() }
    advance(migration)
    migration
  }

  def cancel(id: Long): Migration = {
    val migration = byId(id).getOrElse(throw new Refused("no_such_migration", s"there is no migration $id"))
    if (!migration.hasEnded) end(migration, Cancelled)
    migration
  }

  /** See how far each one is; called again and again. */
  def advance(): Unit = running.values.toSeq.foreach(advance)

  private def advance(migration: Migration): Unit = {
    val entry = migration.partition
    val there = roster.executors.get(migration.to)
    if (entry.runId != migration.runId || !roster.partitions.contains(entry.key)) fail(migration, "the query has ended")
    else if (entry.owner.contains(migration.to)) arrived(migration)
    else if (migration.isRescue && entry.owner != migration.from && entry.owner.nonEmpty)
      fail(migration, s"executor ${entry.owner.get} has taken the partition meanwhile")
    else if (there.isEmpty) fail(migration, s"executor ${migration.to} is gone")
    else if (there.get.isDraining) fail(migration, s"executor ${migration.to} is being decommissioned")
    else {
      if (migration.state == CatchingUp && roster.isWarm(entry, migration.to)) migration.state = Locating
      if (migration.state == Locating) locate(migration, there.get)
    }
  }

  private def locate(migration: Migration, there: ExecutorEntry): Unit = if (isLookDue(migration)) {
    val astray = migration.partition.stores.valuesIterator.map(_.key)
      .filter(key => !routing.where(migration.runId, key).contains(there.id)).toSeq
    astray.foreach(routing.send(migration.runId, _, there.host, there.id))
    if (migration.locatedMs.isEmpty) migration.locatedMs = Some(clockMs())
  }

  /** A batch that has ended may have left other entries; else a few looks a second do, each being a call for each store. */
  private def isLookDue(migration: Migration): Boolean = {
    val (heads, nowMs) = (migration.partition.heads.toSeq, clockMs())
    // A clock that was set back delays no look.
    val isRecent = migration.lookedMs.exists(at => at <= nowMs && nowMs - at < LookMs)
    val isDue = !isRecent || heads != migration.lookedAt
    if (isDue) { migration.lookedAt = heads; migration.lookedMs = Some(nowMs) }
    isDue
  }

  private def arrived(migration: Migration): Unit = {
    val entry = migration.partition
    val loads = roster.executors.get(migration.to).toSeq.flatMap(_.owned.valuesIterator.filter(_.key.of == entry.key).flatMap(_.load))
    // Each store is loaded when its task first asks for it: the last of them may not have been told yet.
    if (loads.size >= entry.stores.size) {
      migration.load = Some(LoadFigures(
        loads.map(_.version).max, loads.forall(_.isFromReplica), loads.map(_.records).sum, loads.map(_.ms).sum))
      convertOld(migration)
      entry.hasArrived = true
      end(migration, Done)
    }
  }

  /**
   * What the old owner keeps becomes a replica of the new one (Algorithm 1, line 7, with which a direct move ends as well):
   * in the place of the one that was used, or of one that is not warm yet. Warm ones elsewhere stay: in place of such a one
   * it would make that executor load another, to have as many as the others.
   */
  private def convertOld(migration: Migration): Unit = {
    val entry = migration.partition
    val back = migration.from.filter(id => roster.executors.get(id).exists(!_.isDraining))
    def converted(places: Vector[String], most: Int): Vector[String] = {
      val (warm, cold) = places.filter(_ != migration.to).partition(roster.isWarm(entry, _))
      (warm ++ back ++ cold).distinct.take(most)
    }
    entry.placed match {
      case None => if (entry.targets.contains(migration.to) || back.nonEmpty)
        entry.targets = converted(entry.targets, math.max(1, entry.replicas))
      case Some(places) if places.contains(migration.to) => entry.placed = Some(converted(places, places.size))
      // Until those that somebody has placed are warm.
      case Some(places) => if (!places.forall(roster.isWarm(entry, _))) entry.targets = (entry.targets ++ back).distinct
    }
  }

  private def fail(migration: Migration, reason: String): Unit = { migration.reason = reason; end(migration, Failed) }

  private def end(migration: Migration, state: String): Unit = {
    migration.state = state
    migration.doneMs = Some(clockMs())
    running.remove(migration.partition.key)
    roster.changed()
    ended.enqueue(migration)
    history.move(migration)
    if (ended.size > EndedMax) ended.dequeue()
  }
}

private[cecstore] object Migrations {
  val Direct = "direct"
  val Assisted = "cpa"
  val LowLatency = "cpal"
  private val Protocols = Seq(Direct, Assisted, LowLatency)
  val CatchingUp = "catching_up"
  val Locating = "locating"
  val Done = "done"
  val Failed = "failed"
  val Cancelled = "cancelled"
  private val EndedMax = 1000
  private val LookMs = 250L
}
