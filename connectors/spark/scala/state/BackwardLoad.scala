package org.apache.spark.sql.cecstore.state

import scala.collection.mutable.ArrayBuilder
import org.apache.spark.sql.cecstore.format.{Format, Rows}
import org.apache.spark.sql.cecstore.keys.{HashIndex, KeyIndex, RowsTable}

/** Rows that come in from the newest frame back: of each key the first one that is seen counts. CEC paper, II.B. */
private[state] final class BackwardLoad(rows: RowsTable, index: FamilyIndexes, memory: RowMemory) {
  import KeyIndex.Absent

  private val closed = new ArrayBuilder.ofLong
  private var open_ = 0L

  /** Take a frame's rows from the last down to `fromRow`. */
  def take(frame: Rows, fromRow: Int): Unit = {
    rows.put(frame)
    val only = if (frame.families == null) index(Format.DefaultFamily) else null
    memory.placing {
      var row = frame.count - 1
      while (row >= fromRow) {
        val isClosed = frame.kinds(row) == Format.Result
        (if (only != null) only else index(frame.family(row))) match {
          case later: HashIndex if later.isLoading =>
            later.load(frame.keys, frame.keyStart(row), frame.keyLength(row), frame.reference(row), isClosed)
          case now =>
            val newer = now.put(frame.keys, frame.keyStart(row), frame.keyLength(row), frame.reference(row), replace = false)
            if (newer == Absent) { if (isClosed) closed += frame.reference(row) else open(frame.reference(row)) }
        }
        row -= 1
      }
    }
    frame.kinds = null
    frame.renewed = null
  }

  private def open(reference: Long): Unit = { rows.of(reference).markLive(reference.toInt); open_ += 1 }

  /** All are in: forget the keys that are closed. Returns how many windows are open. */
  def finish(): Long = {
    closed.result().foreach { reference =>
      val (in, row) = (rows.of(reference), reference.toInt)
      index(in.family(row)).delete(in.keyArray(row), in.keyFrom(row), in.keyLength(row))
    }
    index.loaded(open)
    open_
  }
}
