package org.apache.spark.sql.cecstore.testing

import scala.collection.mutable

import org.apache.spark.sql.execution.streaming.state._

/** What `transformWithState` needs of a store beyond what the other operators do. */
object TransformRules {
  val rules: Seq[(String, Setting => Unit)] = Seq(
    "a scan shows what was there when it began" -> scan,
    "a scan of nothing shows nothing that comes later" -> scanOfNothing,
    "a scan that is left early is over, and others go on with what they began with" -> leftEarly,
    "an iterator that seeks shows what is there then" -> seeks,
    "a long list is read whole and once" -> list,
    "an append to a list puts little again" -> appends,
    "changes of a long list are told once" -> told,
    "keys of Spark's own families are not counted" -> counted)

  private val Default = StateStore.DEFAULT_COL_FAMILY_NAME
  private val timers = Family.kinds("ranged")(Default, false)
  private val lists = Family.kinds("plain")(Default, true)

  private def values(found: Iterator[UnsafeRowPair]): List[(Int, Int)] =
    found.map(pair => timers.place(pair.key) -> Values.place(pair.value)).toList

  private def put(store: StateStore, key: Int, value: Int): Unit = store.put(timers.key(key), Values.row(value), Default)

  /** As timers do that set, move and remove timers while timers expire. */
  private def scan(setting: Setting): Unit = {
    val provider = setting.stores().provider(timers)
    val base = Tasks.run {
      val store = Stores.open(provider, Stores.Start)
      Seq(4, 8, 12, 16, 20).foreach(key => put(store, key, key))
      setting.commit(store)
    }
    Tasks.run {
      val store = Stores.open(provider, base)
      put(store, 18, 18)
      val before = store.iterator(Default)
      val first = values(before.take(1))
      Seq(4, 12, 18).foreach(key => store.remove(timers.key(key), Default))
      put(store, 18, 1)
      Seq(2, 9, 24, 16).foreach(key => put(store, key, 0))
      val after = store.iterator(Default)
      store.remove(timers.key(24), Default)
      Check.equal("the scan that began before", first ++ values(before), List(4 -> 4, 8 -> 8, 12 -> 12, 16 -> 16, 18 -> 18, 20 -> 20))
      Check.equal("the scan that began after", values(after), List(2 -> 0, 8 -> 8, 9 -> 0, 16 -> 0, 18 -> 1, 20 -> 20, 24 -> 0))
      Check.equal("a scan of now", values(store.iterator(Default)), List(2 -> 0, 8 -> 8, 9 -> 0, 16 -> 0, 18 -> 1, 20 -> 20))
      setting.commit(store)
    }
    provider.close()
  }

  /** Of a family without an order too: both of Spark's stores agree on that. */
  private def scanOfNothing(setting: Setting): Unit = {
    val provider = setting.provider()
    Tasks.run {
      val store = Stores.open(provider, Stores.Start)
      val before = store.iterator("default")
      setting.put(store, 1, 1)
      Check.equal("a scan of nothing", before.size, 0)
      Check.equal("a scan of now", setting.content(store), Map(1 -> 1))
      store.abort()
    }
    provider.close()
  }

  /** As a map does that is asked whether it has a key, which is then updated again and again. */
  private def leftEarly(setting: Setting): Unit = {
    val provider = setting.stores().provider(timers)
    Tasks.run {
      val store = Stores.open(provider, Stores.Start)
      Seq(4, 8, 12).foreach(key => put(store, key, key))
      val first = store.iterator(Default)
      Check.that("there is something", first.hasNext)
      put(store, 8, 1)
      val second = store.iterator(Default)
      first.close()
      first.close()
      (2 to 9).foreach(value => put(store, 8, value))
      store.remove(timers.key(12), Default)
      Check.equal("the other one", values(second), List(4 -> 4, 8 -> 1, 12 -> 12))
      put(store, 8, 10)
      Check.equal("a scan of now", values(store.iterator(Default)), List(4 -> 4, 8 -> 10))
      store.abort()
    }
    provider.close()
  }

  private def seeks(setting: Setting): Unit = {
    val provider = setting.stores().provider(timers)
    Tasks.run {
      val store = Stores.open(provider, Stores.Start)
      Seq(4, 8, 12).foreach(key => put(store, key, key))
      val found = store.asInstanceOf[SupportsReusableIterator].reusableIterator(Default)
      Check.equal("all", values(found), List(4 -> 4, 8 -> 8, 12 -> 12))
      store.remove(timers.key(12), Default)
      put(store, 16, 16)
      found.refreshAndSeekToPrefix(timers.prefix(8))
      Check.equal("from the seek on", values(found), List(8 -> 8, 16 -> 16))
      found.close()
      store.abort()
    }
    provider.close()
  }

  private def numbers(count: Int, from: Int = 0): Vector[Int] = Vector.tabulate(count)(n => (from + n) % Values.size)

  private def read(store: ReadStateStore, key: Int): Vector[Int] =
    store.valuesIterator(lists.key(key), Default).map(Values.place).toVector

  private def merge(store: StateStore, key: Int, values: Seq[Int]): Unit =
    values.foreach(value => store.merge(lists.key(key), Values.row(value).copy(), Default))

  /** In the same version, in later ones, loaded, put anew, removed, and begun again. */
  private def list(setting: Setting): Unit = {
    var wanted = Map.empty[Int, Vector[Int]]
    def same(what: String, store: ReadStateStore): Unit = {
      (0 to 3).foreach(key => Check.equal(s"$what, list $key", read(store, key), wanted.getOrElse(key, Vector.empty)))
      val found = store.iteratorWithMultiValues(Default).map(pair => lists.place(pair.key)).toVector.groupBy(identity)
      Check.equal(s"$what, iterated", found.map { case (key, each) => key -> each.size }, wanted.map { case (key, each) => key -> each.size })
    }
    val steps = Seq[StateStore => Unit](
      { store => merge(store, 0, numbers(200)); wanted += 0 -> numbers(200) },
      { store => (0 to 1).foreach(key => merge(store, key, Seq(7))); wanted += 0 -> (wanted(0) :+ 7); wanted += 1 -> Vector(7) },
      { store =>
        store.mergeList(lists.key(1), numbers(90).map(Values.row(_).copy()).toArray, Default)
        store.putList(lists.key(2), numbers(90).map(Values.row(_).copy()).toArray, Default)
        merge(store, 2, numbers(40))
        wanted += 1 -> (wanted(1) ++ numbers(90))
        wanted += 2 -> (numbers(90) ++ numbers(40))
      },
      { store => store.putList(lists.key(0), Array(Values.row(3).copy()), Default); store.remove(lists.key(2), Default); wanted = wanted - 2 + (0 -> Vector(3)) },
      { store => store.remove(lists.key(1), Default); merge(store, 1, numbers(60)); merge(store, 0, numbers(60)); wanted = wanted + (1 -> numbers(60)) + (0 -> (3 +: numbers(60))) })
    val provider = setting.stores().provider(lists)
    var base = Stores.Start
    for ((step, i) <- steps.zipWithIndex) {
      base = Tasks.run { val store = Stores.open(provider, base); step(store); same(s"step $i", store); setting.commit(store) }
      val fresh = setting.stores().provider(lists)
      try Tasks.run { val store = fresh.getReadStore(base.number, base.id); same(s"step $i, loaded", store); store.abort() } finally fresh.close()
    }
    provider.close()
  }

  /** By the bytes that are in memory for all that was put, before a commit forgets what was put over. */
  private def appends(setting: Setting): Unit = {
    val provider = setting.stores().provider(lists)
    Tasks.run {
      val store = Stores.open(provider, Stores.Start)
      val count = 4000
      merge(store, 0, numbers(count))
      val each = store.metrics.memoryUsedBytes / count
      Check.that(s"$each bytes an append", each < 2000)
      store.abort()
    }
    provider.close()
  }

  private def told(setting: Setting): Unit = {
    val provider = setting.stores().provider(lists)
    var base = Stores.Start
    def version(work: StateStore => Unit): Unit =
      base = Tasks.run { val store = Stores.open(provider, base); work(store); setting.commit(store) }
    version(merge(_, 0, numbers(5)))
    version(merge(_, 0, numbers(100, 5)))
    version(merge(_, 0, numbers(3, 105)))
    version(store => (0 to 1).foreach(key => merge(store, key, numbers(120, 1))))
    version(_.remove(lists.key(1), Default))
    version(store => { store.remove(lists.key(0), Default); merge(store, 0, numbers(70)) })
    val reader = provider.asInstanceOf[SupportsFineGrainedReplay].getStateStoreChangeDataReader(1, base.number, Some(Default), base.id)
    val found = mutable.Map.empty[Int, Vector[Int]]
    val merged = mutable.Map.empty[Long, Int].withDefaultValue(0)
    reader.foreach { case (kind, key, value, batch) =>
      val place = lists.place(key)
      kind match {
        case RecordType.PUT_RECORD => found(place) = Vector(Values.place(value))
        case RecordType.MERGE_RECORD => found(place) = found.getOrElse(place, Vector.empty) :+ Values.place(value); merged(batch) += 1
        case RecordType.DELETE_RECORD => found -= place
      }
    }
    reader.closeIfNeeded()
    Check.equal("what the changes come to", found.toMap, Map(0 -> numbers(70)))
    Check.equal("of three appends to a long list", merged(2L), 3)
    provider.close()
  }

  /** A join of state format 3 has such a family under a name like any other. */
  private def counted(setting: Setting): Unit = {
    import setting._
    val provider = stores().provider(family, families = true)
    var base = Stores.Start
    for (commits <- 1L to 2L) {
      base = Tasks.run {
        val store = Stores.open(provider, base)
        for ((name, isInternal) <- Seq("of a user" -> false, "of Spark" -> true)) {
          store.createColFamilyIfAbsent(name, family.keySchema, Values.schema, family.spec, isInternal = isInternal)
          (1 to commits.toInt).foreach(key => store.put(family.key(key), Values.row(key), name))
        }
        val made = commit(store)
        Check.equal("keys in the metrics", store.metrics.numKeys, commits)
        made
      }
    }
    provider.close()
  }
}
