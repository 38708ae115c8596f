package cecstore.tests

import java.sql.Timestamp

import org.apache.spark.sql.{DataFrame, Encoder, Encoders}
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.streaming._

/** One query whose variables keep their names and have other fields from form to form; what it says shows all of its state. */
object Evolution {
  import Transforms.{Event, Said}

  case class Inner(n: Option[Int], text: String)
  case class InnerMore(n: Option[Long], text: String, more: Option[String])
  case class First(n: Int, text: String, gone: Option[Double], inner: Option[Inner], tags: Seq[String])
  case class Added(n: Int, text: String, gone: Option[Double], inner: Option[Inner], tags: Seq[String], since: Option[Long])
  case class Removed(n: Int, text: String, inner: Option[Inner], tags: Seq[String], since: Option[Long])
  case class Widened(n: Long, text: String, inner: Option[InnerMore], tags: Seq[String], since: Option[Double])
  case class Reordered(tags: Seq[String], since: Option[Double], text: String, inner: Option[InnerMore], n: Long)
  /** A number can become no text. */
  case class Refused(tags: Seq[String], since: Option[Double], text: String, inner: Option[InnerMore], n: String)

  private def first(row: Event) =
    First(row.n.toInt, row.text, Some(row.n / 4.0), row.part.filter(_ > 0).map(n => Inner(Some(n), "inner")), Seq.fill(row.n.toInt & 3)(row.text))

  private def added(row: Event) = { val it = first(row); Added(it.n, it.text, it.gone, it.inner, it.tags, Some(row.n)) }
  private def removed(row: Event) = { val it = added(row); Removed(it.n, it.text, it.inner, it.tags, it.since) }

  private def widened(row: Event) = {
    val it = removed(row)
    Widened(it.n + (1L << 40), it.text, it.inner.map(in => InnerMore(in.n.map(_ + (1L << 40)), in.text, Some("more"))), it.tags, it.since.map(_ + 0.5))
  }

  private def reordered(row: Event) = { val it = widened(row); Reordered(it.tags, it.since, it.text, it.inner, it.n) }
  private def refused(row: Event) = { val it = reordered(row); Refused(it.tags, it.since, it.text, it.inner, it.n.toString) }

  /** A value, a list that grows beyond one chunk, a map, and a text in the value of a second variable. */
  private class Evolving[S](form: String, kind: Encoder[S], of: Event => S) extends StatefulProcessor[String, Event, Said] {
    @transient private var last: ValueState[S] = _
    @transient private var all: ListState[S] = _
    @transient private var parts: MapState[String, S] = _

    override def init(mode: OutputMode, time: TimeMode): Unit = {
      last = getHandle.getValueState("last", kind, TTLConfig.NONE)
      all = getHandle.getListState("all", kind, TTLConfig.NONE)
      parts = getHandle.getMapState("parts", Encoders.STRING, kind, TTLConfig.NONE)
    }

    override def handleInputRows(key: String, rows: Iterator[Event], times: TimerValues): Iterator[Said] = {
      // What older forms have written is read before anything is put.
      val before = said(key, "before")
      rows.foreach { row =>
        last.update(of(row))
        all.appendValue(of(row))
        if (row.n % 3 != 0) parts.updateValue(String.valueOf(row.part), of(row)) else if (row.n % 2 != 0) parts.removeKey(String.valueOf(row.part))
      }
      before ++ said(key, form)
    }

    private def said(key: String, what: String): Iterator[Said] = {
      val value = if (last.exists()) String.valueOf(last.get()) else "none"
      val rows = Iterator(("last", value)) ++ all.get().zipWithIndex.map { case (one, i) => (s"item $i", one.toString) } ++
        parts.iterator().map { case (part, one) => (part, one.toString) }
      rows.map { case (name, text) => Said(key, what, new Timestamp(0), 0, s"$name: $text") }.toList.iterator
    }
  }

  def evolving(frame: DataFrame, form: String): DataFrame = {
    import frame.sparkSession.implicits._
    val processor: StatefulProcessor[String, Event, Said] = form match {
      case "first" => new Evolving(form, Encoders.product[First], first)
      case "added" => new Evolving(form, Encoders.product[Added], added)
      case "removed" => new Evolving(form, Encoders.product[Removed], removed)
      case "widened" => new Evolving(form, Encoders.product[Widened], widened)
      case "reordered" => new Evolving(form, Encoders.product[Reordered], reordered)
      case "refused" => new Evolving(form, Encoders.product[Refused], refused)
    }
    frame.where(col("key").isNotNull).as[Event].groupByKey(_.key).transformWithState(processor, TimeMode.None(), OutputMode.Update()).toDF()
  }
}
