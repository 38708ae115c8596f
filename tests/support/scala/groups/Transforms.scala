package cecstore.tests

import java.sql.Timestamp
import java.time.Duration

import org.apache.spark.sql.{DataFrame, Encoders}
import org.apache.spark.sql.functions.{col, count, window}
import org.apache.spark.sql.streaming._

/** `transformWithState` in Scala: what these say in each batch shows all that is in their state. */
object Transforms {
  case class Event(key: String, part: Option[Int], ts: Timestamp, n: Long, text: String)
  case class Item(n: Long, text: String)
  case class Said(key: String, what: String, at: Timestamp, n: Long, text: String)
  case class Initial(key: String, n: Long)

  private val HourMs = 3600000L
  private val TimerMs = 10000L

  /** A value, a list that grows beyond one chunk, a map, and timers that set and remove timers. */
  class Everything(isEventTime: Boolean, ttl: String, isChained: Boolean = false) extends StatefulProcessorWithInitialState[String, Event, Said, Initial] {
    @transient private var total: ValueState[Long] = _
    @transient private var items: ListState[Item] = _
    @transient private var parts: MapState[String, Long] = _

    /** One millisecond is over by the next batch, an hour is not. */
    private def config(variable: String): TTLConfig =
      if (ttl == "none" || ttl == "no timers") TTLConfig.NONE else TTLConfig(Duration.ofMillis(if (variable == ttl) 1L else HourMs))

    override def init(mode: OutputMode, time: TimeMode): Unit = {
      total = getHandle.getValueState("total", Encoders.scalaLong, config("value"))
      items = getHandle.getListState("items", Encoders.product[Item], config("list"))
      parts = getHandle.getMapState("parts", Encoders.STRING, Encoders.scalaLong, config("map"))
    }

    override def handleInitialState(key: String, initial: Initial, timers: TimerValues): Unit = total.update(initial.n)

    override def handleInputRows(key: String, rows: Iterator[Event], times: TimerValues): Iterator[Said] = {
      val before = if (total.exists()) total.get() else 0L
      var (sum, newest) = (before, 0L)
      rows.foreach { row =>
        sum += 1
        newest = math.max(newest, row.ts.getTime)
        items.appendValue(Item(row.n, row.text * 20))
        val part = String.valueOf(row.part)
        parts.updateValue(part, (if (parts.containsKey(part)) parts.getValue(part) else 0L) + 1)
      }
      total.update(sum)
      items.appendList(Array(Item(sum, "many"), Item(before, "more")))
      if (sum % 5 == 0) parts.iterator().foreach { case (part, n) => if (n % 2 == 0) parts.removeKey(part) }
      if (sum % 7 == 0) items.put(Array(Item(sum, "put")))
      if (ttl != "no timers" && getHandle.getQueryInfo().getBatchId % 3 == 2) getHandle.listTimers().toList.foreach(getHandle.deleteTimer)
      if (isEventTime) Seq(TimerMs, TimerMs + 1, 2 * TimerMs).foreach(ms => getHandle.registerTimer(newest + ms))
      else if (ttl != "no timers") Seq(1L, 2L, HourMs).foreach(ms => getHandle.registerTimer(times.getCurrentProcessingTimeInMs() + ms))
      said(key, "rows", newest, times)
    }

    /** To an operator behind it Spark lets no row pass that is older than the watermark. */
    private def said(key: String, what: String, at: Long, times: TimerValues): Iterator[Said] = {
      val time = new Timestamp(if (isChained) math.max(at, times.getCurrentWatermarkInMs() + 1) else at)
      val timers = if (ttl == "no timers") 0 else getHandle.listTimers().size
      Iterator(Said(key, what, time, if (total.exists()) total.get() else -1, s"$timers timers")) ++
        items.get().zipWithIndex.map { case (item, i) => Said(key, s"item $i", time, item.n, item.text) }.toList ++
        parts.iterator().map { case (part, n) => Said(key, "part", time, n, part) }.toList
    }

    override def handleExpiredTimer(key: String, times: TimerValues, timer: ExpiredTimerInfo): Iterator[Said] = {
      val sum = if (total.exists()) total.get() else 0L
      // What has expired as well, but is not there any more, and what has expired already when it is set.
      if (sum % 2 == 0) getHandle.listTimers().toList.foreach(getHandle.deleteTimer)
      if (sum < 3000) getHandle.registerTimer(timer.getExpiryTimeInMs() - 1)
      total.update(sum + 1000)
      if (sum > 4000) { total.clear(); items.clear(); parts.clear() }
      val at = if (isEventTime) timer.getExpiryTimeInMs() else 0L
      said(key, "timer", at, times)
    }
  }

  private def groups(frame: DataFrame) = {
    import frame.sparkSession.implicits._
    // Spark takes no null for a key here.
    frame.where(col("key").isNotNull).as[Event].groupByKey(_.key)
  }

  def everything(frame: DataFrame, time: String, ttl: String): DataFrame = {
    import frame.sparkSession.implicits._
    val mode = time match { case "event" => TimeMode.EventTime(); case "processing" => TimeMode.ProcessingTime(); case "none" => TimeMode.None() }
    val processor = new Everything(time == "event", ttl)
    // Rows of a processing-time timer have no time of their own.
    groups(frame).transformWithState(processor, mode, OutputMode.Update(),
      Seq(Initial("a", 100L), Initial("never", 7L)).toDS().groupByKey(_.key)).toDF()
  }

  /** Its output goes through a second operator that keeps state. */
  def chained(frame: DataFrame): DataFrame = {
    import frame.sparkSession.implicits._
    groups(frame).transformWithState(new Everything(isEventTime = true, "none", isChained = true).asInstanceOf[StatefulProcessor[String, Event, Said]],
      "at", OutputMode.Append()).toDF()
      .groupBy(window(col("at"), "10 seconds"), col("key"), col("what")).agg(count("*"))
  }

  case class Counted(n: Long)
  case class CountedSince(n: Long, since: Long)

  /** Counts rows of a key, in variables that are others from one form to the next. */
  private class Evolving(form: String) extends StatefulProcessor[String, Event, Said] {
    @transient private var counted: ValueState[Counted] = _
    @transient private var since: ValueState[CountedSince] = _
    @transient private var more: ListState[String] = _

    override def init(mode: OutputMode, time: TimeMode): Unit = form match {
      case "first" => counted = getHandle.getValueState("counted", Encoders.product[Counted], TTLConfig.NONE)
      case "more" =>
        counted = getHandle.getValueState("counted", Encoders.product[Counted], TTLConfig.NONE)
        more = getHandle.getListState("more", Encoders.STRING, TTLConfig.NONE)
      case "less" =>
        counted = getHandle.getValueState("counted", Encoders.product[Counted], TTLConfig.NONE)
        getHandle.deleteIfExists("more")
      case "another" => more = getHandle.getListState("more", Encoders.STRING, TTLConfig.NONE)
      case "wider" => since = getHandle.getValueState("counted", Encoders.product[CountedSince], TTLConfig.NONE)
      case "list" => more = getHandle.getListState("counted", Encoders.STRING, TTLConfig.NONE)
    }

    override def handleInputRows(key: String, rows: Iterator[Event], times: TimerValues): Iterator[Said] = {
      val all = rows.toVector
      if (counted != null) counted.update(Counted((if (counted.exists()) counted.get().n else 0L) + all.size))
      if (more != null) all.foreach(row => more.appendValue(row.text))
      if (since != null) since.update(CountedSince((if (since.exists()) since.get().n else 0L) + all.size, all.head.n))
      val n = if (counted != null) counted.get().n else if (since != null) since.get().n else -1
      Iterator(Said(key, form, new Timestamp(0), n, if (more == null) "" else more.get().mkString(" ")))
    }
  }

  def evolving(frame: DataFrame, form: String): DataFrame = {
    import frame.sparkSession.implicits._
    groups(frame).transformWithState(new Evolving(form), TimeMode.None(), OutputMode.Update()).toDF()
  }
}
