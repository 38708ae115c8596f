package org.apache.spark.sql.cecstore.store

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.cecstore.format.{Format, Rows}
import org.apache.spark.sql.cecstore.log.{FrameAt, StateLog, VersionErrors}
import org.apache.spark.sql.cecstore.state.{FamilyNumbers, StateLoader}
import org.apache.spark.sql.execution.streaming.state.{RecordType, StateStore}
import org.apache.spark.util.NextIterator

/** What the versions from `start` to `end` changed, in order; renewed footprints changed nothing. */
private[cecstore] final class ChangeReader(
    log: StateLog, start: Long, end: Long, uniqueId: Option[String], family: String, codec: FamilyCodec)
  extends NextIterator[(RecordType.Value, UnsafeRow, UnsafeRow, Long)] {
  private val last = VersionErrors.explained(log, end)(log.find(end, uniqueId))
  private val frames = VersionErrors.explained(log, end)(log.changes(start - 1, last)).iterator
  // Not there any more: refuse rather than begin later.
  if (start > 1) VersionErrors.explained(log, start - 1)(log.find(start - 1, None))
  private val number = if (family == StateStore.DEFAULT_COL_FAMILY_NAME) Format.DefaultFamily
    else new FamilyNumbers(StateLoader.load(log, last, _ => false)).numberOf(family).getOrElse(-1)
  private var frame: FrameAt = null
  private var rows: Rows = null
  private var row = 0

  override def getNext(): (RecordType.Value, UnsafeRow, UnsafeRow, Long) = {
    while (true) {
      if (rows == null || row == rows.count) {
        if (!frames.hasNext) { finished = true; return null }
        frame = frames.next()
        rows = VersionErrors.explained(log, end)(frame.segment.rows(frame, 1))
        row = 0
      } else {
        row += 1
        if (rows.family(row - 1) == number && !rows.isRenewed(row - 1)) return change(row - 1)
      }
    }
    null
  }

  /** Spark numbers changes by the batch that made them. */
  private def change(row: Int): (RecordType.Value, UnsafeRow, UnsafeRow, Long) = {
    val key = codec.decodeKey(rows, row, codec.newKeyRow).copy()
    val batch = frame.header.inputUpto - 1
    if (rows.kinds(row) == Format.Result) (RecordType.DELETE_RECORD, key, null, batch)
    else (RecordType.PUT_RECORD, key, codec.decodeValue(rows, row, codec.newValueRow).copy(), batch)
  }

  override def close(): Unit = log.close()
}
