package org.apache.spark.sql.cecstore

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{RecordType, StateStore}
import org.apache.spark.util.NextIterator

/** What the versions from `start` to `end` changed, in order; renewed footprints changed nothing. */
private[cecstore] final class ChangeReader(
    log: StateLog, start: Long, end: Long, uniqueId: Option[String], family: String, codec: FamilyCodec)
  extends NextIterator[(RecordType.Value, UnsafeRow, UnsafeRow, Long)] {
  import Format._

  private val last = log.wanting(end)(log.find(end, uniqueId))
  private val frames = log.wanting(end)(log.changes(start - 1, last)).iterator
  if (start > 1) log.wanting(start - 1)(log.find(start - 1, scala.None)) // not there any more: refuse rather than begin later
  private val number = if (family == StateStore.DEFAULT_COL_FAMILY_NAME) DefaultFamily else familyNumber
  private var frame: FrameAt = null
  private var rows: Rows = null
  private var row = 0

  private def familyNumber: Int = {
    val key = family.getBytes(UTF_8)
    val state = log.load(last, _ => false, (_, _) => ())
    val reference = state.find(NamesFamily, key, 0, key.length)
    if (reference == KeyIndex.Absent) -1 else {
      val in = state.rowsOf(reference)
      val at = in.valueStart(reference.toInt)
      in.values(at) & 0xff | (in.values(at + 1) & 0xff) << 8
    }
  }

  override def getNext(): (RecordType.Value, UnsafeRow, UnsafeRow, Long) = {
    while (true) {
      if (rows == null || row == rows.count) {
        if (!frames.hasNext) { finished = true; return null }
        frame = frames.next()
        rows = log.wanting(end)(frame.segment.rows(frame, 1))
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
    if (rows.kinds(row) == Result) (RecordType.DELETE_RECORD, key, null, batch)
    else (RecordType.PUT_RECORD, key, codec.decodeValue(rows, row, codec.newValueRow).copy(), batch)
  }

  override def close(): Unit = log.close()
}
