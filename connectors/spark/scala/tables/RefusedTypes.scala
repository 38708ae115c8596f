package org.apache.spark.sql.cecstore.tables

import scala.util.matching.Regex
import org.apache.spark.sql.types.DataType

/**
 * Types of Spark that a queue cannot hold: Arrow has none that every reader of a queue takes. docs/spark-queues.md has this
 * table, and a test compares the two.
 */
private[tables] object RefusedTypes {
  private final case class Refused(name: String, pattern: Regex, instead: String)

  private val all = Seq(
    Refused("GEOMETRY, GEOGRAPHY", "geo(metry|graphy)\\(.+\\)".r, "`st_asbinary(column)`"),
    Refused("intervals of years and months", "interval (year|month)( to month)?".r, "the number of months as an INT"),
    Refused("strings with a collation", "string collate .+".r, "a cast to STRING"),
    Refused("structs with two fields of one name", "struct<.*>".r, "other names for the fields"))

  /** Advice for a column of this type, where the innermost part of it that is refused is known. */
  def instead(kind: DataType): Option[String] =
    all.find(each => kind.existsRecursively(part => each.pattern.matches(part.simpleString))).map(_.instead)
}
