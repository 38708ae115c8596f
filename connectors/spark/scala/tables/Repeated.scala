package org.apache.spark.sql.cecstore.tables

import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.queue.{LogObject, QueueState, ReferenceLog, Segment}

/**
 * Says so when a batch is not written because the queue has that batch, or a later one, already. After a failure Spark
 * runs the last batch once more: that is as it should be. Another writer under the same name, or the same one from a
 * new checkpoint, loses its output: that is a warning.
 */
private[tables] final class Repeated(url: String, commits: ReferenceLog) extends Logging {
  def say(state: QueueState, query: String, batch: Long, segments: Seq[Segment], advice: String): Unit = {
    val last = state.commit.queries(query)
    val what = s"cec: $url: ${segments.map(_.records).sum} rows of batch $batch of '$query' are not written: " +
      s"the queue has its batches up to $last"
    if (batch < last) logWarning(s"$what. $advice")
    else if (committed(state, query, batch).exists(found => rows(found.segments) != rows(segments))) {
      logWarning(s"$what, and this one with other rows. $advice")
    } else logInfo(s"$what: the batch has been run again")
  }

  private def committed(state: QueueState, query: String, batch: Long): Option[LogObject] =
    Iterator.iterate(state.number)(_ - 1).takeWhile(_ > 0).take(Repeated.CommitsMax).flatMap(commits.at(_))
      .find(each => each.commit.query.contains(query) && each.commit.batch == batch)

  private def rows(segments: Iterable[Segment]): Map[Int, Long] = segments.groupMapReduce(_.partition)(_.records)(_ + _)
}

private[tables] object Repeated {
  /** One request each: the last batch of a query that has just failed is among the newest. */
  private val CommitsMax = 100
}
