package org.apache.spark.sql.cecstore.log

/**
 * Names of the stores in which Spark keeps the sides of a join, up to state format 2: of each side one counts the rows of a
 * join key, the other has the rows.
 */
private[cecstore] object JoinNames {
  private val Counts = "-keyToNumValues"
  private val Rows = "-keyWithIndexToValue"

  /** The stores with counts, the left side first. */
  val ofCounts: Seq[String] = Seq("left", "right").map(_ + Counts)

  def countsRows(name: String): Boolean = name.endsWith(Counts)
  /** Spark shows the metrics of a join's stores that hold rows, and of no others. */
  def holdsRows(name: String): Boolean = name.endsWith(Rows)
  /** The store with the rows that one of this name counts. */
  def rowsBeside(counts: String): String = counts.dropRight(Counts.length) + Rows
}
