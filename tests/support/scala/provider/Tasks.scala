package org.apache.spark.sql.cecstore.testing

import java.util.Properties
import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.{TaskContext, TaskContextImpl}
import org.apache.spark.executor.TaskMetrics

/** Runs a body as an executor runs a task: with a context of its own, whose end gives the state back. */
object Tasks {
  private val attempts = new AtomicLong(1000)

  def run[T](body: => T): T = runOf(Map.empty)(body)

  /** A task of a job with these local properties. */
  def runOf[T](properties: Map[String, String])(body: => T): T = {
    val ofJob = new Properties
    properties.foreach { case (name, value) => ofJob.setProperty(name, value) }
    val context = new TaskContextImpl(0, 0, 0, attempts.incrementAndGet(), 1, 0, null,
      ofJob, null, TaskMetrics.empty, BigDecimal(1), Map.empty)
    TaskContext.setTaskContext(context)
    try {
      val result = body
      context.markTaskCompleted(None)
      result
    } catch {
      case failure: Throwable =>
        context.markTaskFailed(failure)
        context.markTaskCompleted(Some(failure))
        throw failure
    } finally TaskContext.unset()
  }
}
