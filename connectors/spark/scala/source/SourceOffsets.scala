package org.apache.spark.sql.cecstore.source

import java.time.{Instant, ZoneOffset}
import java.time.format.DateTimeFormatter
import scala.collection.immutable.TreeMap
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.RefusedOption
import org.apache.spark.sql.cecstore.queue.{Behind, QueueReplaced}

/** Records `start` until `stop` of a partition. */
private[cecstore] final case class OffsetRange(partition: Int, start: Long, stop: Long)

/**
 * Which offsets of each partition are in the queue now. Offsets are next-unread ones, by partition; the rules are
 * the Kafka source's.
 *
 * @param path of the queue, for errors
 * @param queue its id, 32 hex digits
 * @param written ends of what a writer has yet to show again after a power cut; else the same as `ends`
 * @param hasBehind whether a commit is in the queue, which holds the last record before a position
 * @param offsetAt the earliest record of a partition at or after a moment (microseconds), if there is one
 */
private[cecstore] final class AvailableOffsets(path: String, queue: String, firsts: Map[Int, Long],
    ends: Map[Int, Long], written: Map[Int, Long], hasBehind: Behind => Boolean, offsetAt: (Int, Long) => Option[Long],
    failOnDataLoss: Boolean)
    extends Logging {
  import AvailableOffsets._

  /** Where a new query begins; raises where there is no record at or after a moment, or an offset is not there. */
  def starting(options: SourceOptions): Map[Int, Long] =
    offsets(options.starting, "starting", options.startWithoutMatchIsLatest)

  /** Where a batch query ends; at the end of a partition without a record that late. */
  def ending(bound: Bound): Map[Int, Long] = offsets(bound, "ending", withoutMatchIsLatest = true)

  private def offsets(bound: Bound, side: String, withoutMatchIsLatest: Boolean): Map[Int, Long] =
    bound.timestampUs.map(moment => ends.map { case (n, _) => n -> moment }).orElse(bound.timestampsUs) match {
      case None => said(bound, s"${side}Offsets")
      case Some(moments) =>
        requireAll(moments, s"${side}OffsetsByTimestamp")
        TreeMap(moments.toSeq: _*).map { case (number, moment) =>
          number -> offsetAt(number, moment).getOrElse {
            if (!withoutMatchIsLatest) throw new CecLogException(s"partition $number has no record at or after " +
              s"${asText(moment)}; startingOffsetsByTimestampStrategy=latest begins at its end then",
              named = Map("path" -> path, "partition" -> number.toString))
            ends(number)
          }
        }
    }

  private def said(bound: Bound, name: String): Map[Int, Long] = {
    val named = bound.offsets.getOrElse(ends.map { case (n, _) => n -> bound.everywhere.get })
    requireAll(named, name)
    val found = named.map {
      case (n, Bound.Earliest) => n -> firsts(n)
      case (n, Bound.Latest) => n -> ends(n)
      case other => other
    }
    here(QueueOffset(bound.queue, found, bound.behind), ends)
  }

  private def requireAll(named: Map[Int, Long], name: String): Unit = if (named.keySet != ends.keySet) {
    throw new RefusedOption(name, s"$name names partitions ${listed(named)}, the queue has ${listed(ends)}: " +
      "name them all, -1 for latest, -2 for earliest")
  }

  /**
   * Where a reader goes on that had come so far, in every partition; one that was added since is read from its
   * beginning. Where loss is allowed, another queue is read from its beginning, and an older copy from its end on, or
   * from the same offsets on where it has grown beyond them. Else raises QueueReplaced for a position of another queue
   * or of another history of this one, CecLogException for one that is trimmed or beyond the end.
   */
  def resumed(position: QueueOffset): Map[Int, Long] = {
    val found = here(position, written)
    if (position.queue == queue) firsts.toSeq.sorted.foreach { case (n, first) =>
      if (first > 0 && !position.offsets.contains(n)) lose(
        s"$path: partition $n, which was added since, begins at $first instead of 0: it is trimmed", new LostRows(path, n, _))
    }
    found
  }

  /** Where a batch ends that ended so far, as `resumed`; and it must be shown. */
  def shown(position: QueueOffset): Map[Int, Long] = here(position, ends)

  private def here(position: QueueOffset, until: Map[Int, Long]): Map[Int, Long] =
    if (position.queue.nonEmpty && position.queue != queue) {
      lose(s"$path: the position is of queue ${position.queue}, and another one is here now, $queue: the queue was made " +
        "anew, or another was put in its place. Put that queue back, or forget the position and begin anew",
        new QueueReplaced(path, _))
      firsts
    } else {
      val found = position.offsets.map { case (n, offset) => n -> checked(n, offset, until) }
      for (behind <- position.behind if found == position.offsets && !hasBehind(behind)) {
        lose(s"$path: the position is behind commit $behind, which is not in the queue any more: an older copy of the " +
          "queue was put back, and has gone on otherwise. Put the newer one back, or forget the position and begin anew",
          new QueueReplaced(path, _))
      }
      firsts.map { case (n, first) => n -> found.getOrElse(n, first) }
    }

  private def checked(number: Int, offset: Long, until: Map[Int, Long]): Long = {
    val (first, end) = (firsts.getOrElse(number, 0L), until.getOrElse(number, 0L))
    if (first <= offset && offset <= end) offset
    else {
      val why = if (offset < first) "it is trimmed"
        else "it is beyond the end, as where an older copy of the queue was put back"
      lose(s"$path: partition $number: offset $offset is not in $first … $end: $why", new LostRows(path, number, _))
      math.min(math.max(offset, first), ends.getOrElse(number, 0L))
    }
  }

  /** Raise the error, unless loss is allowed: then say it as a warning. */
  private def lose(what: String, error: String => CecLogException): Unit = {
    if (failOnDataLoss) throw error(s"$what. Some data may have been lost; failOnDataLoss=false goes on without it")
    logWarning(s"cec: $what; going on without what is missing")
  }
}

/** Rows that a reader still needs are trimmed, or lie beyond the end. */
private[cecstore] final class LostRows(queue: String, partition: Int, message: String)
    extends CecLogException(message, named = Map("queue" -> queue, "partition" -> partition.toString)) {
  override def getCondition: String = "CEC_DATA_LOSS"
}

private[cecstore] object AvailableOffsets {
  private def listed(offsets: Map[Int, Long]): String = offsets.keys.toSeq.sorted.mkString("[", ", ", "]")

  private val Seconds = DateTimeFormatter.ofPattern("yyyy-MM-dd'T'HH:mm:ss")

  /** ISO 8601 in UTC, with six digits of a second where it is no whole one. */
  private def asText(timestampUs: Long): String = {
    val us = Math.floorMod(timestampUs, 1000000L)
    val at = Instant.ofEpochSecond(Math.floorDiv(timestampUs, 1000000L)).atOffset(ZoneOffset.UTC)
    if (at.getYear < 1 || at.getYear > 9999) timestampUs.toString
    else Seconds.format(at) + (if (us == 0) "" else f".$us%06d") + "Z"
  }

  /** At most so many records, each partition its share of what waits. */
  def limited(start: Map[Int, Long], ends: Map[Int, Long], recordsMax: Long): Map[Int, Long] = {
    val waiting = ends.map { case (n, end) => n -> math.max(0L, end - start(n)) }
    val total = waiting.values.sum
    if (total <= recordsMax) ends.map { case (n, _) => n -> (start(n) + waiting(n)) }
    else {
      // One each first, so that small partitions get on beside large ones; where there are more of them than records, the fullest.
      val some = waiting.toSeq.filter(_._2 > 0).sortBy { case (number, size) => (-size, number) }
      val first = some.take(math.min(recordsMax, some.size.toLong).toInt).map(_._1).toSet
      val (rest, left) = (recordsMax - first.size, total - first.size)
      TreeMap(waiting.toSeq: _*).map { case (number, size) =>
        val one = if (first(number)) 1L else 0L
        val share = if (left > 0) (BigInt(rest) * (size - one) / left).toLong else 0L
        number -> (start(number) + one + share)
      }
    }
  }

  /** Ranges for tasks: none above `recordsMax`, and at least so many if there is enough. */
  def cut(all: Seq[OffsetRange], partitionsMin: Option[Long], recordsMax: Long): Seq[OffsetRange] = {
    val ranges = all.filter(one => one.stop > one.start)
    val total = ranges.map(one => one.stop - one.start).sum
    ranges.flatMap { one =>
      val size = one.stop - one.start
      val most = size / recordsMax + (if (size % recordsMax > 0) 1 else 0)
      val pieces = partitionsMin.filter(ranges.size < _)
        .fold(most)(least => math.max(most, math.min(size, math.rint(least.toDouble * size / total).toLong)))
      def at(piece: Long): Long = one.start + (BigInt(size) * piece / pieces).toLong
      (0L until pieces).map(piece => OffsetRange(one.partition, at(piece), at(piece + 1)))
    }
  }
}

/** When a batch begins, and how much it takes: the minimum, the maximum and the delay. */
private[cecstore] final class Admission(recordsMin: Option[Long], recordsMax: Option[Long], delayS: Double,
    clockS: () => Double) {
  private var lastS = clockS()

  /** Where the next batch ends; at `start` to wait. `isBounded`: nothing more comes. */
  def next(start: Map[Int, Long], ends: Map[Int, Long], isBounded: Boolean): Map[Int, Long] = {
    val waiting = ends.map { case (n, end) => math.max(0L, end - start(n)) }.sum
    val nowS = clockS()
    val isTooFew = recordsMin.exists(waiting < _) && !isBounded
    if (isTooFew && nowS - lastS < delayS) start
    else {
      if (waiting > 0) lastS = nowS
      AvailableOffsets.limited(start, ends, recordsMax.getOrElse(waiting))
    }
  }
}
