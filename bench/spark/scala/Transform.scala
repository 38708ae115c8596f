package cecstore.bench

import java.sql.Timestamp

import org.apache.spark.sql.{DataFrame, Encoders}
import org.apache.spark.sql.functions.current_timestamp
import org.apache.spark.sql.streaming._

/** What bench/spark/transform_with_state.py measures: for each update a value, a list, a map and timers. */
object Transform {
  case class Update(key: Long, amount: Long, at: Timestamp)
  case class Sums(count: Long, sum: Long)

  private val Parts = 4
  private val HourMs = 3600000L
  /** One key in so many has a timer that is over by the next batch, whenever it is updated. */
  private val TimedKeys = 16

  private class Processor extends StatefulProcessor[Long, Update, Sums] {
    @transient private var sums: ValueState[Sums] = _
    @transient private var amounts: ListState[Long] = _
    @transient private var parts: MapState[Long, Long] = _

    override def init(mode: OutputMode, time: TimeMode): Unit = {
      sums = getHandle.getValueState("sums", Encoders.product[Sums], TTLConfig.NONE)
      amounts = getHandle.getListState("amounts", Encoders.scalaLong, TTLConfig.NONE)
      parts = getHandle.getMapState("parts", Encoders.scalaLong, Encoders.scalaLong, TTLConfig.NONE)
    }

    override def handleInputRows(key: Long, rows: Iterator[Update], times: TimerValues): Iterator[Sums] = {
      val before = if (sums.exists()) sums.get() else Sums(0, 0)
      var now = before
      var atMs = 0L
      rows.foreach { row =>
        atMs = row.at.getTime
        now = Sums(now.count + 1, now.sum + row.amount)
        amounts.appendValue(row.amount)
        val part = row.amount % Parts
        parts.updateValue(part, (if (parts.containsKey(part)) parts.getValue(part) else 0L) + 1)
      }
      sums.update(now)
      if (before.count == 0) getHandle.registerTimer(atMs + HourMs)
      if (key % TimedKeys == 0) getHandle.registerTimer(atMs - 1)
      Iterator(now)
    }

    override def handleExpiredTimer(key: Long, times: TimerValues, timer: ExpiredTimerInfo): Iterator[Sums] = Iterator(sums.get())
  }

  /** The time of a row is that of its batch: in processing time such a query always wants another batch, and never ends. */
  def of(frame: DataFrame): DataFrame = {
    import frame.sparkSession.implicits._
    val timed = frame.withColumn("at", current_timestamp()).withWatermark("at", "0 seconds")
    timed.as[Update].groupByKey(_.key).transformWithState(new Processor, TimeMode.EventTime(), OutputMode.Update()).toDF()
  }
}
