package org.apache.spark.sql.cecstore.testing

import java.util.{Properties, UUID}
import scala.collection.mutable

import org.apache.spark.Success
import org.apache.spark.executor.{ExecutorMetrics, TaskMetrics}
import org.apache.spark.scheduler._
import org.apache.spark.sql.cecstore.replicas._
import org.apache.spark.sql.streaming.StreamingQueryListener

/** One fact after the other about the driver's side of replicas, without Spark: `ok`, or what is wrong. */
object DriverRules {
  private val rules: Seq[(String, Fleet => Unit)] = Seq(
    "replicas are spread evenly, each on another executor than its partition" -> spread,
    "a replica goes to another host where there is one" -> otherHost,
    "a replica goes to another rack where one is known" -> otherRack,
    "a partition of a lost executor goes to its replica before the next batch, with all its stores" -> lost,
    "an entry that a running task has overwritten is made again" -> again,
    "a lost partition that a task has taken elsewhere stays there" -> takenElsewhere,
    "replicas on a lost executor are made elsewhere" -> remade,
    "an executor that is gone is not heard any more" -> goneForGood,
    "a decommissioned executor loses its partitions to their replicas and gets nothing new" -> draining,
    "direct changes the location at once" -> direct,
    "CPA needs a warm replica" -> assisted,
    "the replica that CPA goes to is kept, wanted or not" -> assistedByLeftOver,
    "CPAL changes the location once the replica has caught up" -> lowLatency,
    "a replica that lacks more than a warm one may is not warm" -> notWarm,
    "so many replicas are loaded at a time, those that partitions go to first" -> warmUps,
    "a replica without room, or with a provider's state, takes nobody's turn" -> turns,
    "settings that are not allowed are refused by name" -> limitsRefused,
    "the old owner keeps its state as the replica" -> swapped,
    "a warm replica elsewhere stays when its partition moves" -> warmElsewhere,
    "after a direct move the old owner's state takes the place of a cold replica" -> directThenOld,
    "a placed replica that is used goes to where the partition was" -> placedSwapped,
    "the old owner's state stays until placed replicas are warm" -> placedCold,
    "a migration to an executor that is lost fails" -> targetLost,
    "orders that cannot be followed are refused and change nothing" -> refusals,
    "a run that goes back to an older batch has the say" -> olderBatch,
    "a provider that is left over does not own its store" -> leftOver,
    "what readers of a checkpoint open changes nothing" -> readers,
    "a newcomer gets replicas, and the old ones stay until those are warm" -> newcomer,
    "too few executors are told" -> shortage,
    "placed replicas stay where they are until they are released" -> placed,
    "a warm replica that is replaced stays until the new one is warm" -> replaced,
    "a replica that is replaced goes where another one has no room" -> replacedWithoutRoom,
    "the arrival of a join is told by a store whose metrics Spark shows" -> arrivalOfJoin,
    "an owner hears of the lag and memory of its replicas, and once of its arrival" -> ownerNews,
    "what happens is told in order, each once" -> history,
    "a run that begins anew has lost nothing" -> historyOfRuns,
    "as many events are kept as there is room for" -> boundedHistory,
    "messages survive the wire" -> wire,
    "Spark's table is looked at after each batch, and a few times a second" -> looks,
    "what a run has cost is told for ten minutes after its end" -> costsOfEnded)

  def run(words: Arguments): Programs.Result = rules.map { case (name, rule) =>
    name -> (try { rule(new Fleet); "" } catch { case wrong: Throwable => s"$wrong ${wrong.getStackTrace.take(4).mkString(" ")}" })
  }.toMap

  private def spread(fleet: Fleet): Unit = {
    import fleet._
    join(3)
    (0 until 9).foreach(p => owns(p % 3, p, 1))
    // Where one is moved, the new one has to be warm first.
    for (_ <- 0 until 9) { targets.foreach { case (p, executor) => holds(executor.toInt, p, 1) }; driver.tick() }
    val counts = targets.groupMapReduce(_._2)(_ => 1)(_ + _)
    Check.equal("replicas of each", counts, Map("0" -> 3, "1" -> 3, "2" -> 3))
    targets.foreach { case (p, executor) => Check.that(s"$p with its own replica", executor != s"${p % 3}") }
  }

  private def otherHost(fleet: Fleet): Unit = {
    import fleet._
    hosts ++= Map(0 -> "one", 1 -> "one", 2 -> "two")
    join(3)
    owns(0, 0, 1)
    Check.equal("where", targets, Seq(0 -> "2"))
  }

  private def otherRack(fleet: Fleet): Unit = {
    import fleet._
    hosts ++= Map(0 -> "one", 1 -> "two", 2 -> "three", 3 -> "one")
    racks ++= Map("one" -> "a", "two" -> "a", "three" -> "b")
    join(4)
    owns(0, 0, 1)
    Check.equal("where", targets, Seq(0 -> "2"))
    driver.lost("2")
    Check.equal("on the same rack", targets, Seq(0 -> "1"))
    driver.lost("1")
    Check.equal("on the same host", targets, Seq(0 -> "3"))
  }

  private def lost(fleet: Fleet): Unit = {
    import fleet._
    stores = Seq("left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues", "right-keyWithIndexToValue")
    join(2)
    owns(0, 0, 5)
    holds(1, 0, 5)
    Check.equal("before", sent.toSeq, Nil)
    driver.lost("0")
    Check.equal("sent", sent.map(s => (s._1.name, s._2)).toSet, stores.map(_ -> "1").toSet)
  }

  private def again(fleet: Fleet): Unit = {
    import fleet._
    join(2)
    owns(0, 0, 5)
    holds(1, 0, 5)
    driver.lost("0")
    table(key(0, "default")) = "7"
    nowMs += 250
    driver.tick()
    Check.equal("where", table(key(0, "default")), "1")
  }

  private def looks(fleet: Fleet): Unit = {
    import fleet._
    join(2)
    owns(0, 0, 5)
    driver.move(Run, 0, 0, "1", "direct")
    val before = looked
    (0 until 100).foreach(_ => { report(0); report(1); driver.tick() })
    Check.equal("looks while nothing changes", looked - before, 0)
    sent.clear()
    // So a task does that runs on the old executor.
    table(key(0, "default")) = "0"
    owns(0, 0, 6)
    Check.equal("sent after the batch", sent.map(_._2).toSeq, Seq("1"))
    nowMs += 250
    val after = looked
    driver.tick()
    Check.equal("looks at the next tick", looked - after, 1)
    nowMs -= 10000
    driver.tick()
    Check.equal("looks once the clock was set back", looked - after, 2)
  }

  private def costsOfEnded(fleet: Fleet): Unit = {
    var nowNs = 0L
    val loads = new TaskLoads(() => nowNs)
    val minuteNs = 60L * 1000 * 1000 * 1000
    val runs = Seq.fill(2)(UUID.randomUUID())
    for ((run, stage) <- runs.zipWithIndex) {
      val properties = new Properties
      properties.setProperty("spark.jobGroup.id", run.toString)
      val info = new StageInfo(stage, 0, "a stage", 1, Nil, Nil, "", resourceProfileId = 0)
      loads.onJobStart(SparkListenerJobStart(stage, 0, Seq(info), properties))
      val metrics = new TaskMetrics
      metrics.setExecutorCpuTime(7)
      val task = new TaskInfo(stage, 0, 0, 0, 0L, "0", "host", TaskLocality.ANY, false)
      loads.onTaskEnd(SparkListenerTaskEnd(stage, 0, "ResultTask", Success, task, new ExecutorMetrics, metrics))
    }
    def told: Set[String] = runs.map(_.toString).filter(loads.queriesText().contains).toSet
    loads.onOtherEvent(new StreamingQueryListener.QueryTerminatedEvent(UUID.randomUUID(), runs.head, None, None))
    nowNs += 9 * minuteNs
    Check.equal("told for whoever reads seldom", told, runs.map(_.toString).toSet)
    nowNs += 2 * minuteNs
    Check.equal("told after ten minutes", told, Set(runs.last.toString))
  }

  private def takenElsewhere(fleet: Fleet): Unit = {
    import fleet._
    join(3)
    owns(0, 0, 5)
    holds(1, 0, 5)
    driver.lost("0")
    owns(2, 0, 5)
    Check.equal("how it ended", driver.migrations.map(_("state")), Seq("failed"))
    sent.clear()
    driver.tick()
    Check.equal("sent", sent.toSeq, Nil)
  }

  private def remade(fleet: Fleet): Unit = {
    import fleet._
    join(3)
    owns(0, 0, 5)
    val (_, first) = targets.head
    driver.lost(first)
    Check.equal("where", targets, Seq(0 -> (Set("1", "2") - first).head))
  }

  private def goneForGood(fleet: Fleet): Unit = {
    import fleet._
    join(3)
    owns(0, 0, 5)
    driver.lost("0")
    owns(0, 0, 6)
    Check.equal("executors", driver.executors.map(_("executor")), Seq("1", "2"))
    Check.equal("versions", driver.assignments.map(a => (a("owner"), a("version"))), Seq((null, 5L)))
    Check.equal("wanted there", wanted(0), Nil)
  }

  private def draining(fleet: Fleet): Unit = {
    import fleet._
    join(3)
    owns(0, 0, 5)
    owns(1, 1, 5)
    holds(1, 0, 5)
    place(0, "1")
    decommissioned += "0"
    driver.tick()
    Check.equal("sent", sent.map(_._2).toSeq, Seq("1"))
    Check.that(s"replicas on it: $targets", !targets.exists(_._2 == "0"))
    Check.equal("order", refused(driver.move(Run, 0, 1, "0", "direct")), "draining")
    owns(1, 0, 5)
    Check.equal("state", driver.migrations.map(_("state")), Seq("done"))
  }

  private def direct(fleet: Fleet): Unit = {
    import fleet._
    join(3)
    owns(0, 0, 5)
    driver.move(Run, 0, 0, "2", "direct")
    Check.equal("sent", sent.map(_._2).toSeq, Seq("2"))
    owns(2, 0, 5)
    Check.equal("state", driver.migrations.map(_("state")), Seq("done"))
  }

  private def assisted(fleet: Fleet): Unit = {
    import fleet._
    join(2)
    owns(0, 0, 5)
    Check.equal("without", refused(driver.move(Run, 0, 0, "1", "cpa")), "no_replica")
    holds(1, 0, 2)
    driver.move(Run, 0, 0, "1", "cpa")
    Check.equal("sent", sent.map(_._2).toSeq, Seq("1"))
  }

  private def assistedByLeftOver(fleet: Fleet): Unit = {
    import fleet._
    join(3)
    owns(0, 0, 5)
    place(0, "1")
    holds(1, 0, 5)
    // As a replica that has just been replaced by another one.
    holds(2, 0, 5)
    Check.equal("wanted there before", wanted(2), Nil)
    driver.move(Run, 0, 0, "2", "cpa")
    Check.equal("wanted there", wanted(2).map(each => each.key.partition -> each.isMoving), Seq(0 -> true))
    owns(2, 0, 5)
    Check.equal("where, in the end", targets, Seq(0 -> "1"))
  }

  private def lowLatency(fleet: Fleet): Unit = {
    import fleet._
    join(3)
    owns(0, 0, 5)
    place(0, "1")
    driver.move(Run, 0, 0, "2", "cpal")
    Check.that("a replica is wanted there", wanted(2).map(_.isMoving) == Seq(true))
    holds(2, 0, 3)
    Check.equal("sent too early", sent.toSeq, Nil)
    holds(2, 0, 4)
    Check.equal("sent", sent.map(_._2).toSeq, Seq("2"))
  }

  private def notWarm(fleet: Fleet): Unit = {
    import fleet._
    for ((limit, lag) <- Seq(0L -> 0, 3L -> 3)) {
      val other = new Fleet
      other.limits = ReplicaLimits(warmLagVersions = limit)
      import other.{driver, holds, join, owns, place, sent, targets}
      join(4)
      owns(0, 0, 9)
      place(0, "1")
      holds(1, 0, 9)
      place(0, "2")
      holds(2, 0, 9 - lag - 1)
      Check.equal("the one that is replaced stays", targets, Seq(0 -> "2", 0 -> "1"))
      driver.move(Run, 0, 0, "2", "cpal")
      Check.equal("sent too early", sent.toSeq, Nil)
      holds(2, 0, 9 - lag)
      Check.equal("sent", sent.map(_._2).toSeq, Seq("2"))
    }
  }

  private def warmUps(fleet: Fleet): Unit = {
    import fleet._
    limits = ReplicaLimits(warmUps = 2)
    join(4)
    def loading = (0 until 4).flatMap(e => wanted(e).map(w => w.key.partition -> e))
    (0 until 4).foreach(p => owns(0, p, 5))
    val begun = loading
    Check.equal("at a time", begun.size, 2)
    val waits = driver.replicas.filter(_("reason").toString.contains("replicaWarmUps = 2")).map(r => r("partition") -> r("state"))
    Check.equal("those that wait", waits.size, 2)
    Check.that(s"their states: $waits", waits.forall(_._2 == "loading"))
    // One that waits is ordered to move: it is the next, before the one that has waited for as long.
    val last = waits.last._1.asInstanceOf[Int]
    val to = targets.toMap.apply(last)
    driver.move(Run, 0, last, to, "cpal")
    Check.equal("before a turn is free", loading.toSet, begun.toSet)
    val (partition, executor) = begun.head
    holds(executor, partition, 5)
    Check.equal("in its place", loading.toSet - (partition -> executor), Set(begun(1), last -> to.toInt))
    Check.that("a warm one is followed", loading.contains(partition -> executor))
    // A replica that is not wanted any more gives its turn back.
    place(begun(1)._1)
    Check.equal("all have begun", loading.size, 3)
  }

  private def turns(fleet: Fleet): Unit = {
    import fleet._
    limits = ReplicaLimits(warmUps = 1)
    join(3)
    owns(0, 0, 5)
    owns(0, 1, 5)
    owns(0, 2, 5)
    place(0, "1")
    place(1, "1")
    Check.equal("first", wanted(1).map(_.key.partition), Seq(0))
    holds(1, 0, -1, "no_room")
    Check.equal("both", wanted(1).map(_.key.partition).toSet, Set(0, 1))
    // Executor 2 had partition 2 before: what its provider has left needs no load.
    owns(2, 2, 4)
    owns(0, 2, 6)
    place(2, "2")
    Check.equal("left over", wanted(2).map(_.key.partition), Seq(2))
  }

  private def limitsRefused(fleet: Fleet): Unit = {
    val prefix = "spark.sql.streaming.stateStore.cec."
    def parsed(name: String, text: String) = ReplicaLimits.parse(key => Option.when(key == prefix + name)(text))
    Check.equal("defaults", ReplicaLimits.parse(_ => None), ReplicaLimits(1, 0))
    Check.equal("given", parsed("replicaWarmUps", " 7 "), ReplicaLimits(1, 7))
    Check.equal("given", parsed("replicaWarmLagVersions", "0"), ReplicaLimits(0, 0))
    for ((name, text) <- Seq("replicaWarmUps" -> "-1", "replicaWarmUps" -> "10001", "replicaWarmLagVersions" -> "few")) {
      val said = try { parsed(name, text); "" } catch { case refused: Exception => refused.getMessage }
      Check.that(said, said.contains(s"$prefix$name = $text: a whole number from 0 to "))
    }
  }

  private def swapped(fleet: Fleet): Unit = {
    import fleet._
    join(3)
    owns(0, 0, 5)
    holds(1, 0, 5)
    val to = targets.head._2.toInt
    holds(to, 0, 5)
    driver.move(Run, 0, 0, s"$to", "cpa")
    owns(to, 0, 5)
    Check.equal("where", targets, Seq(0 -> "0"))
  }

  private def warmElsewhere(fleet: Fleet): Unit = {
    import fleet._
    join(3)
    owns(0, 0, 5)
    owns(0, 1, 5)
    for (partition <- Seq(0, 1); isWarm = partition == 0) {
      val elsewhere = targets.toMap.apply(partition)
      val to = 3 - elsewhere.toInt
      if (isWarm) holds(elsewhere.toInt, partition, 5)
      driver.move(Run, 0, partition, s"$to", "cpal")
      holds(to, partition, 5)
      owns(to, partition, 5)
      Check.equal(s"where, warm: $isWarm", targets.toMap.apply(partition), if (isWarm) elsewhere else "0")
    }
  }

  private def directThenOld(fleet: Fleet): Unit = {
    import fleet._
    join(3)
    owns(0, 0, 5)
    owns(0, 1, 5)
    for (partition <- Seq(0, 1); isWarm = partition == 1) {
      val elsewhere = targets.toMap.apply(partition)
      val to = 3 - elsewhere.toInt
      if (isWarm) holds(elsewhere.toInt, partition, 5)
      driver.move(Run, 0, partition, s"$to", "direct")
      owns(to, partition, 5)
      Check.equal(s"where, warm: $isWarm", targets.toMap.apply(partition), if (isWarm) elsewhere else "0")
    }
    Check.that("it is kept there", wanted(0).map(_.key.partition).contains(0))
  }

  private def placedSwapped(fleet: Fleet): Unit = {
    import fleet._
    join(4)
    owns(2, 0, 5)
    place(0, "1", "3")
    holds(1, 0, 5)
    driver.move(Run, 0, 0, "1", "cpal")
    owns(1, 0, 6)
    Check.equal("where, another being cold", targets.map(_._2).toSet, Set("2", "3"))
    leaves(2, 0)
    owns(1, 0, 7)
    Check.equal("without its state as well", targets.map(_._2).toSet, Set("2", "3"))
    driver.lost("2")
    Check.equal("as many elsewhere", targets.map(_._2).toSet, Set("0", "3"))
    place(0)
    driver.move(Run, 0, 0, "0", "direct")
    owns(0, 0, 8)
    Check.equal("none are wanted", targets, Nil)
  }

  private def placedCold(fleet: Fleet): Unit = {
    import fleet._
    join(3)
    owns(0, 0, 5)
    place(0, "1")
    driver.move(Run, 0, 0, "2", "direct")
    owns(2, 0, 6)
    Check.equal("both", targets, Seq(0 -> "1", 0 -> "0"))
    Check.equal("it is followed", wanted(0).map(_.key.partition), Seq(0))
    holds(1, 0, 6)
    Check.equal("once it is warm", targets, Seq(0 -> "1"))
  }

  private def targetLost(fleet: Fleet): Unit = {
    import fleet._
    join(3)
    owns(0, 0, 5)
    driver.move(Run, 0, 0, "2", "direct")
    driver.lost("2")
    Check.equal("state", driver.migrations.map(m => m("state") -> m("reason")), Seq("failed" -> "executor 2 is gone"))
  }

  private def refusals(fleet: Fleet): Unit = {
    import fleet._
    join(3)
    owns(0, 0, 5)
    place(0, "1")
    val before = (driver.assignments, targets, driver.migrations)
    Check.equal("partition", refused(driver.move(Run, 0, 9, "1", "direct")), "no_such_partition")
    Check.equal("query", refused(driver.move("other", 0, 0, "1", "direct")), "no_such_partition")
    Check.equal("executor", refused(driver.move(Run, 0, 0, "99", "direct")), "no_such_executor")
    Check.equal("owner", refused(driver.move(Run, 0, 0, "0", "cpal")), "owns_it")
    Check.equal("protocol", refused(driver.move(Run, 0, 0, "1", "fast")), "no_such_protocol")
    Check.equal("placing", refused(driver.place(Run, 0, 0, Seq("2", "99"))), "no_such_executor")
    Check.equal("placing on the owner", refused(driver.place(Run, 0, 0, Seq("0"))), "owns_it")
    Check.equal("cancelling", refused(driver.cancel(7)), "no_such_migration")
    Check.equal("what is left", (driver.assignments, targets, driver.migrations), before)
    driver.move(Run, 0, 0, "2", "direct")
    Check.equal("another", refused(driver.move(Run, 0, 0, "1", "direct")), "migration_running")
    driver.cancel(1)
    driver.move(Run, 0, 0, "1", "direct")
    Check.equal("states", driver.migrations.map(_("state")), Seq("cancelled", "locating"))
  }

  private def olderBatch(fleet: Fleet): Unit = {
    import fleet._
    join(2)
    owns(0, 0, 9)
    active += "again"
    owns(1, 0, 3, run = "again")
    Check.equal("owner and version", driver.assignments.map(a => (a("query"), a("owner"), a("version"))), Seq(("again", "1", 3L)))
    owns(0, 0, 10)
    Check.equal("after a late word of the first", driver.assignments.map(a => (a("query"), a("version"))), Seq(("again", 3L)))
  }

  private def leftOver(fleet: Fleet): Unit = {
    import fleet._
    join(2)
    owns(0, 0, 5)
    owns(1, 0, 6)
    report(0)
    Check.equal("owner", driver.assignments.map(_("owner")), Seq("1"))
    Check.equal("wanted on the first", wanted(0).map(_.head.version), Seq(6L))
  }

  private def readers(fleet: Fleet): Unit = {
    import fleet._
    join(2)
    owns(0, 0, 5)
    val before = driver.assignments
    owns(1, 0, 8, run = "a reader")
    Check.equal("assignments", driver.assignments, before)
  }

  private def newcomer(fleet: Fleet): Unit = {
    import fleet._
    join(2)
    (0 until 4).foreach(p => owns(p % 2, p, 5))
    (0 until 4).foreach(p => holds(1 - p % 2, p, 5))
    join(3)
    driver.tick()
    val wantedThere = wanted(2).map(_.key.partition)
    Check.equal("wanted there", wantedThere.size, 1)
    Check.equal("all of them", targets.size, 5)
    holds(2, wantedThere.head, 5)
    driver.tick()
    Check.equal("once it is warm", targets.count(_._1 == wantedThere.head), 1)
    Check.that(s"on it: $targets", targets.contains(wantedThere.head -> "2"))
  }

  private def shortage(fleet: Fleet): Unit = {
    import fleet._
    replicas = 2
    join(2)
    owns(0, 0, 5)
    Check.equal("said", driver.shortage, Some("replicas=2 needs 3 executors, there are 2: 1 of each partition are kept until more join"))
    join(3)
    Check.equal("said", driver.shortage, None)
    Check.equal("replicas", targets.size, 2)
  }

  private def placed(fleet: Fleet): Unit = {
    import fleet._
    join(4)
    owns(0, 0, 5)
    place(0, "3")
    driver.tick()
    Check.equal("where", targets, Seq(0 -> "3"))
    driver.lost("3")
    Check.equal("as many elsewhere", targets.size, 1)
    place(0)
    Check.equal("none", targets, Nil)
    driver.release(Run, 0, 0)
    Check.equal("as it likes", targets.size, 1)
  }

  private def replaced(fleet: Fleet): Unit = {
    import fleet._
    join(4)
    owns(0, 0, 5)
    place(0, "1")
    holds(1, 0, 5)
    place(0, "2")
    driver.tick()
    Check.equal("both", targets, Seq(0 -> "2", 0 -> "1"))
    Check.equal("the old one is followed", wanted(1).map(_.key.partition), Seq(0))
    holds(2, 0, 5)
    Check.equal("the new one alone", targets, Seq(0 -> "2"))
    place(0, "3")
    place(0, "1")
    Check.equal("a cold one does not stay", targets, Seq(0 -> "1"))
  }

  private def replacedWithoutRoom(fleet: Fleet): Unit = {
    import fleet._
    join(3)
    owns(0, 0, 5)
    place(0, "1")
    holds(1, 0, 5)
    place(0, "2")
    owns(2, 1, 5)
    place(1, "1")
    Check.equal("both", targets, Seq(0 -> "2", 0 -> "1", 1 -> "1"))
    holds(1, 1, -1, "no_room")
    Check.equal("it makes room", targets, Seq(0 -> "2", 1 -> "1"))
  }

  private def arrivalOfJoin(fleet: Fleet): Unit = {
    import fleet._
    stores = Seq("left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues", "right-keyWithIndexToValue")
    join(2)
    owns(0, 0, 5)
    holds(1, 0, 5)
    driver.move(Run, 0, 0, "1", "cpa")
    owns(1, 0, 5)
    val arrivals = instructed(1).content.get.news.map { case (key, news) => key.name -> news.arrivals }.toMap
    Check.equal("arrivals", arrivals, stores.map(_ -> 0L).toMap + ("left-keyWithIndexToValue" -> 1L))
  }

  private def ownerNews(fleet: Fleet): Unit = {
    import fleet._
    join(2)
    owns(0, 0, 5)
    holds(1, 0, 3)
    def news(executor: Int) = instructed(executor).content.get.news.map(_._2)
    Check.equal("news", news(0), Seq(OwnerNews(2, 100, 0)))
    driver.move(Run, 0, 0, "1", "cpa")
    owns(1, 0, 5)
    val owned = new OwnedStore(key(0, "default"), Run, false, 1, () => None)
    owned.hear(news(1).headOption)
    Check.equal("arrivals", Seq(owned.takeNews().arrivals, owned.takeNews().arrivals), Seq(1L, 0L))
  }

  /** Kinds, with partition and executors. */
  private def told(fleet: Fleet): Seq[String] = fleet.driver.events.map { event =>
    val words = Seq("partition", "from", "executor", "reason").map(event).filter(word => word != null && word != "")
    (event("kind") +: words).mkString(" ")
  }

  private def history(fleet: Fleet): Unit = {
    import fleet._
    join(3)
    owns(0, 0, 5)
    Check.equal("where", targets, Seq(0 -> "1"))
    holds(1, 0, 5)
    driver.move(Run, 0, 0, "1", "cpa")
    owns(1, 0, 6)
    val before = told(fleet)
    report(1)
    driver.tick()
    Check.equal("told again", told(fleet), before)
    decommissioned += "2"
    driver.tick()
    driver.lost("1")
    Check.equal("said", told(fleet).filter(!_.startsWith("replica")), Seq("executor_joined 0", "executor_joined 1", "executor_joined 2",
      "owned 0 0", "move_ordered 0 0 1", "move_done 0 0 1", "owned 0 0 1", "executor_draining 2", "orphaned 0 1", "executor_lost 1"))
    val replicas = told(fleet).filter(_.startsWith("replica"))
    Check.equal("of the replica", replicas.filter(_.endsWith(" 0 1")).take(3), Seq("replica_placed 0 1", "replica_warm 0 1", "replica_dropped 0 1"))
    Check.equal("numbers", driver.events.map(_("number")), (1L to driver.events.size.toLong))
    Check.equal("the move's", driver.events.flatMap(e => Option(e("move"))), Seq(1L, 1L))
  }

  private def historyOfRuns(fleet: Fleet): Unit = {
    import fleet._
    join(2)
    owns(0, 0, 5)
    holds(1, 0, 5)
    val before = told(fleet)
    active += "again"
    owns(0, 0, 3, run = "again")
    holds(1, 0, 3)
    Check.equal("said", told(fleet).drop(before.size), Seq("owned 0 0"))
    holds(1, 0, -1, "no_room")
    holds(1, 0, 3)
    Check.equal("said of room", told(fleet).drop(before.size + 1), Seq("replica_evicted 0 1", "replica_warm 0 1"))
  }

  private def boundedHistory(fleet: Fleet): Unit = {
    import fleet._
    join(2)
    owns(0, 0, 5)
    (0 to History.Max / 2).foreach(_ => { holds(1, 0, 5); holds(1, 0, -1, "no_room") })
    val numbers = driver.events.map(_("number").asInstanceOf[Long])
    Check.equal("kept", numbers.size, History.Max)
    Check.that("the newest", numbers.head > 1 && numbers == (numbers.head to numbers.last))
  }

  private def wire(fleet: Fleet): Unit = {
    import fleet._
    val owned = Report.Owned(key(3, "left"), Run, Some(Head(7, "id")), isOrdered = true, 2, 11, 12, Some(LoadFigures(6, isFromReplica = true, 5, 4)))
    val report = Report("1", "host", 9, 1000, Seq(owned, owned.copy(head = None, load = None)), Seq(Report.Held(key(4, ""), -1, 0, "failing", "why")))
    Check.equal("report", Report.decode(report.encoded), report)
    val content = Instructions.Content(Seq(Wanted(key(1, "a"), Head(3, "x"), isOrdered = true, isMoving = true, 77)), Seq(key(2, "b") -> OwnerNews(1, 2, 3)))
    for (instructions <- Seq(Instructions(4, Some(content)), Instructions(5, None)))
      Check.equal("instructions", Instructions.decode(instructions.encoded), instructions)
  }
}

/** A driver's side and what executors tell it; Spark's routing table is a map. */
final class Fleet {
  val Run = "run"
  var stores: Seq[String] = Seq("default")
  var replicas = 1
  val hosts: mutable.Map[Int, String] = mutable.Map.empty
  val racks: mutable.Map[String, String] = mutable.Map.empty
  val sent: mutable.ArrayBuffer[(StoreKey, String)] = mutable.ArrayBuffer.empty
  val table: mutable.Map[StoreKey, String] = mutable.Map.empty
  val decommissioned: mutable.Set[String] = mutable.Set.empty
  val active: mutable.Set[String] = mutable.Set(Run)
  var nowMs = 0L
  /** Times that the table was asked for a store's place. */
  var looked = 0
  private val owned = mutable.Map.empty[Int, Map[StoreKey, Report.Owned]].withDefaultValue(Map.empty)
  private val held = mutable.Map.empty[Int, Map[StoreKey, Report.Held]].withDefaultValue(Map.empty)

  /** Set before anything is told. */
  private[cecstore] var limits = ReplicaLimits()
  private[cecstore] lazy val driver = new Driver(new Routing {
    override def send(runId: String, key: StoreKey, host: String, executor: String): Unit = { table(key) = executor; sent += key -> executor }
    override def where(runId: String, key: StoreKey): Option[String] = { looked += 1; table.get(key) }
  }, decommissioned.contains, () => active.toSet, () => nowMs, limits, racks.get)

  private[cecstore] def key(partition: Int, store: String): StoreKey = StoreKey("root", 0, partition, store)

  private[cecstore] def instructed(executor: Int): Instructions = driver.heard(Report(
    s"$executor", hosts.getOrElse(executor, s"host$executor"), 0, 1000, owned(executor).values.toSeq, held(executor).values.toSeq))
  def report(executor: Int): Unit = instructed(executor)
  private[cecstore] def wanted(executor: Int): Seq[Wanted] = instructed(executor).content.get.wanted

  def join(executors: Int): Unit = (0 until executors).foreach(report)

  def owns(executor: Int, partition: Int, version: Long, run: String = Run): Unit = {
    val told = stores.map(name => key(partition, name) -> Report.Owned(key(partition, name), run, Some(Head(version, s"$run-$version")),
      isOrdered = false, replicas, 10, 100, Some(LoadFigures(version, isFromReplica = false, 10, 1))))
    owned(executor) = owned(executor) ++ told
    report(executor)
  }

  def holds(executor: Int, partition: Int, version: Long, state: String = "warm"): Unit = {
    held(executor) = held(executor) ++ stores.map(name => key(partition, name) -> Report.Held(key(partition, name), version, 100, state, ""))
    report(executor)
  }

  /** The executor's provider is gone. */
  def leaves(executor: Int, partition: Int): Unit = {
    owned(executor) = owned(executor).filter(_._1.partition != partition)
    report(executor)
  }

  def place(partition: Int, executors: String*): Unit = driver.place(Run, 0, partition, executors)

  /** Where replicas are wanted, by partition. */
  def targets: Seq[(Int, String)] = driver.replicas.map(r => r("partition").asInstanceOf[Int] -> r("executor").asInstanceOf[String])

  def refused(order: => Any): String = try { order; "" } catch { case refused: Refused => refused.kind }
}
