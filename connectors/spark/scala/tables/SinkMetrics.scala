package org.apache.spark.sql.cecstore.tables

import scala.jdk.CollectionConverters._
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomSumMetric, CustomTaskMetric}

/**
 * What became of a batch that a query wrote.
 *
 * @param rows, bytes, objects that its commit has named; none where the queue had the batch before
 * @param repeatedRows of a batch that the queue had before, and that were passed over
 * @param commitsTriedAgain because another writer was quicker
 */
private[tables] final case class SinkMetrics(
    batch: Long, rows: Long, bytes: Long, objects: Long, repeatedRows: Long, commitsTriedAgain: Long) {

  /** For the query's progress: `sink.metrics`. */
  def asProgress: java.util.Map[String, String] = Map("batchId" -> batch, "rowsWritten" -> rows, "bytesWritten" -> bytes,
    "objectsWritten" -> objects, "repeatedRowsDropped" -> repeatedRows, "commitsTriedAgain" -> commitsTriedAgain)
    .map { case (name, value) => name -> value.toString }.asJava
}

private[tables] object SinkMetrics {
  /** For Spark's page of the query: what tasks have written, committed or not. */
  def ofTasks: Array[CustomMetric] = Array(new RowsWritten, new BytesWritten, new ObjectsWritten)

  def ofTask(rows: Long, bytes: Long, objects: Long): Array[CustomTaskMetric] =
    ofTasks.map(_.name).zip(Array(rows, bytes, objects)).map { case (of, number) =>
      new CustomTaskMetric {
        override def name: String = of
        override def value: Long = number
      }
    }
}

// Spark makes these anew by their names.
private[tables] class RowsWritten extends CustomSumMetric {
  override def name: String = "cecRowsWritten"
  override def description: String = "rows written to the queue"
}

private[tables] class BytesWritten extends CustomSumMetric {
  override def name: String = "cecBytesWritten"
  override def description: String = "compressed bytes written to the queue"
}

private[tables] class ObjectsWritten extends CustomSumMetric {
  override def name: String = "cecObjectsWritten"
  override def description: String = "objects written to the queue"
}
