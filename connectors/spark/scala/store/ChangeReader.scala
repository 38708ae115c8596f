package org.apache.spark.sql.cecstore.store

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.cecstore.format.{Format, Rows}
import org.apache.spark.sql.cecstore.log.{FrameAt, StateLog, VersionErrors}
import org.apache.spark.sql.cecstore.state.{FamilyNumbers, ListChunks, StateLoader, StateView}
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
  private val (number, chunks) = {
    lazy val numbers = new FamilyNumbers(new StateView(StateLoader.load(log, last, _ => false, log.location), isBefore = false))
    (if (family == StateStore.DEFAULT_COL_FAMILY_NAME) Format.DefaultFamily else numbers.numberOf(family).getOrElse(-1),
      if (codec.isMultiple) numbers.chunksOf(family).number.getOrElse(-1) else -1)
  }

  override def getNext(): (RecordType.Value, UnsafeRow, UnsafeRow, Long) =
    if (changes.hasNext) changes.next() else { finished = true; null }

  private def changesOf(frame: FrameAt): Iterator[(RecordType.Value, UnsafeRow, UnsafeRow, Long)] = {
    val rows = VersionErrors.explained(log, end)(frame.segment.rows(frame, 1))
    val batch = frame.header.inputUpto - 1 // Spark numbers changes by the batch that made them
    Iterator.range(0, rows.count).filterNot(rows.isRenewed(_)).flatMap(row => rows.family(row) match {
      case `number` => changeOf(rows, row)
      case `chunks` => changeOfChunk(rows, row)
      case _ => Iterator.empty
    }).map { case (kind, key, value) => (kind, key, value, batch) }
  }

  private def changeOf(rows: Rows, row: Int): Iterator[(RecordType.Value, UnsafeRow, UnsafeRow)] = {
    val key = codec.decodeKey(rows, row, codec.newKeyRow).copy()
    if (rows.kinds(row) == Format.Result) Iterator((RecordType.DELETE_RECORD, key, null))
    else if (!codec.isMultiple) Iterator((RecordType.PUT_RECORD, key, codec.decodeValue(rows, row, codec.newValueRow).copy()))
    else if (ListChunks.chunkCount(rows, row) > 0) Iterator.empty // its chunks say it
    else told(key, rows.value(row), isWhole = true)
  }

  /** As Spark's own store tells of a list: its first value is put, the others are appended to it. */
  private def told(key: UnsafeRow, values: Array[Byte], isWhole: Boolean) =
    codec.decodeValues(values).zipWithIndex.map { case (value, i) =>
      (if (isWhole && i == 0) RecordType.PUT_RECORD else RecordType.MERGE_RECORD, key, value.copy())
    }

  /** What of it is new. Where the list was removed, or put anew, the record of its key says so. */
  private def changeOfChunk(rows: Rows, row: Int): Iterator[(RecordType.Value, UnsafeRow, UnsafeRow)] =
    if (rows.kinds(row) == Format.Result) Iterator.empty
    else {
      val (values, said) = (ListChunks.valuesOf(rows, row), ListChunks.saidBytes(rows, row))
      val key = codec.decodeKey(ListChunks.listKey(rows, row), codec.newKeyRow).copy()
      // A comma stands between what was said and what is new.
      val fresh = if (said == 0) values else values.drop(said + 1)
      told(key, fresh, isWhole = said == 0 && ListChunks.chunkNumber(rows, row) == 0)
    }

  override def close(): Unit = log.close()
}
