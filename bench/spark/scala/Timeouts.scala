package cecstore.bench

import java.sql.Timestamp

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.streaming._

/** Groups that time out, as bench/spark/watermarks.py measures them: a count by key, which goes when its time is over. */
object Timeouts {
  case class Event(id: Long, ts: Timestamp)
  case class Kept(count: Long)

  private def step(forMs: Long)(key: Long, rows: Iterator[Event], state: GroupState[Kept]): Iterator[Kept] =
    if (state.hasTimedOut) {
      val kept = state.get
      state.remove()
      Iterator(kept)
    } else {
      val events = rows.toSeq
      state.update(Kept(state.getOption.fold(0L)(_.count) + events.size))
      state.setTimeoutTimestamp(events.map(_.ts.getTime).max + forMs)
      Iterator.empty
    }

  def of(frame: DataFrame, forMs: Long): DataFrame = {
    import frame.sparkSession.implicits._
    frame.as[Event].groupByKey(_.id)
      .flatMapGroupsWithState(OutputMode.Update, GroupStateTimeout.EventTimeTimeout)(step(forMs) _)
      .toDF()
  }
}
