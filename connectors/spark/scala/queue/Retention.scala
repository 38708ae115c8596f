package org.apache.spark.sql.cecstore.queue

import java.util.Locale

/** What a queue deletes without being asked. docs/format.md §10, §11. */
private[cecstore] sealed trait Retention

private[cecstore] object Retention {
  case object Forever extends Retention { override def toString: String = "forever" }
  /** What all consumers have acknowledged as saved. */
  case object Consumers extends Retention { override def toString: String = "consumers" }
  /** What was written longer ago. */
  final case class Time(us: Long) extends Retention { override def toString: String = shown(us, TimesUs.tail) } // weeks as days
  /** What is more than so much, of each partition. */
  final case class Bytes(bytes: Long) extends Retention { override def toString: String = shown(bytes, BinarySizes) }

  /** Its name among a queue's settings. */
  val Setting = "retention"
  private val Digits = "[0-9]+".r
  private val Written = """([0-9]+)\s*([a-z]+)""".r
  private val TimesUs = Seq("w" -> 604800000000L, "d" -> 86400000000L, "h" -> 3600000000L, "min" -> 60000000L,
    "s" -> 1000000L, "ms" -> 1000L, "us" -> 1L)
  private val BinarySizes =
    Seq("TiB" -> (1L << 40), "GiB" -> (1L << 30), "MiB" -> (1L << 20), "KiB" -> (1L << 10), "B" -> 1L)
  private val Sizes =
    BinarySizes ++ Seq("TB" -> 1000000000000L, "GB" -> 1000000000L, "MB" -> 1000000L, "kB" -> 1000L)

  /** As cec_store/format/retention.py reads it; as text, it is what that one writes. None: it is none. */
  def parse(text: String): Option[Retention] = text.trim.toLowerCase(Locale.ROOT) match {
    case "forever" => Some(Forever)
    case "consumers" => Some(Consumers)
    case Written(digits, unit) =>
      product(digits, unit, TimesUs).map(Time(_)).orElse(product(digits, unit, Sizes).map(Bytes(_)))
    case _ => None
  }

  /** Of a queue by its settings; none where a later release has set what this one does not know. */
  def of(commit: Commit): Option[Retention] = commit.settings.get(Setting).fold(Option[Retention](Forever))(parse)

  private def number(digits: String): Option[Long] = Some(digits).filter(Digits.matches).flatMap(_.toLongOption)

  private def product(digits: String, unit: String, units: Seq[(String, Long)]): Option[Long] =
    for ((_, size) <- units.find(_._1.toLowerCase(Locale.ROOT) == unit); count <- number(digits)
      if count > 0 && count <= Long.MaxValue / size) yield count * size

  private def shown(value: Long, units: Seq[(String, Long)]): String =
    units.collectFirst { case (name, size) if value % size == 0 => s"${value / size}$name" }.get
}
