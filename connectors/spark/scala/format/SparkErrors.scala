package org.apache.spark.sql.cecstore.format

import java.io.IOException
import java.nio.file.FileSystemException
import java.util.{Map => JMap}
import scala.jdk.CollectionConverters._
import org.apache.hadoop.fs.PathIOException
import org.apache.spark.SparkThrowable
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.cecstore.CecLogException

/**
 * A query that asks for what a queue does not have or do. PySpark shows it as its own AnalysisException.
 *
 * @param condition the error class, `CEC_…`
 */
private[cecstore] class RefusedQuery(condition: String, parameters: Map[String, String], message: String,
    cause: Throwable = null) extends AnalysisException(
      s"[$condition] $message", None, None, Option(cause), Some(condition), parameters, Array.empty)

/** An option that is unknown, or a value that is not allowed. PySpark shows it as its own IllegalArgumentException. */
private[cecstore] final class RefusedOption(option: String, reason: String)
    extends IllegalArgumentException(s"[CEC_OPTION] $reason") with SparkThrowable {
  override def getCondition: String = "CEC_OPTION"
  override def getMessageParameters: JMap[String, String] = Map("option" -> option, "reason" -> reason).asJava
}

/** Columns that a queue cannot hold, or that are not its own. */
private[cecstore] final class SchemaMismatch(parameters: Map[String, String], message: String)
    extends RefusedQuery("CEC_COLUMNS", parameters, message)

private[cecstore] object SchemaMismatch {
  /** Of the columns of a query, whatever the queue. */
  def apply(columns: Seq[String], reason: String): SchemaMismatch = new SchemaMismatch(named(columns, reason), reason)
  /** Of those of a queue. */
  def apply(queue: String, columns: Seq[String], reason: String): SchemaMismatch =
    new SchemaMismatch(named(columns, reason) + ("queue" -> queue), s"$queue: $reason")

  private def named(columns: Seq[String], reason: String): Map[String, String] =
    Map("columns" -> columns.mkString(", "), "reason" -> reason)
}

/** What Spark calls on the driver raises Spark's own kinds of errors, so that programs can tell them apart. */
private[cecstore] object SparkErrors {
  /** Do what Spark has asked for. An interrupt stays one. */
  def told[A](act: => A): A = try act catch {
    case e: IOException if Interrupts.isOne(e) => throw Interrupts.passed(e)
    case e: CecLogException => throw new RefusedQuery(
      e.getCondition, e.getMessageParameters.asScala.toMap, e.getMessage, e)
    case e: IOException => throw new RefusedQuery("CEC_STORAGE", pathOf(e) + ("reason" -> e.toString), e.toString, e)
  }

  private def pathOf(error: IOException): Map[String, String] = error match {
    case e: FileSystemException => Map("path" -> e.getFile)
    case e: PathIOException => Map("path" -> e.getPath.toString)
    case _ => Map.empty
  }

  /** As of a path that is not there, whatever the format. */
  def noPath(path: String, cause: Throwable): AnalysisException =
    new AnalysisException("PATH_NOT_FOUND", Map("path" -> path), Some(cause))
}
