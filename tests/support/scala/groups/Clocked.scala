// In Spark's own package: what starts a query with a clock of one's own is private to it.
package org.apache.spark.sql.cecstore.tests

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.{Dataset, Row}
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.classic
import org.apache.spark.sql.execution.streaming.sources.ForeachBatchSink
import org.apache.spark.sql.streaming.{OutputMode, StreamingQuery, Trigger}
import org.apache.spark.util.ManualClock

/** A query whose processing time is that of a clock which stands still until somebody moves it. */
final class Clocked(startMs: Long) {
  private val clock = new ManualClock(startMs)
  private val said = new ConcurrentHashMap[Long, Array[String]]

  def advance(ms: Long): Unit = clock.advance(ms)

  /** Whether a batch has come to the sink, and its rows as JSON in their order. */
  def has(batch: Long): Boolean = said.containsKey(batch)
  def rows(batch: Long): Array[String] = said.get(batch)

  /** A batch at each second that the clock is moved over, but one at most for each move. */
  def start(frame: classic.Dataset[Row], checkpoint: String): StreamingQuery = {
    val sink = new ForeachBatchSink[Row]((batch: Dataset[Row], id: Long) => {
      said.put(id, batch.toJSON.collect().sorted)
      ()
    }, ExpressionEncoder(frame.schema))
    frame.sparkSession.streams.startQuery(
      userSpecifiedName = None, userSpecifiedCheckpointLocation = Some(checkpoint), df = frame, extraOptions = Map.empty,
      sink = sink, outputMode = OutputMode.Update(), trigger = Trigger.ProcessingTime(1000), triggerClock = clock)
  }
}
