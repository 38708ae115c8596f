package org.apache.spark.sql.cecstore.format

import java.io.InterruptedIOException
import java.nio.channels.ClosedByInterruptException

/** Interrupts, by which Spark stops a query or a task. Whoever explains a failure lets them pass as they are. */
private[cecstore] object Interrupts {
  /** Whether a call was broken off by an interrupt, at whatever depth its cause says so. */
  def isOne(error: Throwable): Boolean = Iterator.iterate(error)(_.getCause).takeWhile(_ != null).exists {
    case _: java.net.SocketTimeoutException => false // an InterruptedIOException by name only
    case _: InterruptedException | _: InterruptedIOException | _: ClosedByInterruptException => true
    case _ => false
  }

  /** The interrupt as Spark knows it. */
  def passed(error: Throwable): Throwable = error match {
    case _: InterruptedException | _: InterruptedIOException | _: ClosedByInterruptException => error
    case other => new InterruptedIOException(other.getMessage).initCause(other)
  }
}
