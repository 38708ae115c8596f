package org.apache.spark.sql.cecstore.replicas

import scala.collection.mutable
import org.apache.spark.internal.Logging

/**
 * The driver's side: it takes in what executors report, answers with what they are to keep, has replicas where they
 * should be, and moves partitions. Executors call [[heard]], Spark [[lost]], a thread [[tick]], users the orders; its
 * lock guards the roster, the places and the migrations.
 *
 * @param isDraining whether Spark is decommissioning an executor
 * @param activeRuns the run ids of the queries that run
 * @param rackOf the rack of a host, where the cluster manager knows it
 * @param limits read when the application began
 */
private[cecstore] final class Driver(routing: Routing, isDraining: String => Boolean, activeRuns: () => Set[String],
    clockMs: () => Long, limits: ReplicaLimits, rackOf: String => Option[String]) extends Orders with Logging {
  private val roster = new Roster(clockMs, limits, rackOf)
  private val places = new EvenPlaces(roster)
  private val history = new History(clockMs)
  private val migrations_ = new Migrations(roster, routing, history, clockMs)
  /** Executors that were removed; their ids are never given again. */
  private val gone = mutable.Set.empty[String]
  private var settledAt = 0L
  private var shortSinceMs = Option.empty[Long]
  private var saidShortage = Option.empty[String]

  /** An executor that Spark has removed may go on for a while: it is not heard, and keeps nothing. */
  def heard(report: Report): Instructions = synchronized {
    if (gone(report.executor)) Instructions(roster.generation, Some(Instructions.Content(Nil, Nil))) else answered(report)
  }

  private def answered(report: Report): Instructions = {
    roster.heard(report, activeRuns())
    settle()
    advance()
    roster.instructions(report.executor, report.seen, entry => migrations_.of(entry).map(_.to))
  }

  /** Replicas are settled again, because a migration that has ended says where some of them go. */
  private def advance(): Unit = {
    migrations_.advance()
    settle()
    roster.warmUp(migrations_.of(_).map(_.to))
    history.see(roster)
  }

  private def settle(): Unit = if (roster.generation != settledAt) {
    places.settle(migrations_.of(_).map(_.to))
    settledAt = roster.generation
  }

  /** Executors that come up one after the other are no shortage yet. */
  private def sayShortage(): Unit = {
    val short = shortage
    shortSinceMs = short.flatMap(_ => shortSinceMs.orElse(Some(clockMs())))
    if (short != saidShortage && shortSinceMs.forall(clockMs() - _ > Driver.ShortMs)) {
      short.foreach(why => logWarning(s"cec: $why"))
      saidShortage = short
    }
  }

  /** Before the next batch is planned its tasks are sent to where the replicas are. */
  def lost(executor: String): Unit = synchronized {
    gone += executor
    val orphans = roster.lost(executor)
    history.see(roster)
    orphans.foreach(leave(_, s"executor $executor is gone"))
    settle()
    advance()
  }

  def tick(): Unit = synchronized {
    roster.executors.valuesIterator.filter(e => !e.isDraining && isDraining(e.id)).foreach { executor =>
      logInfo(s"cec: executor ${executor.id} is being decommissioned: its partitions go to where their replicas are")
      executor.isDraining = true
      roster.changed()
    }
    roster.prune(activeRuns())
    settle()
    sayShortage()
    roster.partitions.valuesIterator.filter(_.isActive).foreach { entry =>
      if (entry.owner.isEmpty) leave(entry, "no executor has it")
      else if (entry.owner.flatMap(roster.executors.get).exists(_.isDraining)) leave(entry, "its executor is being decommissioned")
    }
    advance()
  }

  private def leave(entry: PartitionEntry, why: String): Unit = if (migrations_.of(entry).isEmpty)
    roster.nearest(entry).foreach { executor =>
      migrations_.start(entry, executor.id, Migrations.Assisted, isRescue = true, why)
      logInfo(s"cec: partition ${entry.key.partition} of operator ${entry.key.operator} goes to its replica on executor " +
        s"${executor.id}: $why")
    }

  // -- orders -----------------------------------------------------------------------------------

  override def shortage: Option[String] = synchronized(places.shortage)

  override def executors: Seq[Document] = synchronized(roster.executors.valuesIterator.map(e => Map[String, Any](
    "executor" -> e.id, "host" -> e.host, "state" -> (if (e.isDraining) "draining" else "alive"),
    "owned" -> roster.partitions.valuesIterator.count(_.owner.contains(e.id)),
    "replicas" -> roster.partitions.valuesIterator.count(_.targets.contains(e.id)), "replica_bytes" -> e.replicaBytes,
    "replica_bytes_max" -> e.memoryBytesMax, "silent_ms" -> (clockMs() - e.heardMs))).toSeq)

  private def named(entry: PartitionEntry): Document =
    Map("query" -> entry.runId, "operator" -> entry.key.operator, "partition" -> entry.key.partition)

  override def assignments: Seq[Document] = synchronized(roster.partitions.valuesIterator.map { entry =>
    val owner = entry.owner.flatMap(roster.executors.get)
    named(entry) ++ Map[String, Any]("checkpoint" -> entry.key.root, "owner" -> owner.map(_.id).orNull,
      "host" -> owner.map(_.host).orNull, "version" -> entry.version, "stores" -> entry.stores.keys.toSeq,
      "windows" -> entry.stores.valuesIterator.map(_.windows).sum,
      "state_bytes" -> entry.stores.valuesIterator.map(_.stateBytes).sum, "replicas_wanted" -> entry.replicas,
      "is_placed" -> entry.placed.nonEmpty)
  }.toSeq)

  override def replicas: Seq[Document] = synchronized((for {
    entry <- roster.partitions.valuesIterator
    there <- entry.targets.iterator.flatMap(roster.executors.get)
  } yield {
    val held = entry.stores.valuesIterator.flatMap(store => there.held.get(store.key)).toSeq
    val trouble = held.find(each => each.state != "warm" && each.state != "loading")
    val lag = roster.lag(entry, there.id)
    named(entry) ++ Map[String, Any]("executor" -> there.id,
      "state" -> trouble.map(_.state).getOrElse(if (lag.isEmpty) "loading" else "warm"),
      "version" -> roster.replicaVersion(entry, there.id), "lag_versions" -> lag.orNull,
      "memory_bytes" -> held.map(_.memoryBytes).sum,
      "reason" -> trouble.map(_.reason).orElse(roster.waitsFor(entry, there.id)).getOrElse(""))
  }).toSeq)

  override def migrations: Seq[Document] = synchronized(migrations_.all.map(_.document))

  override def events: Seq[Document] = synchronized { history.see(roster); history.all }

  private def entryOf(query: String, operator: Long, partition: Int): PartitionEntry =
    roster.partition(query, operator, partition).getOrElse(throw new Refused("no_such_partition",
      s"no executor has reported partition $partition of operator $operator of the run $query"))

  override def move(query: String, operator: Long, partition: Int, executor: String, protocol: String): Document =
    synchronized(migrations_.begin(entryOf(query, operator, partition), executor, protocol).document)

  override def cancel(id: Long): Document = synchronized(migrations_.cancel(id).document)

  override def placed(query: String, operator: Long, partition: Int): Seq[String] =
    synchronized(entryOf(query, operator, partition).targets)

  override def place(query: String, operator: Long, partition: Int, executors: Seq[String]): Document = synchronized {
    val entry = entryOf(query, operator, partition)
    executors.foreach { id =>
      val there = roster.executors.getOrElse(id, throw new Refused("no_such_executor",
        s"there is no executor '$id'; there are ${roster.executors.keys.mkString(", ")}"))
      if (there.isDraining) throw new Refused("draining", s"executor $id is being decommissioned")
      if (entry.owner.contains(id)) throw new Refused("owns_it", s"executor $id has the partition itself")
    }
    entry.placed = Some(executors.distinct.toVector)
    roster.changed()
    settle()
    named(entry) + ("executors" -> entry.targets)
  }

  override def release(query: String, operator: Long, partition: Int): Document = synchronized {
    val entry = entryOf(query, operator, partition)
    entry.placed = None
    roster.changed()
    settle()
    named(entry) + ("executors" -> entry.targets)
  }
}

private object Driver {
  private val ShortMs = 10L * 1000
}
