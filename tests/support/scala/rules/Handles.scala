package org.apache.spark.sql.cecstore.testing

import java.util.concurrent.CountDownLatch

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.execution.streaming.state._

/** A handle is good for its task, and a reader's shows its version whatever a writer does beside it. */
object Handles {
  import Setting.{inThread, refused}

  val rules: Seq[(String, Setting => Unit)] = Seq(
    "a late put reaches no other task's commit" -> latePut,
    "a late commit or abort changes nothing for the next task" -> lateEnd,
    "a call that is under way when its task ends keeps the state from the next task" -> underWay,
    "a scan does not go on once its store has committed or given up" -> ended,
    "a reader never sees what a writer of its task does" -> (readBeside(_, inTask = true)),
    "a reader never sees what a writer of its thread does" -> (readBeside(_, inTask = false)),
    "a reader closed late takes nothing from the next writer" -> lateReader,
    "a reader never sees a family that a writer makes or removes" -> families)

  private def latePut(setting: Setting): Unit = {
    import setting._
    val provider = setting.provider()
    val base = version(provider, Stores.Start, 1 -> 1)
    val late = Tasks.run {
      val store = Stores.open(provider, base)
      put(store, 2, 2)
      store
    }
    val made = Tasks.run {
      val store = Stores.open(provider, base)
      put(store, 3, 3)
      for (call <- Seq[() => Any](() => put(late, 4, 4), () => remove(late, 1), () => late.get(family.key(1), "default"),
          () => late.iterator("default").hasNext)) {
        refused(inThread(call())) match {
          case named: SparkThrowable => Check.equal("a late call's condition", named.getCondition, "STATE_STORE_INVALID_STAMP")
          case other => throw other
        }
      }
      commit(store)
    }
    Check.equal("what the next task committed", loaded(made), Map(1 -> 1, 3 -> 3))
    provider.close()
  }

  private def lateEnd(setting: Setting): Unit = {
    import setting._
    val provider = setting.provider()
    val base = version(provider, Stores.Start, 1 -> 1)
    val (late, other) = (Tasks.run(Stores.open(provider, base)), Tasks.run(Stores.open(provider, base)))
    val made = Tasks.run {
      val store = Stores.open(provider, base)
      put(store, 3, 3)
      inThread(late.abort())
      refused(inThread(other.commit()))
      Check.equal("what the task has put", content(store), Map(1 -> 1, 3 -> 3))
      commit(store)
    }
    Check.equal("what the next task committed", loaded(made), Map(1 -> 1, 3 -> 3))
    provider.close()
  }

  /** Threads that put without a pause, whatever they are told, while their task ends and the next one begins. */
  private def underWay(setting: Setting): Unit = {
    import setting._
    val provider = setting.provider("spark.sql.streaming.stateStore.cec.syncMode" -> "none")
    var base = version(provider, Stores.Start, 1 -> 1)
    for (round <- 0 until 60) {
      val begun = new CountDownLatch(1)
      @volatile var isOver = false
      val thread = Tasks.run {
        val store = Stores.open(provider, base)
        val putting = new Thread(() => while (!isOver) {
          for (key <- 10 until 30) try put(store, key, round % 60) catch { case _: Exception => () }
          begun.countDown()
        })
        putting.start()
        begun.await()
        putting
      }
      base = try version(provider, base, 1 -> round % 60) finally { isOver = true; thread.join() }
      Check.equal(s"what round $round committed", Tasks.run(content(provider.getReadStore(base.number, base.id))), Map(1 -> round % 60))
    }
    Check.equal("what the last task committed", loaded(base), Map(1 -> 59))
    provider.close()
  }

  /** In no order, in order, and narrowed to rows that are due; one that is through says so at any time. */
  private def ended(setting: Setting): Unit = {
    val timed = TimedKind.all("window")
    val stores = new TimedStores(setting.words, s"${setting.folder}/due", timed, setting.words.settings, setting.v2)
    val plain = Family.kinds("plain")("default", false)
    val ordered = Family.kinds("ranged")("default", false)
    val kinds = Seq[(StateStoreProvider, Map[String, String], StateStore => Unit)](
      (setting.stores().provider(plain), Map.empty, store => (1 to 9).foreach(n => store.put(plain.key(n), Values.row(n), "default"))),
      (setting.stores().provider(ordered), Map.empty, store => (1 to 9).foreach(n => store.put(ordered.key(n), Values.row(n), "default"))),
      (stores.provider(), stores.hint(Stores.Start, 100L), store =>
        (1 to 9).foreach(n => store.put(timed.key(n, Some(n.toLong)), timed.value(Some(n.toLong), n), "default"))))
    for ((provider, properties, fill) <- kinds; isCommitted <- Seq(false, true)) {
      Tasks.runOf(properties) {
        val store = Stores.open(provider, Stores.Start)
        fill(store)
        val (begun, untouched, through, closed) = (store.iterator("default"), store.iterator("default"), store.iterator("default"), store.iterator("default"))
        begun.next()
        Check.equal("rows of a scan that is through", through.size, 9)
        closed.close()
        if (isCommitted) setting.commit(store) else store.abort()
        for (call <- Seq[() => Any](() => begun.hasNext, () => begun.next(), () => untouched.hasNext, () => untouched.next())) refused(call()) match {
          case named: SparkThrowable => Check.equal("the condition", named.getCondition, "STATE_STORE_OPERATION_OUT_OF_ORDER")
          case other => throw other
        }
        Check.that("a scan that is through has more", !through.hasNext && !closed.hasNext)
      }
      // A version that was committed is not made again.
      if (isCommitted) provider.close()
    }
  }

  private def readBeside(setting: Setting, inTask: Boolean): Unit = {
    import setting._
    val provider = setting.provider()
    val before = Map(1 -> 1, 2 -> 2, 3 -> 3)
    val base = version(provider, Stores.Start, before.toSeq: _*)
    def all(): Unit = {
      val reader = provider.getReadStore(base.number, base.id)
      same("before there is a writer", reader, before)
      val writer = Stores.open(provider, base)
      val begun = reader.iterator("default")
      put(writer, 1, 10)
      put(writer, 4, 4)
      remove(writer, 2)
      put(writer, 5, 5)
      remove(writer, 5)
      put(writer, 2, 20)
      remove(writer, 2)
      Check.equal("keys of an iterator from before", begun.map(pair => family.place(pair.key)).toSet, before.keySet)
      same("beside a writer", reader, before)
      Check.equal("what the writer has", content(writer), Map(1 -> 10, 3 -> 3, 4 -> 4))
      val made = commit(writer)
      same("after the commit", reader, before)
      val next = Stores.open(provider, made)
      put(next, 1, 50)
      same("beside the next writer", reader, before)
      reader.abort()
      Check.equal("what the next writer has", content(next), Map(1 -> 50, 3 -> 3, 4 -> 4))
      Check.equal("committed in the end", loaded(commit(next)), Map(1 -> 50, 3 -> 3, 4 -> 4))
    }
    if (inTask) Tasks.run(all()) else all()
    provider.close()
  }

  private def lateReader(setting: Setting): Unit = {
    import setting._
    val provider = setting.provider()
    val base = version(provider, Stores.Start, 1 -> 1)
    val reader = provider.getReadStore(base.number, base.id)
    Stores.open(provider, base).abort()
    val made = Tasks.run {
      val store = Stores.open(provider, base)
      put(store, 2, 2)
      inThread(reader.abort())
      commit(store)
    }
    Check.equal("what was committed", loaded(made), Map(1 -> 1, 2 -> 2))
    provider.close()
  }

  private def families(setting: Setting): Unit = {
    import setting._
    val provider = stores().provider(family, families = true)
    def create(store: StateStore, name: String): Unit =
      store.createColFamilyIfAbsent(name, family.keySchema, Values.schema, family.spec, false, false)
    val base = Tasks.run {
      val store = Stores.open(provider, Stores.Start)
      create(store, "old")
      store.put(family.key(1), Values.row(1), "old")
      commit(store)
    }
    Tasks.run {
      val reader = provider.getReadStore(base.number, base.id)
      val writer = Stores.open(provider, base)
      create(writer, "new")
      writer.removeColFamilyIfExists("old")
      Check.equal("families that the reader has", reader.allColumnFamilyNames, Set("default", "old"))
      Check.equal("a key of one that is removed", Values.place(reader.get(family.key(1), "old")), 1)
      refused(reader.get(family.key(1), "new"))
      Check.equal("families that the writer has", writer.allColumnFamilyNames, Set("default", "new"))
      writer.abort()
    }
    provider.close()
  }
}
