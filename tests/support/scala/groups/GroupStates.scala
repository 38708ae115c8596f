package cecstore.tests

import java.sql.Timestamp

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.streaming.{GroupState, GroupStateTimeout, OutputMode}

/** What has no Python interface: typed groups with a state of their own. */
object GroupStates {
  case class Event(key: String, part: Option[Int], ts: Timestamp, n: Long, text: String)
  case class Kept(rows: Long, sum: Long, texts: Seq[String])
  case class Told(key: String, what: String, rows: Long, sum: Long, texts: Seq[String])

  /** A group with more rows than this ends by itself. */
  private val RowsMax = 12

  def timeoutOf(name: String): GroupStateTimeout = name match {
    case "event" => GroupStateTimeout.EventTimeTimeout
    case "processing" => GroupStateTimeout.ProcessingTimeTimeout
    case "none" => GroupStateTimeout.NoTimeout
  }

  private def taken(state: GroupState[Kept], events: Seq[Event]): Kept = {
    val old = state.getOption.getOrElse(Kept(0, 0, Nil))
    val texts = (old.texts ++ events.map(_.text)).distinct.sorted
    Kept(old.rows + events.size, old.sum + events.map(_.n).sum, texts)
  }

  private def step(timeout: String)(key: String, rows: Iterator[Event], state: GroupState[Kept]): Iterator[Told] = {
    if (state.hasTimedOut) {
      val kept = state.get
      state.remove()
      return Iterator(Told(key, "timed out", kept.rows, kept.sum, kept.texts))
    }
    val events = rows.toSeq
    val kept = taken(state, events)
    if (timeout != "event" && kept.rows > RowsMax) {
      state.remove()
      return Iterator(Told(key, "full", kept.rows, kept.sum, kept.texts))
    }
    state.update(kept)
    timeout match {
      // One millisecond is over by the next batch; an hour is not over within the test.
      case "processing" => state.setTimeoutDuration(if (kept.rows % 2 == 0) 1L else 3600000L)
      case "event" =>
        val last = events.map(_.ts.getTime).max + 4000
        state.setTimeoutTimestamp(math.max(last, state.getCurrentWatermarkMs() + 1))
      case _ =>
    }
    Iterator(Told(key, "more", kept.rows, kept.sum, kept.texts))
  }

  def flatMapped(frame: DataFrame, timeout: String): DataFrame = {
    import frame.sparkSession.implicits._
    frame.as[Event].groupByKey(_.key)
      .flatMapGroupsWithState(OutputMode.Update, timeoutOf(timeout))(step(timeout) _)
      .toDF()
  }

  def mapped(frame: DataFrame): DataFrame = {
    import frame.sparkSession.implicits._
    frame.as[Event].groupByKey(_.key)
      .mapGroupsWithState(GroupStateTimeout.NoTimeout) {
        (key: String, rows: Iterator[Event], state: GroupState[Kept]) =>
          step("none")(key, rows, state).next()
      }
      .toDF()
  }
}
