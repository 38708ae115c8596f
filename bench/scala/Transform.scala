package cecstore.bench

import org.apache.spark.sql.{DataFrame, Encoders}
import org.apache.spark.sql.streaming._

/** What bench/transform_with_state.py measures: for each update a value, a list, a map and timers. */
object Transform {
  case class Update(key: Long, amount: Long)
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
      rows.foreach { row =>
        now = Sums(now.count + 1, now.sum + row.amount)
        amounts.appendValue(row.amount)
        val part = row.amount % Parts
        parts.updateValue(part, (if (parts.containsKey(part)) parts.getValue(part) else 0L) + 1)
      }
      sums.update(now)
      val nowMs = times.getCurrentProcessingTimeInMs()
      if (before.count == 0) getHandle.registerTimer(nowMs + HourMs)
      if (key % TimedKeys == 0) getHandle.registerTimer(nowMs + 1)
      Iterator(now)
    }

    override def handleExpiredTimer(key: Long, times: TimerValues, timer: ExpiredTimerInfo): Iterator[Sums] = Iterator(sums.get())
  }

  def of(frame: DataFrame): DataFrame = {
    import frame.sparkSession.implicits._
    frame.as[Update].groupByKey(_.key).transformWithState(new Processor, TimeMode.ProcessingTime(), OutputMode.Update()).toDF()
  }
}
