package org.apache.spark.sql.cecstore.testing

import scala.collection.immutable.{TreeMap, Vector}

/** What a state must hold: per column family, key → values, both as places in their universe.
 *  Immutable, so that a version costs nothing to keep.
 */
final case class Model(families: Map[String, TreeMap[Int, Vector[Int]]]) {
  def apply(family: Family): TreeMap[Int, Vector[Int]] = families(family.name)

  def updated(family: Family, content: TreeMap[Int, Vector[Int]]): Model =
    Model(families.updated(family.name, content))

  def put(family: Family, key: Int, values: Vector[Int]): Model =
    updated(family, this(family).updated(key, values))

  def append(family: Family, key: Int, values: Vector[Int]): Model =
    put(family, key, this(family).getOrElse(key, Vector.empty) ++ values)

  def remove(family: Family, key: Int): Model = updated(family, this(family).removed(key))

  def removeRange(family: Family, from: Int, until: Int): Model =
    updated(family, this(family).filterNot { case (key, _) => key >= from && key < until })

  def create(family: Family): Model =
    if (families.contains(family.name)) this else updated(family, TreeMap.empty)

  def drop(family: Family): Model = Model(families.removed(family.name))
}

object Model {
  val Empty: Model = Model(Map("default" -> TreeMap.empty))
}
