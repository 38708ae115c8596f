package org.apache.spark.sql.cecstore.state

import scala.collection.mutable.ArrayBuilder
import org.apache.spark.sql.cecstore.format.{Format, Rows}
import org.apache.spark.sql.cecstore.keys.{KeyIndex, RowsTable}

/** When a row is due. Two that are equal say the same of every row. */
private[cecstore] trait RowTime {
  /** Two of one name are equal: it stands in files. */
  def name: String
  /** Microseconds, never above the row's time: [[Zones.Least]] for a row without one, [[Zones.Never]] for one that is never due. */
  def of(in: Rows, row: Int): Long
}

/**
 * The least time of each zone, a block of rows as they stand in memory, so that a scan for old rows reads only the
 * zones that may have some. A zone's time may be below those of its live rows, and is never above one of them.
 *
 * Rows that are put, loaded, renewed or followed are taken in by the next scan, in the order in which they stand. A zone
 * that was scanned is taken anew from its live rows once the version is in the log; whoever takes a version back
 * [[lower]]s the zones of the rows that live again.
 *
 * @param family whose rows these are; those of other families are left out
 */
private[cecstore] final class Zones(rows: RowsTable, family: Int, val time: RowTime) {
  import Zones._

  /** Zones that scans have read since the version began: an id of rows, and a zone. */
  private val read = new ArrayBuilder.ofLong

  /**
   * References of the live rows that are due at the bound, in the order in which they stand. Rows may be put and
   * removed meanwhile; what is put after the scan began is not part of it.
   *
   * @param ids those of the rows to scan
   * @param examined called for each row whose time is read
   */
  def notAfter(boundUs: Long, ids: Range, examined: () => Unit): Iterator[Long] = {
    val parts = ids.map(rows(_)).toArray
    parts.foreach(cover)
    new Scan(parts, boundUs, examined)
  }

  /** Take in the rows that have come since the last scan. */
  def cover(in: Rows): Unit = if (in.timedRows < in.count) {
    in.leastTimes = java.util.Arrays.copyOf(in.leastTimes, Zones.of(in.count))
    java.util.Arrays.fill(in.leastTimes, Zones.of(in.timedRows), in.leastTimes.length, Never)
    take(in, in.timedRows, in.count)
    in.timedRows = in.count
  }

  /** Lower the zones of these rows as far as those that are live need it. */
  private def take(in: Rows, from: Int, until: Int): Unit = {
    var row = in.nextLive(from)
    while (row < until) {
      lowerFor(in, row)
      row = in.nextLive(row + 1)
    }
  }

  /** A row that closes its key counts as live until the version is in the log, and has no value. */
  private def isOfFamily(in: Rows, row: Int): Boolean =
    in.family(row) == family && (in.kinds == null || in.kinds(row) != Format.Result)

  /** A row that was dead lives again. */
  def lower(in: Rows, row: Int): Unit = if (row < in.timedRows) lowerFor(in, row)

  private def lowerFor(in: Rows, row: Int): Unit =
    if (isOfFamily(in, row)) in.leastTimes(row >> Bits) = math.min(in.leastTimes(row >> Bits), time.of(in, row))

  /** The version is in the log: take what its scans have read from the rows that are live now. */
  def renew(): Unit = {
    read.result().foreach { reference =>
      val (in, zone) = (rows.of(reference), reference.toInt)
      // A part that was packed has none yet.
      if (zone < Zones.of(in.timedRows)) {
        in.leastTimes(zone) = Never
        take(in, zone << Bits, math.min(in.timedRows, (zone + 1) << Bits))
      }
    }
    read.clear()
  }

  /** The version is given up: its scans have changed nothing. */
  def forgetScans(): Unit = read.clear()

  private final class Scan(parts: Array[Rows], boundUs: Long, examined: () => Unit) extends Iterator[Long] {
    private val ends = parts.map(_.timedRows)
    private var part = 0
    /** Of the part that is being read; rows from `row` to `zoneEnd` are in a zone that may have some that are due. */
    private var row, zoneEnd = 0
    private var found = KeyIndex.Absent

    override def hasNext: Boolean = {
      while (found == KeyIndex.Absent && part < parts.length) advance()
      found != KeyIndex.Absent
    }

    override def next(): Long = {
      if (!hasNext) throw new NoSuchElementException("the end of a scan")
      val reference = found
      found = KeyIndex.Absent
      reference
    }

    private def advance(): Unit = {
      val in = parts(part)
      if (row < zoneEnd) row = in.nextLive(row)
      if (row < zoneEnd) {
        if (isOfFamily(in, row)) {
          examined()
          if (time.of(in, row) <= boundUs) found = in.reference(row)
        }
        row += 1
      } else enterZone(in)
    }

    /** Stand at the next zone that may have rows that are due, or at the next part. */
    private def enterZone(in: Rows): Unit = {
      var zone = Zones.of(zoneEnd)
      val zones = Zones.of(ends(part))
      while (zone < zones && in.leastTimes(zone) > boundUs) zone += 1
      if (zone < zones) {
        read += in.id.toLong << 32 | zone
        row = zone << Bits
        zoneEnd = math.min(ends(part), row + Size)
      } else { part += 1; row = 0; zoneEnd = 0 }
    }
  }
}

private[cecstore] object Zones {
  /** A row without a time counts as due whatever the bound: whoever asked decides. */
  val Least: Long = Long.MinValue
  val Never: Long = Long.MaxValue
  private val Bits = 8
  /** Rows of a zone. */
  val Size: Int = 1 << Bits

  /** How many zones so many rows have. */
  private[state] def of(rows: Int): Int = (rows + Size - 1) >> Bits
  /** The zone of a row. */
  private[state] def at(row: Int): Int = row >> Bits
}
