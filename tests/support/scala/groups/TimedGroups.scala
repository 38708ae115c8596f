package cecstore.tests

import java.sql.Timestamp

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.streaming.{GroupState, OutputMode}

/** Groups with timeouts whose rows may have no key and no time. */
object TimedGroups {
  case class Event(key: String, part: Option[Int], ts: Timestamp, n: Long)
  case class Kept(rows: Long, sum: Long)
  case class Told(key: String, what: String, rows: Long, sum: Long)

  private val Parts = 3

  private def step(timeout: String)(key: String, rows: Iterator[Event], state: GroupState[Kept]): Iterator[Told] = {
    val old = state.getOption.getOrElse(Kept(0, 0))
    if (state.hasTimedOut) {
      // Some go on with another timeout.
      if (old.rows % Parts == 1) { state.update(Kept(old.rows + 1, old.sum)); wait(timeout, state, 10000L) } else state.remove()
      return Iterator(Told(key, "timed out", old.rows, old.sum))
    }
    val events = rows.toSeq
    val kept = Kept(old.rows + events.size, old.sum + events.map(_.n).sum)
    state.update(kept)
    val last = events.flatMap(event => Option(event.ts)).map(_.getTime).maxOption
    last.foreach(at => wait(timeout, state, if (timeout == "event") at - state.getCurrentWatermarkMs() + 4000 else kept.rows))
    Iterator(Told(key, "more", kept.rows, kept.sum))
  }

  /** In processing time a millisecond is over by the next batch, and an hour not within the test. */
  private def wait(timeout: String, state: GroupState[Kept], forMs: Long): Unit =
    if (timeout == "event") state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + math.max(1, forMs))
    else state.setTimeoutDuration(if (forMs % 2 == 0) 1L else 3600000L)

  def timed(frame: DataFrame, timeout: String, mode: String): DataFrame = {
    import frame.sparkSession.implicits._
    val output = if (mode == "append") OutputMode.Append else OutputMode.Update
    frame.as[Event].groupByKey(_.key)
      .flatMapGroupsWithState(output, GroupStates.timeoutOf(timeout))(step(timeout) _)
      .toDF()
  }
}
