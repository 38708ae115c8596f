package org.apache.spark.sql.cecstore.store

import java.io.FileNotFoundException
import scala.util.control.NonFatal
import org.apache.hadoop.fs.Path
import org.apache.spark.SparkThrowable
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.Interrupts
import org.apache.spark.sql.cecstore.log.{SegmentFolder, VersionMissing}
import org.apache.spark.sql.cecstore.sparks.StoreErrors
import org.apache.spark.sql.errors.QueryExecutionErrors

/** State that cannot be loaded raises the conditions that Spark's own providers raise, with our error as the cause. */
private[cecstore] object LoadErrors {
  def asSparks[A](folder: SegmentFolder)(load: => A): A = try load catch {
    case NonFatal(e) if Interrupts.isOne(e) => throw Interrupts.passed(e) // the task is killed
    case e: Exception with SparkThrowable if !e.isInstanceOf[CecLogException] => throw e
    case NonFatal(e) if isMissing(e) => throw QueryExecutionErrors.failedToReadStreamingStateFileError(new Path(folder.location), e)
    case NonFatal(e) => throw StoreErrors.cannotLoad(e)
  }

  private def isMissing(error: Throwable): Boolean = Iterator.iterate(error)(_.getCause).takeWhile(_ != null)
    .exists { case _: VersionMissing | _: FileNotFoundException => true; case _ => false }
}
