package org.apache.spark.sql.cecstore.source

import java.util.{Collections, Optional}
import scala.collection.immutable.TreeMap
import scala.jdk.CollectionConverters._
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.fleet.Pools
import org.apache.spark.sql.cecstore.format.RefusedOption
import org.apache.spark.sql.cecstore.standby.Following
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReaderFactory}
import org.apache.spark.sql.connector.read.streaming.{MicroBatchStream, Offset, ReadAllAvailable, ReadLimit}
import org.apache.spark.sql.connector.read.streaming.{ReportsSourceMetrics, SupportsTriggerAvailableNow}

/**
 * Next unread offsets of one queue by partition, as in the checkpoints of every release:
 * `{"<queue>": {"0": 17, "1": 4}}`.
 *
 * @param queue its id, 32 hex digits; empty: of no queue yet
 */
private[cecstore] final case class QueueOffset(queue: String, offsets: Map[Int, Long]) extends Offset {
  // Spark compares texts: this one is what the source in Python wrote.
  override def json: String = if (queue.isEmpty) "{}" else {
    val all = TreeMap(offsets.toSeq: _*).map { case (number, offset) => s""""$number": $offset""" }
    s"""{"$queue": ${all.mkString("{", ", ", "}")}}"""
  }
  override def equals(other: Any): Boolean = super.equals(other)
  override def hashCode: Int = super.hashCode
}

private[cecstore] object QueueOffset {
  private val mapper = new ObjectMapper

  def parse(json: String): QueueOffset = try {
    val said = mapper.readTree(json)
    said.properties.asScala.toSeq match {
      case Seq() if said.isObject => QueueOffset("", Map.empty)
      case Seq(queue) if queue.getValue.isObject =>
        QueueOffset(queue.getKey, queue.getValue.properties.asScala.map(e => e.getKey.toInt -> number(e.getValue)).toMap)
      case _ => throw new NumberFormatException
    }
  } catch {
    case e @ (_: NumberFormatException | _: com.fasterxml.jackson.core.JacksonException) =>
      throw new CecLogException(s"the checkpoint's offset $json is none of a queue: is it another source's, or of a " +
        "release that did not name the queue? Begin anew with a new checkpoint", e)
  }

  private def number(value: JsonNode): Long =
    if (value.isIntegralNumber && value.canConvertToLong && value.longValue >= 0) value.longValue
    else throw new NumberFormatException

  def of(offset: Offset): QueueOffset = parse(offset.json)
}

/**
 * A queue as a stream. One request where nothing is new.
 *
 * @param following another driver, whose batches are taken for as long as it is at work
 */
private[cecstore] final class CecStream(
    queue: ReadableQueue, options: SourceOptions, wanted: Wanted, following: Option[Following] = None)
    extends MicroBatchStream with SupportsTriggerAvailableNow with ReportsSourceMetrics {
  private val admission = new Admission(options.minOffsetsPerTrigger, options.maxOffsetsPerTrigger,
    options.maxTriggerDelayS, () => System.nanoTime() / 1e9)
  private var target: Option[Map[Int, Long]] = None
  private var acknowledge: Option[Map[Int, Long] => Unit] = None

  /** What the query's progress calls this source. */
  override def toString: String = s"cec[${queue.store.url}]"

  /** Of a new query; one that is restarted goes on where its checkpoint says. */
  override def initialOffset(): Offset = {
    for (primary <- options.followCheckpoint) throw new CecLogException(
      s"followCheckpoint=$primary: whoever follows goes on from a copy of that checkpoint, which spark.follow(session, " +
        "primary, checkpoint) makes before the query starts")
    val start = queue.available(options.failOnDataLoss).starting(options)
    hold(start)
    QueueOffset(queue.id, start)
  }

  override def deserializeOffset(json: String): Offset = QueueOffset.parse(json)

  /** As the options say. Spark passes another limit where it wants all. */
  override def getDefaultReadLimit: ReadLimit =
    options.maxOffsetsPerTrigger.map(ReadLimit.maxRows)
      .orElse(options.minOffsetsPerTrigger.map(rows =>
          ReadLimit.minRows(rows, (options.maxTriggerDelayS * 1000).toLong)))
      .getOrElse(ReadLimit.allAvailable)

  /** What comes later is for the next run. */
  override def prepareForTriggerAvailableNow(): Unit = {
    if (following.nonEmpty) throw new RefusedOption("followCheckpoint",
      "followCheckpoint goes with triggers that go on: Trigger.AvailableNow takes what is there and stops")
    queue.refresh()
    target = Some(queue.ends)
  }

  override def latestOffset(): Offset =
    throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) is what is called")

  /** Where the next batch ends. */
  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    val told = following.flatMap(_.end())
    queue.refresh()
    // A consumer's name stays with the other driver.
    told.fold(cut(start, limit))(end => followed(QueueOffset.of(start), QueueOffset.parse(end)))
  }

  /** Where the other driver's batch ends; of another queue, `planInputPartitions` tells. */
  private def followed(start: QueueOffset, end: QueueOffset): Offset =
    if (end.queue.isEmpty) start
    else if (start.queue != end.queue) end
    else {
      val behind = start.offsets.filter { case (n, offset) => offset > end.offsets.getOrElse(n, offset) }
      if (behind.nonEmpty) throw new CecLogException(s"followCheckpoint: a batch of " +
        s"${options.followCheckpoint.mkString} ends at ${end.json}, before ${start.json}, where this query is: it has " +
        "gone another way; make the standby anew")
      QueueOffset(end.queue, start.offsets ++ end.offsets)
    }

  private def cut(start: Offset, limit: ReadLimit): Offset = {
    // Spark asks once the batch before is in its checkpoint: after the last one of a run, and while it waits, as
    // well. It calls commit() only when the next batch has rows. A recovery may end with this call: the consumer
    // must be held before it acknowledges.
    val begin = queue.available(options.failOnDataLoss).resumed(QueueOffset.of(start))
    hold(shown(begin))
    commit(QueueOffset(queue.id, begin))
    val reached = target.fold(queue.ends)(until => queue.ends.map { case (n, _) => n -> until.getOrElse(n, begin(n)) })
    // A writer may have yet to show again what was read before a power cut.
    val ends = reached.map { case (n, end) => n -> math.max(end, begin(n)) }
    val next = limit match {
      case _: ReadAllAvailable => ends
      case _ => admission.next(begin, ends, target.isDefined)
    }
    tell(begin, next)
    QueueOffset(queue.id, next)
  }

  /** Whether a batch leaves rows that are there already. */
  private def tell(begin: Map[Int, Long], ends: Map[Int, Long]): Unit =
    Pools.told(this, isBehind = ends.exists { case (n, end) => end > begin(n) && end < queue.ends.getOrElse(n, end) })

  /** For the query's progress; no request. */
  override def reportLatestOffset(): Offset = QueueOffset(queue.id, queue.ends)

  override def metrics(latestConsumed: Optional[Offset]): java.util.Map[String, String] =
    if (!latestConsumed.isPresent) Collections.emptyMap()
    else {
      val consumed = QueueOffset.of(latestConsumed.get).offsets
      val behind = queue.ends.map { case (n, end) => math.max(0L, end - consumed.getOrElse(n, queue.firsts(n))) }
      Map("recordsBehindLatest" -> behind.sum.toString, "maxRecordsBehindLatest" -> behind.max.toString).asJava
    }

  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = {
    val until = QueueOffset.of(end)
    // A query that is restarted has an end that this object has not seen.
    if (until.offsets.exists { case (n, stop) => stop > queue.ends.getOrElse(n, 0L) }) queue.refresh()
    val available = queue.available(options.failOnDataLoss)
    val (begin, ends) = (available.resumed(QueueOffset.of(start)), available.shown(until))
    // For a batch that an earlier run has begun no end is asked for.
    if (following.isEmpty) tell(begin, ends)
    val ranges = ends.toSeq.sortBy(_._1).map { case (n, stop) => OffsetRange(n, begin(n), stop) }
    // A task each, as of Kafka's topics: where rows stand in a sink goes by it.
    CecScan.slices(queue, ranges, options, _ => true).map(slice => SliceGroup(IndexedSeq(slice))).toArray
  }

  override def createReaderFactory(): PartitionReaderFactory = CecScan.readers(queue, wanted)

  /** The offsets, as far as the queue shows them. */
  private def shown(offsets: Map[Int, Long]): Map[Int, Long] =
    offsets.collect { case (n, offset) if queue.ends.contains(n) => n -> math.min(offset, queue.ends(n)) }

  /** Act as the consumer that the options name. */
  private def hold(start: Map[Int, Long]): Unit = for (name <- options.consumer if acknowledge.isEmpty) {
    val there = start.map { case (n, offset) => n -> math.max(offset, queue.firsts.getOrElse(n, 0L)) }
    acknowledge = Some(queue.consumer(name, there, options.failOnDataLoss))
  }

  /** Everything below has been processed, and its effects are in the query's checkpoint. */
  override def commit(end: Offset): Unit = for (say <- acknowledge) {
    val done = QueueOffset.of(end)
    if (done.queue == queue.id) say(shown(done.offsets))
  }

  /** The query has ended; the queue keeps what the consumer has not acknowledged. */
  override def stop(): Unit = acknowledge = None
}
