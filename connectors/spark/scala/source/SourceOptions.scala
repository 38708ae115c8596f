package org.apache.spark.sql.cecstore.source

import java.time.{Instant, LocalDate}
import java.time.temporal.ChronoUnit
import java.util.Locale
import scala.jdk.CollectionConverters._
import scala.util.Try
import com.fasterxml.jackson.databind.{DeserializationFeature, JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.spark.sql.cecstore.format.RefusedOption
import org.apache.spark.sql.cecstore.queue.Behind

/**
 * Where to begin or to end: one offset for each partition, or a moment for each.
 *
 * @param offsets by partition, `Bound.Earliest` and `Bound.Latest` among them
 * @param everywhere one of the two, of every partition
 * @param timestampUs the moment for every partition
 * @param queue id of the queue whose offsets they are; empty: not said
 * @param behind see `QueueOffset`
 */
private[cecstore] final case class Bound(offsets: Option[Map[Int, Long]] = None,
    timestampsUs: Option[Map[Int, Long]] = None,
    everywhere: Option[Long] = None, timestampUs: Option[Long] = None, queue: String = "",
    behind: Option[Behind] = None)

private[cecstore] object Bound {
  val Earliest: Long = -2L
  val Latest: Long = -1L
}

/** What the user asked for, checked as far as it can be without the queue. */
private[cecstore] final case class SourceOptions(path: String, starting: Bound, ending: Bound,
    startWithoutMatchIsLatest: Boolean, maxOffsetsPerTrigger: Option[Long], minOffsetsPerTrigger: Option[Long],
    maxTriggerDelayS: Double, failOnDataLoss: Boolean, minPartitions: Option[Long], maxRecordsPerPartition: Long,
    consumer: Option[String], kinds: Set[Byte], includeMetadata: Boolean, followCheckpoint: Option[String]) {
  def hasControlRecords: Boolean = (kinds -- SourceOptions.OutputKinds).nonEmpty
}

/** The options of the source; names, precedence, defaults and errors are the Kafka source's. */
private[cecstore] object SourceOptions {
  val KindNames: IndexedSeq[String] = IndexedSeq("data", "open", "check", "result", "determinant", "gap", "merged")
  val OutputKinds: Set[Byte] = Set(1, 4)
  private val MaxRecordsPerPartition = 1000000L
  private val DelayUnitsS =
    Map("ms" -> 0.001, "s" -> 1.0, "sec" -> 1.0, "m" -> 60.0, "min" -> 60.0, "h" -> 3600.0, "d" -> 86400.0)
  val Known: Seq[String] = Seq("path", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets",
      "endingTimestamp",
    "endingOffsetsByTimestamp", "endingOffsets", "startingOffsetsByTimestampStrategy", "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger", "maxTriggerDelay", "failOnDataLoss", "minPartitions", "maxRecordsPerPartition", "consumer",
    "kinds", "includeMetadata", "followCheckpoint")
  private val Ends = Set("endingtimestamp", "endingoffsetsbytimestamp", "endingoffsets")
  private val SparksOwn = Set("checkpointlocation", "queryname", "outputmode")
  private val QueueId = "[0-9a-f]{32}"
  private val json = new ObjectMapper().enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)

  /**
   * Read the options of `spark.read` or `spark.readStream`; names in any case.
   *
   * Raises RefusedOption for an unknown name, or a value that is not allowed here; says what is.
   */
  def parse(options: java.util.Map[String, String], isStream: Boolean): SourceOptions =
    parse(options, isStream, ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now))

  /** @param nowUs what relative moments are told from, in microseconds since 1970 */
  def parse(options: java.util.Map[String, String], isStream: Boolean, nowUs: Long): SourceOptions = {
    val said = byLowerName(options)
    val (low, high) = (number(said, "minOffsetsPerTrigger"), number(said, "maxOffsetsPerTrigger"))
    for (l <- low; h <- high if l > h) refuse("minOffsetsPerTrigger", s"minOffsetsPerTrigger=$l is above maxOffsetsPerTrigger=$h")
    if (isStream) Seq("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets").foreach { name =>
      if (said.contains(lower(name))) refuse(name, s"$name is not valid in streaming queries")
    }
    if (!isStream && said.contains("followcheckpoint")) refuse("followCheckpoint", "followCheckpoint is for streaming queries")
    val strategy = lower(said.getOrElse("startingoffsetsbytimestampstrategy", "error"))
    if (strategy != "error" && strategy != "latest") {
      refuse("startingOffsetsByTimestampStrategy", s"startingOffsetsByTimestampStrategy=${quoted(strategy)}: 'error' or 'latest'")
    }
    val starting = bound(said, "starting", if (isStream) Bound.Latest else Bound.Earliest, nowUs)
    val ending = bound(said, "ending", Bound.Latest, nowUs)
    if (!isStream) {
      refuseWord("startingOffsets", starting, Bound.Latest, "starting offset can't be latest for batch queries")
      refuseWord("endingOffsets", ending, Bound.Earliest, "ending offset can't be earliest for batch queries")
    }
    SourceOptions(said("path"), starting, ending, strategy == "latest", high, low,
      delayS(said.getOrElse("maxtriggerdelay", "15m")), flag(said, "failOnDataLoss", default = true),
      number(said, "minPartitions"),
      number(said, "maxRecordsPerPartition").getOrElse(MaxRecordsPerPartition),
      said.get("consumer"), kinds(said.getOrElse("kinds", "data,result")),
      flag(said, "includeMetadata", default = false), said.get("followcheckpoint"))
  }

  /** As for a stream, but an end is let pass: what only the columns are wanted of may be either. */
  def parseForColumns(options: java.util.Map[String, String]): SourceOptions =
    parse(options.asScala.filterNot { case (name, _) => Ends(lower(name)) }.asJava, isStream = true)

  /** Whether it says what is read, or how. */
  def isKnown(name: String): Boolean = Known.exists(_.equalsIgnoreCase(name))

  private def lower(text: String): String = text.toLowerCase(Locale.ROOT)

  private def refuse(option: String, message: String): Nothing = throw new RefusedOption(option, message)

  /** As Python writes a string: both sources have one wording. */
  private def quoted(text: String): String = {
    val quote = if (text.contains('\'') && !text.contains('"')) "\"" else "'"
    quote + text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace(quote, "\\" + quote) + quote
  }

  private def byLowerName(options: java.util.Map[String, String]): Map[String, String] = {
    val said = options.asScala.map { case (name, value) => lower(name) -> value }.toMap
    val unknown = (said.keySet -- SparksOwn -- Known.map(lower)).toSeq.sorted
    unknown.headOption.foreach(name => refuse(name, s"no option ${quoted(name)}; there are ${Known.mkString(", ")}"))
    if (!said.contains("path")) refuse("path", "there is no path: give one by .option('path', path)")
    said
  }

  /** The most precise that is said wins: a timestamp, one for each partition, offsets. */
  private def bound(said: Map[String, String], side: String, default: Long, nowUs: Long): Bound = {
    def of(name: String) = said.get(lower(name))
    lazy val text = of(s"${side}Offsets").getOrElse("").trim
    of(s"${side}Timestamp").map(text =>
        Bound(timestampUs = Some(moment(s"${side}Timestamp", quoted(text), text, nowUs))))
      .orElse(of(s"${side}OffsetsByTimestamp").map { text =>
        val name = s"${side}OffsetsByTimestamp"
        val moments = partitions(name, text, parsed(text), said("path")).map { case (n, ms) =>
          n -> moment(name, ms.toString, ms.toString, nowUs)
        }
        Bound(timestampsUs = Some(moments))
      })
      .getOrElse {
        if (lower(text) == "earliest") Bound(everywhere = Some(Bound.Earliest))
        else if (lower(text) == "latest") Bound(everywhere = Some(Bound.Latest))
        else if (text.isEmpty) Bound(everywhere = Some(default))
        else {
          val (offsets, queue, behind) = position(s"${side}Offsets", text, said("path"))
          if (offsets.values.exists(_ < Bound.Earliest)) {
            refuse(s"${side}Offsets", s"${side}Offsets: offsets are 0 or more, -1 for latest, -2 for earliest")
          }
          Bound(offsets = Some(offsets), queue = queue, behind = behind)
        }
      }
  }

  private def refuseWord(option: String, bound: Bound, word: Long, message: String): Unit =
    if (bound.everywhere.contains(word) || bound.offsets.exists(_.values.exists(_ == word))) refuse(option, message)

  /** Offsets, the queue's id and the commit, as far as the text says them. */
  private def position(name: String, text: String, path: String): (Map[Int, Long], String, Option[Behind]) = {
    val said = parsed(text)
    val behind = said.flatMap(node => Option(node.get(QueueOffset.BehindKey))).filter(_.isTextual)
      .flatMap(value => Behind.parse(value.asText))
    behind.foreach(_ => said.get.remove(QueueOffset.BehindKey))
    val outer = said.map(_.properties.asScala.toSeq.map(_.getKey)).collect { case Seq(one) => one }.getOrElse("")
    (partitions(name, text, said, path), if (outer.matches(QueueId)) outer else "", behind)
  }

  /** None for a text that is no JSON object. */
  private def parsed(text: String): Option[ObjectNode] =
    Try(json.readTree(text)).toOption.collect { case node: ObjectNode => node }

  /**
   * Numbers by partition; `text` is what was parsed, for the error. They may stand under the id of the queue or the last
   * part of its path, as in Kafka under the name of a topic.
   */
  private def partitions(name: String, text: String, said: Option[ObjectNode], path: String): Map[Int, Long] = {
    def fail() =
      if (name.endsWith("Timestamp")) refuse(name, s"""$name is JSON like {"0":1000,"1":2000}, not ${quoted(text)}""")
      else refuse(name, s"""$name is earliest, latest or JSON like {"0":23,"1":-1}, not ${quoted(text)}""")
    def pairs(node: JsonNode): Seq[(String, JsonNode)] = node.properties.asScala.toSeq.map(e => e.getKey -> e.getValue)
    val whole = said.getOrElse(fail())
    val found = pairs(whole) match {
      case Seq((outer, inner)) if inner.isObject =>
        val here = path.replaceAll("/+$", "").split('/').lastOption.getOrElse("")
        if (outer != here && !outer.matches(QueueId)) {
          refuse(name, s"$name is of ${quoted(outer)}, and this queue is ${quoted(here)}: name that, or its id, or " +
            """give the partitions alone, {"0":23}""")
        }
        pairs(inner)
      case outer => outer
    }
    found.map { case (number, value) =>
      if (!number.matches("\\d{1,9}") || !value.isIntegralNumber || !value.canConvertToLong) fail()
      number.toInt -> value.asLong
    }.toMap
  }

  /** Microseconds of a moment, which is in milliseconds where it is a number alone. */
  private def moment(name: String, shown: String, text: String, nowUs: Long): Long =
    Moments.microseconds(text, nowUs).getOrElse(refuse(name, s"$name: milliseconds since 1970, or a moment like -1h, " +
      s"yesterday or 2013-01-31T12:00:00Z, not $shown"))

  private def number(said: Map[String, String], name: String): Option[Long] = said.get(lower(name)).map { text =>
    if (!text.matches("\\s*0*[1-9]\\d{0,17}\\s*")) refuse(name, s"$name is a whole number above 0, not ${quoted(text)}")
    text.trim.toLong
  }

  private def flag(said: Map[String, String], name: String, default: Boolean): Boolean = {
    val text = lower(said.getOrElse(lower(name), default.toString).trim)
    if (text != "true" && text != "false") refuse(name, s"$name is true or false, not ${quoted(text)}")
    text == "true"
  }

  private val Delay = "\\s*(\\d+)\\s*([a-z]*)\\s*".r

  private def delayS(text: String): Double = lower(text) match {
    case Delay(count, unit) if unit.isEmpty || DelayUnitsS.contains(unit) =>
      count.toDouble * DelayUnitsS(if (unit.isEmpty) "ms" else unit)
    case _ => refuse("maxTriggerDelay", s"maxTriggerDelay is a time like 30s or 15m, not ${quoted(text)}")
  }

  private def kinds(text: String): Set[Byte] = {
    val names = text.split(",", -1).map(name => lower(name.trim)).toSeq
    val known = KindNames.zipWithIndex.map { case (name, at) => name -> (at + 1).toByte }.toMap
    if (names == Seq("all")) known.values.toSet
    else if (names.forall(known.contains)) names.map(known).toSet
    else refuse("kinds", s"kinds=${quoted(text)}: all, or some of ${KindNames.mkString(", ")}")
  }
}

/** Moments in options, as in Python and on the command line, but for numbers alone: those are milliseconds. */
private[cecstore] object Moments {
  private val UnitsUs = Map("us" -> 1L, "ms" -> 1000L, "s" -> 1000000L, "m" -> 60000000L, "min" -> 60000000L,
    "h" -> 3600000000L, "d" -> 86400000000L, "w" -> 604800000000L)
  private val DayUs = UnitsUs("d")
  private val Milliseconds = "([0-9]{1,15})".r
  private val Relative = "([+-][0-9]{1,18})(us|ms|s|min|m|h|d|w)".r
  private val Since1970 = "([0-9]{1,18})(s|ms|us|ns)".r
  private val Zone = "(z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?"
  private val Iso = ("([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[t ]([01][0-9]|2[0-3]):([0-5][0-9])" +
    s"(?::([0-5][0-9])(?:\\.([0-9]{1,9}))?)?$Zone)?").r

  /** None for a text that is no moment, or one outside 64 bits. */
  def microseconds(text: String, nowUs: Long): Option[Long] = text.strip.toLowerCase(Locale.ROOT) match {
    case Milliseconds(ms) => Some(ms.toLong * 1000)
    case Relative(count, unit) => within64Bits(BigInt(nowUs) + BigInt(count.stripPrefix("+")) * UnitsUs(unit))
    case Since1970(count, "ns") => Some(count.toLong / 1000)
    case Since1970(count, unit) => within64Bits(BigInt(count) * UnitsUs(unit))
    case "now" => Some(nowUs)
    case "today" => Some(Math.floorDiv(nowUs, DayUs) * DayUs)
    case "yesterday" => Some((Math.floorDiv(nowUs, DayUs) - 1) * DayUs)
    case Iso(date, hour, minute, second, fraction, zone) =>
      Try(LocalDate.parse(date)).toOption.filter(_.getYear > 0).map { day =>
        def number(digits: String) = Option(digits).fold(0L)(_.toLong)
        val micros = number(Option(fraction).map(_.take(6).padTo(6, '0')).orNull)
        val minutes = number(hour) * 60 + number(minute) - offsetMinutes(zone)
        day.toEpochDay * DayUs + (minutes * 60 + number(second)) * 1000000 + micros
      }
    case _ => None
  }

  private def offsetMinutes(zone: String): Long = if (zone == null || zone == "z") 0 else {
    val minutes = zone.substring(1, 3).toLong * 60 + zone.substring(4).toLong
    if (zone.startsWith("-")) -minutes else minutes
  }

  private def within64Bits(number: BigInt): Option[Long] = Option.when(number.isValidLong)(number.toLong)
}
