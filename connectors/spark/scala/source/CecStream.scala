package org.apache.spark.sql.cecstore.source

import java.util.{Arrays, Collections, Optional}
import scala.collection.immutable.TreeMap
import scala.jdk.CollectionConverters._
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.fleet.Pools
import org.apache.spark.sql.cecstore.format.RefusedOption
import org.apache.spark.sql.cecstore.queue.{Behind, NotAQueue, QueueReplaced}
import org.apache.spark.sql.cecstore.standby.Following
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReaderFactory}
import org.apache.spark.sql.connector.read.streaming.{MicroBatchStream, Offset, ReadAllAvailable, ReadLimit}
import org.apache.spark.sql.connector.read.streaming.{ReportsSourceMetrics, SupportsTriggerAvailableNow}

/**
 * Next unread offsets of one queue by partition: `{"<queue>": {"0": 17, "1": 4}, "behind": "12-9f0c…"}`.
 *
 * @param queue its id, 32 hex digits; empty: of no queue yet
 * @param behind the commit with the last record before them; none in a queue without commits
 */
private[cecstore] final case class QueueOffset(queue: String, offsets: Map[Int, Long], behind: Option[Behind] = None)
    extends Offset {
  // Spark compares texts: this one is what the source in Python writes.
  override def json: String = if (queue.isEmpty) "{}" else {
    val all = TreeMap(offsets.toSeq: _*).map { case (number, offset) => s""""$number": $offset""" }
    val after = behind.fold("")(commit => s""", "behind": "$commit"""")
    s"""{"$queue": ${all.mkString("{", ", ", "}")}$after}"""
  }
  override def equals(other: Any): Boolean = super.equals(other)
  override def hashCode: Int = super.hashCode
}

private[cecstore] object QueueOffset {
  val BehindKey = "behind"
  private val mapper = new ObjectMapper

  def parse(json: String): QueueOffset = try {
    val said = mapper.readTree(json)
    said.properties.asScala.toSeq match {
      case Seq() if said.isObject => QueueOffset("", Map.empty)
      case all =>
        val (commit, queues) = all.partition(_.getKey == BehindKey)
        if (queues.size != 1 || !queues.head.getValue.isObject) throw new NumberFormatException
        val offsets = queues.head.getValue.properties.asScala.map(e => e.getKey.toInt -> number(e.getValue)).toMap
        val behind = commit.headOption.map(e => Behind.parse(e.getValue.asText).getOrElse(throw new NumberFormatException))
        QueueOffset(queues.head.getKey, offsets, behind)
    }
  } catch {
    case e @ (_: NumberFormatException | _: com.fasterxml.jackson.core.JacksonException) =>
      throw new CecLogException(s"the checkpoint's offset $json is none of a queue: is it another source's, or of a " +
        "release that did not name the queue? Begin anew with a new checkpoint", e, Map("offset" -> json))
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
    opened: ReadableQueue, options: SourceOptions, wanted: Wanted, beginning: Beginning, following: Option[Following] = None)
    extends MicroBatchStream with SupportsTriggerAvailableNow with ReportsSourceMetrics with Logging {
  private var queue = opened
  /** Commits of positions that were given out or proven here: from there on the queue is followed. */
  private var proven = Vector.empty[Behind]
  private var isGone = false
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
        "primary, checkpoint) makes before the query starts", named = Map("checkpoint" -> primary))
    val start = beginning.kept(position(available.starting(options)))
    if (start.queue == queue.id) hold(start.offsets, Map.empty)
    start
  }

  private def available: AvailableOffsets =
    queue.available(options.failOnDataLoss, behind => proven.contains(behind) || queue.has(behind) && prove(behind))

  private def prove(behind: Behind): Boolean = {
    proven = (proven :+ behind).takeRight(4)
    true
  }

  private def position(offsets: Map[Int, Long]): QueueOffset = {
    val behind = queue.behind(offsets)
    behind.foreach(prove)
    QueueOffset(queue.id, offsets, behind)
  }

  /**
   * Look again how far the queue reaches; false where none is there now. Where loss is allowed, the stream goes on with
   * whatever stands in the queue's place, as Kafka's does with a topic that was made anew.
   */
  private def look(): Boolean = try {
    queue.refresh()
    isGone = false
    true
  } catch {
    case e @ (_: QueueReplaced | _: NotAQueue) if !options.failOnDataLoss =>
      val found = try ReadableQueue.openIfMade(queue.path) catch { case _: NotAQueue => None }
      if (found.exists(other => !Arrays.equals(other.schemaMessage, queue.schemaMessage))) throw e
      if (found.nonEmpty || !isGone) logWarning(s"cec: ${e.getMessage}; going on with what is there")
      isGone = found.isEmpty
      for (other <- found) {
        queue = other
        proven = Vector.empty
        acknowledge = None
        target = target.map(_ => other.ends)
      }
      !isGone
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
    look()
    target = Some(queue.ends)
  }

  override def latestOffset(): Offset =
    throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) is what is called")

  /** Where the next batch ends. */
  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    val told = following.flatMap(_.end())
    // A consumer's name stays with the other driver.
    if (!look()) start
    else told.fold(cut(start, limit))(end => followed(QueueOffset.of(start), QueueOffset.parse(end)))
  }

  /** Where the other driver's batch ends; of another queue, `planInputPartitions` tells. */
  private def followed(start: QueueOffset, end: QueueOffset): Offset =
    if (end.queue.isEmpty) start
    else if (start.queue != end.queue) end
    else {
      val behind = start.offsets.filter { case (n, offset) => offset > end.offsets.getOrElse(n, offset) }
      if (behind.nonEmpty) throw new CecLogException(s"followCheckpoint: a batch of " +
        s"${options.followCheckpoint.mkString} ends at ${end.json}, before ${start.json}, where this query is: it has " +
        "gone another way; make the standby anew", named = Map("checkpoint" -> options.followCheckpoint.mkString))
      QueueOffset(end.queue, start.offsets ++ end.offsets, end.behind)
    }

  private def cut(start: Offset, limit: ReadLimit): Offset = {
    // Spark asks once the batch before is in its checkpoint: after the last one of a run, and while it waits, as
    // well. It calls commit() only when the next batch has rows. A recovery may end with this call: the consumer
    // must be held before it acknowledges.
    val before = QueueOffset.of(start)
    val begin = available.resumed(before)
    hold(shown(begin), done = shown(begin))
    commit(QueueOffset(queue.id, begin))
    val reached = target.fold(queue.ends)(until => queue.ends.map { case (n, _) => n -> until.getOrElse(n, begin(n)) })
    // A writer may have yet to show again what was read before a power cut.
    val ends = reached.map { case (n, end) => n -> math.max(end, begin(n)) }
    val next = limit match {
      case _: ReadAllAvailable => ends
      case _ => admission.next(begin, ends, target.isDefined)
    }
    tell(begin, next)
    // Spark takes another text for a new batch, which is due only where loss was allowed.
    val isSame = before.queue == queue.id && before.offsets == next && before.behind.forall(proven.contains)
    if (isSame) before else position(next)
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
    val isNew = until.offsets.exists { case (n, stop) => stop > queue.ends.getOrElse(n, 0L) }
    if ((isNew || !options.failOnDataLoss) && !look()) return Array.empty
    val now = available
    val (begin, ends) = (now.resumed(QueueOffset.of(start)), now.shown(until))
    // For a batch that an earlier run has begun no end is asked for.
    if (following.isEmpty) tell(begin, ends)
    val ranges = ends.toSeq.sortBy(_._1).map { case (n, stop) => OffsetRange(n, begin(n), stop) }
    // A task each, as of Kafka's topics: where rows stand in a sink goes by it.
    CecScan.slices(queue, ranges, options, _ => true)
      .map(slice => CecScan.group(queue, IndexedSeq(slice), isReadAtOnce = true)).toArray
  }

  override def createReaderFactory(): PartitionReaderFactory = CecScan.readers(queue, wanted)

  /** The offsets, as far as the queue shows them. */
  private def shown(offsets: Map[Int, Long]): Map[Int, Long] =
    offsets.collect { case (n, offset) if queue.ends.contains(n) => n -> math.min(offset, queue.ends(n)) }

  /**
   * Act as the consumer that the options name.
   *
   * @param done offsets below which the query's checkpoint says that all was processed: the consumer needs nothing there, also where the
   *             query has ended before it acknowledged them
   */
  private def hold(start: Map[Int, Long], done: Map[Int, Long]): Unit = for (name <- options.consumer if acknowledge.isEmpty) {
    val there = start.map { case (n, offset) => n -> math.max(offset, queue.firsts.getOrElse(n, 0L)) }
    acknowledge = Some(queue.consumer(name, there, done, options.failOnDataLoss))
  }

  /** Everything below has been processed, and its effects are in the query's checkpoint. */
  override def commit(end: Offset): Unit = for (say <- acknowledge) {
    val done = QueueOffset.of(end)
    if (done.queue == queue.id) try say(shown(done.offsets)) catch {
      case e: QueueReplaced if !options.failOnDataLoss =>
        logWarning(s"cec: ${e.getMessage}; nothing is acknowledged")
        acknowledge = None
    }
  }

  /** The query has ended; the queue keeps what the consumer has not acknowledged. */
  override def stop(): Unit = acknowledge = None
}
