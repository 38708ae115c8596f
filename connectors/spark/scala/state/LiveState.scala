package org.apache.spark.sql.cecstore.state

import java.util.Arrays

import org.apache.spark.sql.cecstore.format.{Format, Rows}

/**
 * The state of one store in memory: the rows of its extent as they stand in the log, and an index from
 * each key to its newest row. A version is made in place: puts go to `delta`, and an undo log takes them
 * back. Renewing the oldest rows bounds the extent and frees memory at once.
 *
 * For one thread: that of the task which owns it.
 *
 * @param isOrdered whether a column family needs its keys in order
 */
private[cecstore] final class LiveState(isOrdered: Int => Boolean, keysHint: Int) {
  import Format._
  import KeyIndex.Absent
  import LiveState.Counters

  private val rows = new RowsTable
  private var indexes = new Array[KeyIndex](2)
  /** The oldest live row. */
  private var oldestId = 1
  private var oldestRow = 0
  /** What the version in progress has put. */
  private var delta: Rows = null
  /** N. */
  private var open = 0L
  private var nextOffset = 0L

  private val undoLog = new UndoLog
  private var beforeVersion: Counters = null
  private var isCommitted = false

  def openWindows: Long = open
  def rowsOf(reference: Long): Rows = rows.of(reference)
  def keyCount(family: Int): Int = if (family < indexes.length && indexes(family) != null) index(family).size else 0

  def index(family: Int): KeyIndex = {
    if (family >= indexes.length) indexes = Arrays.copyOf(indexes, family + 1)
    if (indexes(family) == null) {
      indexes(family) = if (isOrdered(family)) new OrderedIndex
        else new HashIndex(rows, if (family == DefaultFamily) keysHint else 0)
    }
    indexes(family)
  }

  /** Keep this family's keys in order from now on: its use is known only once it is declared. */
  def order(family: Int): OrderedIndex = index(family) match {
    case ordered: OrderedIndex => ordered
    case hashed =>
      val ordered = new OrderedIndex
      hashed.references.foreach { reference =>
        val (in, row) = (rowsOf(reference), reference.toInt)
        ordered.swap(in.keys, in.keyStart(row), in.keyLength(row), reference)
      }
      indexes(family) = ordered
      ordered
  }

  /** Begin the next version; what the last one did can no longer be taken back. */
  def begin(): Unit = {
    advance()
    rows.dropBelow(oldestId)
    val last = delta
    val id = if (last == null) rows.firstId else if (isCommitted) last.id + 1 else last.id
    delta = if (last == null) new Rows(id, 16, 256, 256)
      else new Rows(id, last.count, last.keyStart(last.count), last.valueStart(last.count))
    rows.put(delta)
    delta.firstOffset = nextOffset
    undoLog.clear()
    beforeVersion = Counters(oldestId, oldestRow, open, nextOffset)
    isCommitted = false
  }

  /** The reference of the key's value, or [[KeyIndex.Absent]]. */
  def find(family: Int, key: Array[Byte], from: Int, length: Int): Long = {
    val reference = index(family).find(key, from, length)
    if (reference != Absent && isRemoved(reference)) Absent else reference
  }

  private def inDelta(reference: Long): Boolean = Rows.idOf(reference) == delta.id
  private def isRemoved(reference: Long): Boolean =
    inDelta(reference) && !isCommitted && delta.kinds(reference.toInt) == Result

  def put(family: Int, key: Array[Byte], from: Int, length: Int, value: Array[Byte], valueFrom: Int,
      valueLength: Int): Unit = {
    val row = delta.append(Check, family, key, from, length, value, valueFrom, valueLength)
    val old = index(family).swap(key, from, length, delta.reference(row))
    if (old == Absent) { delta.kinds(row) = Open; open += 1; undoLog.note(row, Absent) }
    else if (inDelta(old)) {
      if (delta.kinds(old.toInt) == Result) open += 1
      else delta.kinds(row) = delta.kinds(old.toInt)
      delta.markDead(old.toInt)
    } else { rowsOf(old).markDead(old.toInt); undoLog.note(row, old) }
  }

  def remove(family: Int, key: Array[Byte], from: Int, length: Int): Unit = {
    val old = find(family, key, from, length)
    if (old == Absent) return
    open -= 1
    if (inDelta(old) && delta.kinds(old.toInt) == Open) {
      delta.markDead(old.toInt)
      index(family).delete(key, from, length)
    } else {
      val row = delta.append(Result, family, key, from, length, key, 0, 0)
      index(family).swap(key, from, length, delta.reference(row))
      if (inDelta(old)) delta.markDead(old.toInt)
      else { rowsOf(old).markDead(old.toInt); undoLog.note(row, old) }
    }
  }

  /** References of live rows of a family as `scan` gives them; rows may be put and removed meanwhile. */
  def live(family: Int, scan: KeyIndex => Iterator[Long]): Iterator[Long] =
    scan(index(family)).map { reference =>
      val (in, row) = (rowsOf(reference), reference.toInt)
      if (in.isLive(row) && !isRemoved(reference)) reference
      else find(family, in.keys, in.keyStart(row), in.keyLength(row))
    }.filter(_ != Absent)

  /** Write the oldest footprints again while the extent costs more than the target; returns how many. */
  def renew(costMax: Long => Long, deadlineNs: Long): Int = {
    advance()
    val before = delta.count
    var frames = rows.frames(oldestId, delta.id) + 1
    val most = costMax(open)
    while (oldestId < delta.id && cost(frames) > most &&
        ((delta.count & 255) != 0 || System.nanoTime() < deadlineNs)) {
      val (in, row) = (rows(oldestId), oldestRow)
      val copy = delta.appendFrom(in, row, Check)
      undoLog.note(copy, index(in.family(row)).swap(in.keys, in.keyStart(row), in.keyLength(row), delta.reference(copy)))
      in.markDead(row)
      val was = oldestId
      advance()
      frames -= rows.frames(was, oldestId)
    }
    delta.count - before
  }

  private def cost(frames: Long): Long =
    nextOffset + delta.liveCount - rows(oldestId).firstOffset - oldestRow + ExtentTarget.FrameCostRecords * frames

  private def advance(): Unit = {
    if (delta == null) return
    while (oldestId < delta.id && {
      oldestRow = rows(oldestId).nextLive(oldestRow)
      oldestRow == rows(oldestId).count
    }) { oldestId += 1; oldestRow = 0 }
  }

  /** What the version writes: each key's last record, in the order of the calls; renewed ones last. */
  def compact(): Rows = {
    if (delta.liveCount < delta.count) {
      val whole = delta
      val packed = new Rows(whole.id, whole.liveCount, whole.keyEnds(whole.count), whole.valueEnds(whole.count))
      packed.firstOffset = whole.firstOffset
      val moved = new Array[Int](whole.count)
      Arrays.fill(moved, -1)
      var row = whole.nextLive(0)
      while (row < whole.count) {
        moved(row) = packed.appendFrom(whole, row, whole.kinds(row))
        index(whole.family(row)).swap(
          whole.keys, whole.keyStart(row), whole.keyLength(row), packed.reference(moved(row)))
        row = whole.nextLive(row + 1)
      }
      delta = packed
      rows.put(packed)
      undoLog.renumber(row => if (moved(row) >= 0) moved(row) else lastRow(whole, row))
    }
    delta
  }

  /** Where the key of a row that is dead has its last row in the version; -1 where it has none. */
  private def lastRow(whole: Rows, row: Int): Int = {
    val reference = index(whole.family(row)).find(whole.keys, whole.keyStart(row), whole.keyLength(row))
    if (reference == Absent || !inDelta(reference)) -1 else reference.toInt
  }

  /** q of the version as it stands after [[compact]]. */
  def extentRecords: Long = {
    val end = nextOffset + delta.count
    if (open == 0) 0
    else {
      advance()
      val oldest = if (oldestId < delta.id) rows(oldestId).firstOffset + oldestRow
        else delta.firstOffset + firstFootprint
      end - oldest
    }
  }

  private def firstFootprint: Int = {
    var row = 0
    while (delta.kinds(row) == Result) row += 1
    row
  }

  /** What loading this state costs, in records; frames count too. */
  def loadCostRecords: Long = cost(rows.frames(oldestId, delta.id))

  /** Stored bytes of the frames that a rebuild would read. */
  def extentBytes: Long = (oldestId to delta.id).map(id => rows(id).storedBytes).sum

  /** The version is in the log. It can be taken back until the next one begins. */
  def markCommitted(frames: Int, storedBytes: Long): Unit = {
    delta.frames = frames
    delta.storedBytes = storedBytes
    nextOffset += delta.count
    var row = 0
    while (row < delta.count) {
      if (delta.kinds(row) == Result) {
        delta.markDead(row)
        index(delta.family(row)).delete(delta.keys, delta.keyStart(row), delta.keyLength(row))
      }
      row += 1
    }
    delta.trim()
    isCommitted = true
  }

  /** Back to where [[begin]] was called, before or after [[markCommitted]]. */
  def rollback(): Unit = {
    undoLog.rollback { (row, old) =>
      val keys = index(delta.family(row))
      val (start, length) = (delta.keyStart(row), delta.keyLength(row))
      if (old == Absent) keys.delete(delta.keys, start, length)
      else { keys.swap(delta.keys, start, length, old); rowsOf(old).markLive(old.toInt) }
    }
    oldestId = beforeVersion.oldestId
    oldestRow = beforeVersion.oldestRow
    open = beforeVersion.open
    nextOffset = beforeVersion.nextOffset
    isCommitted = false
    begin()
  }

  def memoryBytes: Long = rows.memoryBytes + indexes.filter(_ != null).map(_.memoryBytes).sum + undoLog.memoryBytes

  // -- loading --------------------------------------------------------------------------------

  private var closed = new Array[Long](16)
  private var closedCount = 0

  /** Take a frame's rows from the last down to `fromRow`; frames come newest first, ids descending. */
  def load(frame: Rows, fromRow: Int): Unit = {
    rows.put(frame)
    val only = if (frame.families == null) index(DefaultFamily) else null
    var row = frame.count - 1
    while (row >= fromRow) {
      val isNew = (if (only != null) only else index(frame.family(row))).putIfAbsent(
        frame.keys, frame.keyStart(row), frame.keyLength(row), frame.reference(row))
      if (isNew) {
        if (frame.kinds(row) == Result) noteClosed(frame.reference(row)) else { frame.markLive(row); open += 1 }
      }
      row -= 1
    }
    frame.kinds = null
    frame.renewed = null
  }

  private def noteClosed(reference: Long): Unit = {
    if (closedCount == closed.length) closed = Arrays.copyOf(closed, closedCount * 2)
    closed(closedCount) = reference
    closedCount += 1
  }

  /** All frames are in: forget the closed keys, and stand at the end of rows `lastId`. */
  def finishLoad(lastId: Int, endOffset: Long): Unit = {
    (0 until closedCount).foreach { i =>
      val (in, row) = (rowsOf(closed(i)), closed(i).toInt)
      index(in.family(row)).delete(in.keys, in.keyStart(row), in.keyLength(row))
    }
    closed = null
    nextOffset = endOffset
    if (lastId > 0) { delta = rows(lastId); isCommitted = true }
    begin()
  }
}

private[cecstore] object LiveState {
  /** What a version changes besides rows and indexes. */
  private final case class Counters(oldestId: Int, oldestRow: Int, open: Long, nextOffset: Long)
}
