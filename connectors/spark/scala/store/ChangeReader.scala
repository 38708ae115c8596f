package org.apache.spark.sql.cecstore.store

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.cecstore.format.Format
import org.apache.spark.sql.cecstore.log.{FrameAt, StateLog, VersionErrors}
import org.apache.spark.sql.cecstore.state.{FamilyNumbers, StateLoader, StateView}
import org.apache.spark.sql.execution.streaming.state.{RecordType, StateStore}
import org.apache.spark.util.NextIterator

/** What the versions from `start` to `end` changed, in order; renewed footprints changed nothing. */
private[cecstore] final class ChangeReader(
    log: StateLog, start: Long, end: Long, uniqueId: Option[String], family: String, codec: FamilyCodec)
  extends NextIterator[(RecordType.Value, UnsafeRow, UnsafeRow, Long)] {
  private val last = VersionErrors.explained(log, end)(log.find(end, uniqueId))
  private val changes = VersionErrors.explained(log, end)(log.changes(start - 1, last)).iterator.flatMap(changesOf)
  // Not there any more: refuse rather than begin later.
  if (start > 1) VersionErrors.explained(log, start - 1)(log.find(start - 1, None))
  private val number = if (family == StateStore.DEFAULT_COL_FAMILY_NAME) Format.DefaultFamily
    else new FamilyNumbers(new StateView(StateLoader.load(log, last, _ => false, log.location), isBefore = false)).numberOf(family).getOrElse(-1)

  override def getNext(): (RecordType.Value, UnsafeRow, UnsafeRow, Long) =
    if (changes.hasNext) changes.next() else { finished = true; null }

  private def changesOf(frame: FrameAt): Iterator[(RecordType.Value, UnsafeRow, UnsafeRow, Long)] = {
    val rows = VersionErrors.explained(log, end)(frame.segment.rows(frame, 1))
    Iterator.range(0, rows.count).filter(row => rows.family(row) == number && !rows.isRenewed(row)).flatMap { row =>
      val key = codec.decodeKey(rows, row, codec.newKeyRow).copy()
      val batch = frame.header.inputUpto - 1 // Spark numbers changes by the batch that made them
      if (rows.kinds(row) == Format.Result) Iterator((RecordType.DELETE_RECORD, key, null, batch))
      else if (!codec.isMultiple) Iterator((RecordType.PUT_RECORD, key, codec.decodeValue(rows, row, codec.newValueRow).copy(), batch))
      // As Spark's own store tells of a list: its first value is put, the others are appended to it.
      else codec.decodeValues(rows, row).zipWithIndex.map { case (value, i) =>
        (if (i == 0) RecordType.PUT_RECORD else RecordType.MERGE_RECORD, key, value.copy(), batch)
      }
    }
  }

  override def close(): Unit = log.close()
}
