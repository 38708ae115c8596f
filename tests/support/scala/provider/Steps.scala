package org.apache.spark.sql.cecstore.testing

import scala.collection.immutable.Vector
import scala.util.Random

import org.apache.spark.sql.execution.streaming.state._

/** One random call after the other, on a store and on the model; each answer is compared. */
final class Steps(random: Random, store: StateStore, start: Model) {
  private var model = start
  private var calls = 0
  private def some(family: Family): Int = random.nextInt(family.size)
  private def value(): Int = random.nextInt(Values.size)
  private def some(values: Int): Vector[Int] = Vector.fill(values)(value())
  private def rows(values: Vector[Int]) = values.map(Values.row(_).copy()).toArray

  def result: Model = model
  def count: Int = calls

  def take(family: Family): Unit = {
    calls += 1
    random.nextInt(20) match {
      case 0 | 1 | 2 | 3 | 4 | 5 => put(family)
      case 6 | 7 | 8 => remove(family)
      case 9 | 10 if family.multi => merge(family)
      case 9 | 10 | 11 => StoreReader.sameKey(store, family, model, some(family))
      case 12 if !family.multi =>
        StoreReader.sameKeys(store, family, model, Vector.fill(random.nextInt(6))(some(family)))
      case 12 | 13 => StoreReader.same("on the way", store, family, model)
      case 14 | 15 if family.hasPrefix => StoreReader.sameByPrefix(store, family, model, some(family))
      case 14 | 15 | 16 if family.ordered => range(family)
      case 17 if family.deletable => removeRange(family)
      case 18 if !family.multi => renewWhileIterating(family)
      case _ if !family.multi => removeWhileIterating(family)
      case _ => put(family)
    }
  }

  private def put(family: Family): Unit = {
    val key = some(family)
    val values = some(if (family.multi) 1 + random.nextInt(3) else 1)
    if (family.multi && random.nextBoolean()) {
      store.putList(family.key(key), rows(values), family.name)
      model = model.put(family, key, values)
    } else {
      store.put(family.key(key), Values.row(values.head), family.name)
      model = model.put(family, key, values.take(1))
    }
  }

  private def merge(family: Family): Unit = {
    val key = some(family)
    val values = some(1 + random.nextInt(3))
    if (random.nextBoolean()) {
      store.mergeList(family.key(key), rows(values), family.name)
      model = model.append(family, key, values)
    } else {
      store.merge(family.key(key), Values.row(values.head), family.name)
      model = model.append(family, key, values.take(1))
    }
  }

  private def remove(family: Family): Unit = {
    val present = model(family).keysIterator.toVector
    val key =
      if (present.isEmpty || random.nextInt(4) == 0) some(family)
      else present(random.nextInt(present.size))
    store.remove(family.key(key), family.name)
    model = model.remove(family, key)
  }

  private def bounds(family: Family): (Int, Int) = {
    val (one, other) = (some(family), some(family))
    (one.min(other), one.max(other))
  }

  private def range(family: Family): Unit = {
    val (from, until) = bounds(family)
    StoreReader.sameByRange(store, family, model,
      Option.when(random.nextInt(4) > 0)(from), Option.when(random.nextInt(4) > 0)(until))
  }

  private def removeRange(family: Family): Unit = {
    val (from, until) = bounds(family)
    store.deleteRange(family.key(from).copy(), family.key(until).copy(), family.name)
    model = model.removeRange(family, from, until)
  }

  /** As an append-mode aggregation drops what the watermark has passed. */
  private def removeWhileIterating(family: Family): Unit = {
    val doomed = random.nextInt(4)
    val found = store.iterator(family.name)
    val seen = found.map { pair =>
      val key = family.place(pair.key)
      if (key % 4 == doomed) store.remove(pair.key, family.name)
      key
    }.toVector
    found.close()
    Check.equal("keys seen while removing", seen.sorted, model(family).keysIterator.toVector)
    model = model(family).keysIterator.filter(_ % 4 == doomed).foldLeft(model)(_.remove(family, _))
  }

  /** As a timeout renews the states that it finds. */
  private def renewWhileIterating(family: Family): Unit = {
    val chosen = random.nextInt(4)
    val fresh = value()
    val found = store.iterator(family.name)
    val seen = found.map { pair =>
      val (key, old) = (family.place(pair.key), Values.place(pair.value))
      if (key % 4 == chosen) store.put(pair.key, Values.row(fresh), family.name)
      key -> Vector(old)
    }.toVector
    found.close()
    Check.equal("pairs seen while renewing", seen.sortBy(_._1), model(family).toVector)
    model = model(family).keysIterator.filter(_ % 4 == chosen)
      .foldLeft(model)(_.put(family, _, Vector(fresh)))
  }
}
