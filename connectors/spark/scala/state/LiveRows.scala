package org.apache.spark.sql.cecstore.state

import java.util.BitSet
import org.apache.spark.sql.cecstore.format.{Rows, RowsSummary}

/**
 * Which rows of a state are live, as it stands at the end of a version.
 *
 * @param timesOf whose least times the parts have
 * @param parts of all rows of the extent, oldest first
 */
private[cecstore] final case class LiveRows(openWindows: Long, endOffset: Long, timesOf: Option[String], parts: Seq[LiveStretch]) {
  /** The same of frames, of which each is within one part. */
  def ofFrames(frames: Seq[RowsSummary]): Seq[LivePart] = {
    val left = parts.iterator.buffered
    frames.map { frame =>
      while (left.hasNext && left.head.endOffset < frame.endOffset) left.next()
      if (frame.count == 0) LivePart.Empty
      else left.headOption.filter(_.firstOffset <= frame.firstOffset).fold(throw new IllegalStateException(
        s"no rows of the state are those from offset ${frame.firstOffset} to ${frame.endOffset}")) { in =>
        if (in.count == frame.count) in.part else in.part.slice((frame.firstOffset - in.firstOffset).toInt, frame.count)
      }
    }
  }
}

/** Successive rows of the log, from this offset on, which stand together in memory. */
private[cecstore] final case class LiveStretch(firstOffset: Long, count: Int, part: LivePart) {
  def endOffset: Long = firstOffset + count
}

/**
 * Which of some rows are live, and when they are due.
 *
 * @param bits bit i % 64 of word i / 64 is that of row i
 * @param leastTimes of each zone of the first `timedRows` rows, see [[Zones]]
 */
private[cecstore] final case class LivePart(bits: Array[Long], timedRows: Int, leastTimes: Array[Long]) {
  def liveCount: Int = BitSet.valueOf(bits).cardinality

  def slice(from: Int, count: Int): LivePart = {
    val timed = math.max(0, math.min(timedRows - from, count))
    // A zone may have rows of two zones here: the least of both is not above any of its own.
    val times = Array.tabulate(Zones.of(timed)) { zone =>
      val (first, last) = (from + zone * Zones.Size, from + math.min(timed, (zone + 1) * Zones.Size) - 1)
      (Zones.at(first) to Zones.at(last)).map(leastTimes(_)).min
    }
    LivePart(BitSet.valueOf(bits).get(from, from + count).toLongArray, timed, times)
  }
}

private[cecstore] object LivePart {
  val Empty: LivePart = LivePart(Array.empty, 0, Array.empty)

  /** @param hasTimes whether the least times of the rows are known */
  def of(rows: Rows, hasTimes: Boolean): LivePart =
    if (hasTimes) LivePart(rows.liveBits, rows.timedRows, java.util.Arrays.copyOf(rows.leastTimes, Zones.of(rows.timedRows)))
    else LivePart(rows.liveBits, 0, Array.empty)
}
