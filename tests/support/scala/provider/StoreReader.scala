package org.apache.spark.sql.cecstore.testing

import scala.collection.immutable.{TreeMap, Vector}

import org.apache.spark.sql.execution.streaming.state._

/** Reads a store back as the model writes it down, and compares. */
object StoreReader {
  private type Pairs = Vector[(Int, Int)]

  /** Each pair is decoded before the next is asked for: decoders use their rows again. */
  private def pairs(family: Family, found: StateStoreIterator[UnsafeRowPair]): Pairs = {
    val all = found.map(pair => family.place(pair.key) -> Values.place(pair.value)).toVector
    found.close()
    all
  }

  private def flat(content: Iterable[(Int, Vector[Int])]): Pairs =
    content.iterator.flatMap { case (key, values) => values.map(key -> _) }.toVector

  /** Without an order of keys the values of one key still keep theirs: the sort is stable. */
  private def inOrder(family: Family, found: Pairs): Pairs =
    if (family.ordered) found else found.sortBy(_._1)

  def iterate(store: ReadStateStore, family: Family): Pairs = pairs(
    family,
    if (family.multi) store.iteratorWithMultiValues(family.name) else store.iterator(family.name))

  def same(what: => String, store: ReadStateStore, family: Family, model: Model): Unit =
    Check.equal(s"$what, ${family.name} iterated",
      inOrder(family, iterate(store, family)), flat(model(family)))

  def sameByPrefix(store: ReadStateStore, family: Family, model: Model, key: Int): Unit = {
    val prefix = family.prefix(key)
    val found =
      if (family.multi) store.prefixScanWithMultiValues(prefix, family.name)
      else store.prefixScan(prefix, family.name)
    Check.equal(s"prefix of key $key in ${family.name}", inOrder(family, pairs(family, found)),
      flat(model(family).filter(pair => family.sameGroup(pair._1, key))))
  }

  def sameByRange(
      store: ReadStateStore, family: Family, model: Model, from: Option[Int], until: Option[Int])
      : Unit = {
    val (start, end) = (from.map(family.key(_).copy()), until.map(family.key(_).copy()))
    val found =
      if (family.multi) store.rangeScanWithMultiValues(start, end, family.name)
      else store.rangeScan(start, end, family.name)
    Check.equal(s"range $from until $until of ${family.name}", pairs(family, found),
      flat(model(family).filter { case (key, _) => from.forall(_ <= key) && until.forall(key < _) }))
  }

  def sameKey(store: ReadStateStore, family: Family, model: Model, key: Int): Unit = {
    val wanted = model(family).get(key)
    Check.equal(s"key $key of ${family.name} is there",
      store.keyExists(family.key(key), family.name), wanted.isDefined)
    if (family.multi) {
      val found = store.valuesIterator(family.key(key), family.name).map(Values.place).toVector
      Check.equal(s"values of $key in ${family.name}", found, wanted.getOrElse(Vector.empty))
    } else {
      val found = Option(store.get(family.key(key), family.name)).map(row => Vector(Values.place(row)))
      Check.equal(s"value of $key in ${family.name}", found, wanted)
    }
  }

  def sameKeys(store: ReadStateStore, family: Family, model: Model, keys: Vector[Int]): Unit = {
    val rows = keys.map(family.key(_).copy()).toArray
    val found = store.multiGet(rows, family.name)
      .map(row => Option(row).map(some => Vector(Values.place(some)))).toVector
    Check.equal(s"keys $keys of ${family.name}", found, keys.map(model(family).get))
  }

  /** All families that the model knows of, and no others. */
  def sameAll(
      what: => String, store: ReadStateStore, families: Iterable[Family], model: Model): Unit =
    families.filter(family => model.families.contains(family.name))
      .foreach(same(what, store, _, model))

  /** What a store of one plain family holds: for tests that know their states by content. */
  def content(store: ReadStateStore, family: Family): TreeMap[Int, Vector[Int]] = {
    val found = iterate(store, family)
    val grouped = found.groupMap(_._1)(_._2)
    if (!family.multi) {
      Check.that(s"a key twice in $found", grouped.values.forall(_.size == 1))
    }
    TreeMap.from(grouped)
  }
}
