package org.apache.spark.sql.cecstore.testing

import java.util.concurrent._

import scala.util.{Random, Try}

import org.apache.spark.sql.execution.streaming.state._

/** Attempts that overlap: twins that commit one version at once, retries, and zombies that wake too late. */
object Races {
  def run(words: Arguments): Programs.Result = {
    val runs = Seeded.run(words, until = 4)(new RaceRun(words, _))
    Map(
      "V1" -> runs.filter(!_.v2).map(_.rounds).sum,
      "V2" -> runs.filter(_.v2).map(_.rounds).sum,
      "twins" -> runs.map(_.twins).sum,
      "retries" -> runs.map(_.retries).sum,
      "zombies" -> runs.map(_.zombies).sum,
      "aborts" -> runs.map(_.aborts).sum,
      "loads" -> runs.map(_.loads).sum) ++ NarrowFiles.counts
  }
}

/** One attempt at a version. It commits when it is told to, or gives up. */
final class Attempt(
    provider: StateStoreProvider, val base: Version, model: Model, family: Family, seed: Long,
    v2: Boolean, meet: () => Unit, ready: () => Unit) extends Callable[Option[(Version, Model)]] {

  override def call(): Option[(Version, Model)] = Tasks.run {
    val random = new Random(seed)
    val store = Stores.open(provider, base)
    StoreReader.same(s"attempt on $base", store, family, model)
    val steps = new Steps(random, store, model)
    meet()
    for (_ <- 0 until 1 + random.nextInt(30)) steps.take(family)
    // Never what another attempt writes as well.
    val mark = random.nextInt(Values.size)
    store.put(family.key(random.nextInt(family.size)), Values.row(mark), family.name)
    val made = Model(Map(family.name -> StoreReader.content(store, family)))
    ready()
    if (random.nextInt(6) == 0) {
      store.abort()
      None
    } else Some(Stores.commit(store, v2) -> made)
  }
}

final class RaceRun(words: Arguments, seed: Long) extends Seeded {
  private val random = new Random(seed)
  val v2: Boolean = seed % 2 == 1
  private val maintained = seed / 2 % 2 == 1
  private val family = Family.kinds("plain")("default", false)
  private val kept = 8
  private val stores = new Stores(
    Stores.root(words, seed), words.text("provider"),
    words.settings ++ Map(
      "spark.sql.streaming.minBatchesToRetain" -> kept.toString,
      "spark.sql.streaming.stateStore.cec.syncMode" -> (if (seed % 8 < 2) "commit" else "none"),
      "spark.sql.streaming.stateStore.minDeltasForSnapshot" -> "3"),
    v2 = v2)
  private val threads = Executors.newCachedThreadPool { body =>
    val thread = new Thread(body)
    thread.setDaemon(true)
    thread
  }

  private val executors = Array.fill(3)(stores.provider(family))
  private var committed = Map(Stores.Start -> Set(Model.Empty))
  private var head = Stores.Start
  private var state = Model.Empty
  /** Zombies, each with the round in which it wakes and what wakes it. */
  private var asleep = Vector.empty[(Int, Version, CountDownLatch, Future[Option[(Version, Model)]])]

  var (rounds, twins, retries, zombies, aborts, loads) = (0, 0, 0, 0, 0, 0)
  var where = "start"

  def all(): Unit = {
    while (rounds < words.number("rounds", 50)) round()
    asleep.foreach { case (_, _, latch, zombie) => latch.countDown(); note(zombie) }
    settled("at the end")
    val numbers = committed.keys.filter(_.number > head.number - kept)
    numbers.toVector.sortBy(_.number).foreach(agree)
    emptied()
    executors.foreach(_.close())
    threads.shutdown()
  }

  /** Who asks for a version without its content leaves nothing empty behind for the next. */
  private def emptied(): Unit = for (commits <- Seq(false, true)) {
    where = s"emptied, $commits"
    Tasks.run {
      val store = executors(0).getStore(head.number, head.id, forceSnapshotOnCommit = false, loadEmpty = true)
      StoreReader.same("loaded empty", store, family, Model.Empty)
      if (commits) store.commit() else store.abort()
    }
    Check.equal(s"$head after it was asked for empty", read(executors(0), head), state)
  }

  private def round(): Unit = {
    rounds += 1
    if (random.nextInt(10) == 0) restart(random.nextInt(3))
    val (awake, later) = asleep.partition(_._1 <= rounds)
    asleep = later
    // With V1 whoever commits a version again may change it: only older ones wake amid a race.
    val (amid, before) = awake.partition { case (_, base, _, _) => v2 || base.number + 1 < head.number }
    before.foreach { case (_, _, latch, zombie) => latch.countDown(); note(zombie) }
    if (before.nonEmpty) settled(s"round $rounds, after a zombie")
    where = s"round $rounds on $head"
    if (random.nextInt(4) == 0) sleeper()
    amid.foreach(_._3.countDown())
    val busy = Option.when(maintained)(threads.submit[Unit](() => executors(rounds % 3).doMaintenance()))
    val made = if (random.nextInt(3) == 0) inTurn() else atOnce()
    busy.foreach(_.get())
    amid.foreach(zombie => note(zombie._4))
    settle(made)
    where = s"round $rounds after $head"
    committed.keys.filter(v => v.number == head.number - 2 - random.nextInt(3)).foreach(agree)
  }

  private def restart(executor: Int): Unit = {
    executors(executor).close()
    executors(executor) = stores.provider(family)
  }

  private def attempt(meet: () => Unit, ready: () => Unit, executor: Int = random.nextInt(3)): Attempt =
    new Attempt(executors(executor), head, state, family, random.nextLong(), v2, meet, ready)

  private def sleeper(): Unit = {
    val (latch, loaded) = (new CountDownLatch(1), new CountDownLatch(1))
    val zombie = threads.submit(attempt(() => (), () => { loaded.countDown(); latch.await() }))
    while (!loaded.await(10, TimeUnit.MILLISECONDS)) if (zombie.isDone) zombie.get()
    asleep :+= ((rounds + 1 + random.nextInt(3), head, latch, zombie))
    zombies += 1
  }

  /** Twins and triplets put and commit as nearly at once as can be; often on one executor. */
  private def atOnce(): Vector[Option[(Version, Model)]] = {
    val count = 2 + random.nextInt(2)
    val start = new CyclicBarrier(count)
    val together = () => { start.await(30, TimeUnit.SECONDS); () }
    val one = random.nextInt(3)
    val tasks = Vector.fill(count)(
      attempt(together, together, if (random.nextBoolean()) one else random.nextInt(3)))
    twins += 1
    val running = tasks.map(task => threads.submit[Option[(Version, Model)]] { () =>
      try task.call()
      catch { case wrong: Throwable => start.reset(); throw wrong }
    })
    // The one that is wrong before those that only wait for it.
    val failed = running.flatMap(task => Try(task.get(60, TimeUnit.SECONDS)).failed.toOption)
    failed.sortBy(_.getCause.isInstanceOf[BrokenBarrierException]).headOption.foreach(throw _)
    running.map(note)
  }

  /** One after the other, as the retry of a task that was lost after its commit. */
  private def inTurn(): Vector[Option[(Version, Model)]] = {
    retries += 1
    val made = Vector.fill(1 + random.nextInt(3))(note(threads.submit(attempt(() => (), () => ()))))
    // The last that committed stands behind the others.
    if (v2) made else made.flatten.lastOption.map(Option(_)).toVector
  }

  private def note(task: Future[Option[(Version, Model)]]): Option[(Version, Model)] = {
    val made = task.get(60, TimeUnit.SECONDS)
    if (made.isEmpty) aborts += 1
    made.foreach { case (version, model) =>
      committed = committed.updated(version, committed.getOrElse(version, Set.empty) + model)
    }
    made
  }

  /** The next batch builds on one of these: with V1 the log says which, with V2 Spark does. */
  private def settle(made: Vector[Option[(Version, Model)]]): Unit = made.flatten match {
    case Vector() => settled(s"round $rounds, all given up")
    case some =>
      where = s"round $rounds committed ${some.map(_._1)}"
      if (v2) some.foreach { case (version, _) => agree(version) }
      head = some(random.nextInt(some.size))._1
      val found = read(stores.provider(family), head, close = true)
      Check.that(s"$head is the content of one attempt", some.exists(_._2 == found))
      state = found
      settled(s"round $rounds")
  }

  /** Every executor and a fresh one have the same state for the next batch. */
  private def settled(what: String): Unit = {
    where = s"$what on $head"
    val found = read(stores.provider(family), head, close = true)
    Check.that(s"$head is the content of one attempt", committed(head)(found))
    if (found != state) Check.that(s"$head changed, and no zombie committed it", !v2 && what.contains("zombie") || what.contains("end"))
    state = found
    for (executor <- executors) Check.equal(s"$head on a warm executor", read(executor, head), state)
  }

  /** An older version: a whole attempt's content, and the same everywhere. */
  private def agree(version: Version): Unit = {
    val found = read(stores.provider(family), version, close = true)
    Check.that(s"$version is the content of one attempt: $found", committed(version)(found))
    Check.equal(s"$version elsewhere", read(executors(random.nextInt(3)), version), found)
  }

  private def read(provider: StateStoreProvider, version: Version, close: Boolean = false): Model = {
    loads += 1
    val found = Tasks.run {
      val store = provider.getReadStore(version.number, version.id)
      Model(Map(family.name -> StoreReader.content(store, family)))
    }
    if (close) provider.close()
    found
  }
}
