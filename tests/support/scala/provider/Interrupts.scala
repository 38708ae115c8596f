package org.apache.spark.sql.cecstore.testing

import java.io.IOException
import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.util.Random

import org.apache.spark.sql.execution.streaming.state._

/** Tasks that are interrupted anywhere, as Spark does when it kills one or a query stops. */
object Interrupts {
  def run(words: Arguments): Programs.Result = {
    val runs = Seeded.run(words, until = 4)(new InterruptRun(words, _))
    Check.equal("streams left open", SyncedFiles.open.get, 0)
    Map(
      "acknowledged" -> runs.map(_.acknowledged).sum,
      "broken" -> runs.map(_.broken).sum,
      "brokenCommits" -> runs.map(_.brokenCommits).sum,
      "closed" -> runs.map(_.closed).sum)
  }

  /** How many states tasks own: none, once all have ended. */
  def owned(provider: StateStoreProvider): Int =
    valueIn(valueIn(provider, "pool"), "owned").asInstanceOf[mutable.Map[_, _]].size

  private def valueIn(of: AnyRef, name: String): AnyRef = {
    val field = of.getClass.getDeclaredFields.find(_.getName.endsWith(name)).get
    field.setAccessible(true)
    field.get(of)
  }
}

final class InterruptRun(words: Arguments, seed: Long) extends Seeded {
  private val random = new Random(seed)
  private val v2 = seed % 2 == 1
  private val family = Family.kinds("plain")("default", false)
  private val stores = new Stores(
    Stores.root(words, seed), words.text("provider"), words.settings, v2 = v2)
  private var provider = stores.provider(family)
  private var models = Vector((Stores.Start, Model.Empty))

  var (acknowledged, broken, brokenCommits, closed) = (0, 0, 0, 0)
  var where = "start"

  def all(): Unit = {
    val rounds = words.number("rounds", 60).toInt
    for (round <- 0 until rounds) {
      where = s"round $round"
      if (random.nextInt(8) == 0) {
        provider.close()
        provider = stores.provider(family)
      }
      task()
      Check.equal("states that tasks own after their end", Interrupts.owned(provider), 0)
      same(provider, models.last)
      if (round % 20 == 19) {
        val fresh = stores.provider(family)
        models.tail.foreach(same(fresh, _))
        models.tail.foreach(same(provider, _))
        fresh.close()
      }
    }
    provider.close()
  }

  private def same(provider: StateStoreProvider, wanted: (Version, Model)): Unit = Tasks.run {
    val store = provider.getReadStore(wanted._1.number, wanted._1.id)
    StoreReader.same(s"${wanted._1}", store, family, wanted._2)
  }

  /** Interrupted by itself just before a call, or from outside at any moment; or its provider is closed. */
  private def task(): Unit = {
    val moment = random.nextInt(6)
    val delayUs = random.nextInt(3000)
    val mine = provider
    made = None
    failure = None
    val seed = random.nextLong()
    val running = new Thread(() =>
      try attempt(mine, moment, seed)
      catch { case wrong: Throwable => failure = Some(wrong) })
    running.start()
    if (moment == 3 || moment == 4) {
      TimeUnit.MICROSECONDS.sleep(delayUs)
      running.interrupt()
    }
    if (moment == 5 && random.nextInt(3) == 0) {
      closed += 1
      provider.close()
      provider = stores.provider(family)
    }
    running.join(30000)
    Check.that("the task hangs", !running.isAlive)
    failure.foreach(throw _)
    made.foreach { case (version, model) =>
      acknowledged += 1
      models = models.takeWhile(_._1.number < version.number) :+ (version -> model)
    }
  }

  @volatile private var made = Option.empty[(Version, Model)]
  @volatile private var failure = Option.empty[Throwable]

  private def attempt(provider: StateStoreProvider, moment: Int, seed: Long): Unit = {
    val random = new Random(seed)
    var isCommitting = false
    try Tasks.run {
      def interrupted(at: Int): Unit = if (moment == at) Thread.currentThread.interrupt()
      interrupted(0)
      val store = Stores.open(provider, models.last._1)
      try {
        StoreReader.same("just opened", store, family, models.last._2)
        val steps = new Steps(random, store, models.last._2)
        for (_ <- 0 until random.nextInt(30)) steps.take(family)
        if (random.nextInt(4) == 0) {
          interrupted(1)
          store.abort()
        } else {
          interrupted(2)
          isCommitting = true
          made = Some(Stores.commit(store, v2) -> steps.result)
        }
      } finally if (!store.hasCommitted && made.isEmpty) store.abort() // as a failing task's listener does
    } catch {
      case _: InterruptedException => broken += 1
      case e: IOException if e.getClass.getSimpleName != "CecLogException" =>
        broken += 1
        if (isCommitting) brokenCommits += 1
    }
  }
}
