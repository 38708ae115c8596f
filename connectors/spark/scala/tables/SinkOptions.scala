package org.apache.spark.sql.cecstore.tables

import java.util.Locale
import org.apache.spark.sql.cecstore.format.RefusedOption
import org.apache.spark.sql.cecstore.queue.{Names => QueueNames, Retention}

/** Who writes and which of its batches, where the caller says so. */
private[tables] final case class Transaction(app: String, version: Long)

/**
 * The options of the sink, checked as far as they can be without the queue.
 *
 * @param segmentBytes where a task begins another object
 * @param retention of a queue that is made, as its settings say it
 * @param checkpoint of a stream, where Spark has told it
 */
private[tables] final case class SinkOptions(
    path: String, timestampColumn: Option[String], keyColumns: Seq[String], segmentBytes: Long,
    retention: Option[String], singleWriter: Boolean, transaction: Option[Transaction], checkpoint: Option[String])

private[tables] object SinkOptions {
  val Names: Seq[String] = Seq("path", "timestampColumn", "keyColumns", "segmentBytes", "retention", "singleWriter")
  private val OfTransaction = Seq("txnAppId", "txnVersion")
  private val Checkpoint = "checkpointlocation"
  private val SparksOwn = Set(Checkpoint, "queryname", "outputmode")
  private val (segmentBytesMin, segmentBytesDefault, segmentBytesMax) = (4L << 10, 64L << 20, 1L << 30)
  private val Digits = "[0-9]+".r

  /**
   * Names may be in any case. Raises RefusedOption for an unknown name or a value that is not allowed.
   *
   * @param ofTable what the table was made with: names that are not the sink's are others'
   */
  def parse(said: Map[String, String], ofTable: Map[String, String], isBatch: Boolean): SinkOptions = {
    val known = if (isBatch) Names ++ OfTransaction else Names
    val lower = known.map(_.toLowerCase(Locale.ROOT)).toSet
    val own = lowered(said)
    (own.keySet -- SparksOwn -- lower).toSeq.sorted.headOption.foreach(name =>
      refuse(name, s"no option '$name'; there are ${known.mkString(", ")}"))
    val given = lowered(ofTable).filter { case (name, _) => lower(name) } ++ own
    def get(name: String): Option[String] = given.get(name.toLowerCase(Locale.ROOT))
    SinkOptions(
      get("path").getOrElse(refuse("path", "there is no path: give one by .option('path', path)")),
      get("timestampColumn"),
      get("keyColumns").toSeq.flatMap(_.split(",").map(_.trim).filter(_.nonEmpty)),
      get("segmentBytes").fold(segmentBytesDefault)(segmentBytes),
      get("retention").map(retention),
      get("singleWriter").exists(flag("singleWriter", _)),
      if (isBatch) transaction(get("txnAppId"), get("txnVersion")) else None,
      if (isBatch) None else own.get(Checkpoint))
  }

  /** Whether it says how every query writes. */
  def isKnown(name: String): Boolean = Names.exists(_.equalsIgnoreCase(name))

  /** The path in options that are not checked yet. */
  def pathOf(options: Map[String, String]): String = lowered(options).getOrElse("path", "")

  private def lowered(options: Map[String, String]): Map[String, String] =
    options.map { case (name, value) => name.toLowerCase(Locale.ROOT) -> value }

  private def segmentBytes(text: String): Long = number(text.trim)
    .filter(bytes => bytes >= segmentBytesMin && bytes <= segmentBytesMax)
    .getOrElse(refuse("segmentBytes", s"segmentBytes is $segmentBytesMin to $segmentBytesMax, in bytes, not '$text'"))

  private def number(digits: String): Option[Long] = Some(digits).filter(Digits.matches).flatMap(_.toLongOption)

  private def flag(name: String, text: String): Boolean = text.trim.toLowerCase(Locale.ROOT).toBooleanOption
    .getOrElse(refuse(name, s"$name is true or false, not '$text'"))

  private def transaction(app: Option[String], version: Option[String]): Option[Transaction] = {
    val found = for (id <- app if QueueNames.isGiven(id); batch <- version.flatMap(number)) yield Transaction(id, batch)
    if (found.isEmpty && (app.nonEmpty || version.nonEmpty)) {
      def shown(given: Option[String]) = given.fold("None")(text => s"'$text'")
      refuse("txnAppId", "txnAppId (up to 100 letters, digits, '.', '_', '-') and txnVersion (the batch's id) " +
        s"go together, not ${shown(app)} and ${shown(version)}")
    }
    found
  }

  private def retention(text: String): String = Retention.parse(text).getOrElse(refuse("retention",
    s"no retention: '$text'; it is forever, consumers, a time above 0 such as 7d or a size such as 10GiB")).toString

  private def refuse(option: String, message: String): Nothing = throw new RefusedOption(option, message)
}
