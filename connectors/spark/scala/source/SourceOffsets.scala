package org.apache.spark.sql.cecstore.source

import java.time.{Instant, ZoneOffset}
import java.time.format.DateTimeFormatter
import scala.collection.immutable.TreeMap
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.CecLogException

/** Records `start` until `stop` of a partition. */
private[cecstore] final case class OffsetRange(partition: Int, start: Long, stop: Long)

/**
 * Which offsets of each partition are in the queue now. Offsets are next-unread ones, by partition; the rules are
 * the Kafka source's.
 *
 * @param offsetAt the earliest record of a partition at or after a moment (microseconds), if there is one
 */
private[cecstore] final class AvailableOffsets(firsts: Map[Int, Long], ends: Map[Int, Long],
    offsetAt: (Int, Long) => Option[Long], failOnDataLoss: Boolean) extends Logging {
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
              s"${shown(moment)}; startingOffsetsByTimestampStrategy=latest begins at its end then")
            ends(number)
          }
        }
    }

  private def said(bound: Bound, name: String): Map[Int, Long] = {
    val named = bound.offsets.getOrElse(ends.map { case (n, _) => n -> bound.everywhere.get })
    requireAll(named, name)
    TreeMap(named.toSeq: _*).map {
      case (n, Bound.Earliest) => n -> kept(n, firsts(n))
      case (n, Bound.Latest) => n -> kept(n, ends(n))
      case (n, offset) => n -> kept(n, offset)
    }
  }

  private def requireAll(named: Map[Int, Long], name: String): Unit = if (named.keySet != ends.keySet) {
    throw new IllegalArgumentException(s"$name names partitions ${listed(named)}, the queue has ${listed(ends)}: " +
      "name them all, -1 for latest, -2 for earliest")
  }

  /** The offset, if it is in the queue; else the nearest that is, where loss is allowed. */
  def kept(number: Int, offset: Long): Long = {
    val (first, end) = (firsts.getOrElse(number, 0L), ends.getOrElse(number, 0L))
    if (first <= offset && offset <= end) offset
    else {
      val why = if (offset < first) "trimmed" else "beyond the end"
      val what = s"partition $number: offset $offset is $why; there are $first … $end"
      if (failOnDataLoss) throw new CecLogException(
        s"$what. Some data may have been lost; failOnDataLoss=false goes on without it")
      logWarning(s"cec: $what; going on without what is missing")
      math.min(math.max(offset, first), end)
    }
  }
}

private[cecstore] object AvailableOffsets {
  private def listed(offsets: Map[Int, Long]): String = offsets.keys.toSeq.sorted.mkString("[", ", ", "]")

  private val Seconds = DateTimeFormatter.ofPattern("yyyy-MM-dd'T'HH:mm:ss")

  /** ISO 8601 in UTC, with six digits of a second where it is no whole one. */
  private def shown(timestampUs: Long): String = {
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
      var left = recordsMax
      TreeMap(waiting.toSeq: _*).map { case (number, size) =>
        val share = (BigInt(recordsMax) * size / total).toLong
        // Rounded up where it is below 1, so that small partitions get on as well.
        val taken = math.min(left, math.max(share, math.min(size, 1L)))
        left -= taken
        number -> (start(number) + taken)
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
