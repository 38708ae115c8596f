package org.apache.spark.sql.cecstore.state

import scala.collection.mutable.ArrayBuilder
import org.apache.spark.sql.cecstore.format.{Format, Rows}
import org.apache.spark.sql.cecstore.keys.{KeyIndex, RowsTable}

/** Rows that come in from the newest frame back: of each key the first one that is seen counts. CEC paper, II.B. */
private[state] final class BackwardLoad(rows: RowsTable, index: FamilyIndexes) {
  import KeyIndex.Absent

  private val closed = new ArrayBuilder.ofLong
  private var open_ = 0L

  /** Windows found open so far. */
  def open: Long = open_

  /** Take a frame's rows from the last down to `fromRow`. */
  def take(frame: Rows, fromRow: Int): Unit = {
    rows.put(frame)
    val only = if (frame.families == null) index(Format.DefaultFamily) else null
    var row = frame.count - 1
    while (row >= fromRow) {
      val newer = (if (only != null) only else index(frame.family(row))).put(
        frame.keys, frame.keyStart(row), frame.keyLength(row), frame.reference(row), replace = false)
      if (newer == Absent) {
        if (frame.kinds(row) == Format.Result) closed += frame.reference(row) else { frame.markLive(row); open_ += 1 }
      }
      row -= 1
    }
    frame.kinds = null
    frame.renewed = null
  }

  /** All are in: forget the keys that are closed. */
  def finish(): Unit = closed.result().foreach { reference =>
    val (in, row) = (rows.of(reference), reference.toInt)
    index(in.family(row)).delete(in.keyArray(row), in.keyFrom(row), in.keyLength(row))
  }
}
