package org.apache.spark.sql.cecstore.store

import scala.util.Try

/**
 * Which rows the operator of a batch looks for when it reads its whole state: those whose time is at most a bound. The
 * driver writes it into a local property of the job, which goes to the tasks with it. A scan without one reads all rows.
 *
 * @param version of the state that the batch starts from: left by an earlier batch, a hint does not count
 * @param isInKey whether the time stands in the key; otherwise in the value. Where the store counts a join's rows, in theirs
 * @param path the column, and within it that of each struct
 * @param isInMillis the unit of the column, in which -1 stands for a row that is never due; otherwise microseconds
 */
private[cecstore] final case class ScanHint(version: Long, isInKey: Boolean, path: Seq[Int], isInMillis: Boolean, boundUs: Long) {
  def text: String = Seq(version, if (isInKey) ScanHint.Key else ScanHint.Value, path.mkString("."),
    if (isInMillis) ScanHint.Millis else ScanHint.Micros, boundUs).mkString(" ")
}

private[cecstore] object ScanHint {
  private val Key = "key"
  private val Value = "value"
  private val Millis = "ms"
  private val Micros = "us"

  /** A property's. Threads inherit properties, and with them those of a query that started another one. */
  def nameFor(runId: String, operatorId: Long, store: String): String = s"cec.scan.$runId.$operatorId.$store"

  /** None for a text that is not one of ours. */
  def parse(text: String): Option[ScanHint] = text.split(' ') match {
    case Array(version, place @ (Key | Value), path, unit @ (Millis | Micros), bound) =>
      Try(ScanHint(version.toLong, place == Key, path.split('.').map(_.toInt).toSeq, unit == Millis, bound.toLong)).toOption
    case _ => None
  }
}
