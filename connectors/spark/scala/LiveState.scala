package org.apache.spark.sql.cecstore

import java.util.Arrays

/**
 * The state of one store in memory: the rows of its extent as they stand in the log, and an index from
 * each key to its newest row. A version is made in place: puts go to `delta`, and a list of what
 * each key had before takes them back. Renewing the oldest rows bounds the extent and frees memory at once.
 *
 * Not for use by two threads at once.
 *
 * @param isOrdered whether a column family needs its keys in order
 */
private[cecstore] final class LiveState(isOrdered: Int => Boolean, keysHint: Int) extends RowsById {
  import Format._
  import KeyIndex.Absent

  private var table = new Array[Rows](16)
  private var tableFirst = 1 // the id of table(0); 0 is not an id, so that no reference is Absent
  private var indexes = new Array[KeyIndex](2)
  private var oldestId = 1
  private var oldestRow = 0
  /** What the version in progress has put. */
  private var delta: Rows = null
  /** N. */
  private var open = 0L
  private var nextOffset_ = 0L

  // Per key touched since `begin`: its first row in the version, and the reference it had before.
  private var undoRows = new Array[Int](16)
  private var undoReferences = new Array[Long](16)
  private var undoCount = 0
  private var undoState: (Int, Int, Long, Long) = null
  private var sealed_ = false

  def openWindows: Long = open
  def nextOffset: Long = nextOffset_
  override def rows(id: Int): Rows = table(id - tableFirst)
  def rowsOf(reference: Long): Rows = rows((reference >>> 32).toInt)
  def keyCount(family: Int): Int = if (family < indexes.length && indexes(family) != null) index(family).size else 0
  def families: Seq[Int] = indexes.indices.filter(indexes(_) != null)

  def index(family: Int): KeyIndex = {
    if (family >= indexes.length) indexes = Arrays.copyOf(indexes, family + 1)
    if (indexes(family) == null) {
      indexes(family) = if (isOrdered(family)) new OrderedIndex
        else new HashIndex(this, if (family == DefaultFamily) keysHint else 0)
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

  // -- a version ------------------------------------------------------------------------------

  /** Begin the next version; what the last one did can no longer be taken back. */
  def begin(): Unit = {
    advance()
    var id = tableFirst
    while (id < oldestId) { table(id - tableFirst) = null; id += 1 }
    if (oldestId - tableFirst > table.length / 2) {
      table = Arrays.copyOfRange(table, oldestId - tableFirst, oldestId - tableFirst + table.length)
      tableFirst = oldestId
    }
    val last = delta
    val id_ = if (last == null) tableFirst else if (sealed_) last.id + 1 else last.id
    delta = if (last == null) new Rows(id_, 16, 256, 256)
      else new Rows(id_, last.count, last.keyStart(last.count), last.valueStart(last.count))
    place(delta)
    delta.firstOffset = nextOffset_
    undoCount = 0
    undoState = (oldestId, oldestRow, open, nextOffset_)
    sealed_ = false
  }

  private def place(rows: Rows): Unit = {
    if (rows.id - tableFirst >= table.length) table = Arrays.copyOf(table, table.length * 2)
    table(rows.id - tableFirst) = rows
  }

  /** The reference of the key's value, or [[KeyIndex.Absent]]. */
  def find(family: Int, key: Array[Byte], from: Int, length: Int): Long = {
    val reference = index(family).find(key, from, length)
    if (reference != Absent && isRemoved(reference)) Absent else reference
  }

  private def inDelta(reference: Long): Boolean = (reference >>> 32).toInt == delta.id
  private def isRemoved(reference: Long): Boolean =
    inDelta(reference) && !sealed_ && delta.kinds(reference.toInt) == Result

  def put(family: Int, key: Array[Byte], from: Int, length: Int, value: Array[Byte], valueFrom: Int,
      valueLength: Int): Unit = {
    val row = delta.append(Check, family, key, from, length, value, valueFrom, valueLength)
    val old = index(family).swap(key, from, length, delta.reference(row))
    if (old == Absent) { delta.kinds(row) = Open; open += 1; noteUndo(row, Absent) }
    else if (inDelta(old)) {
      if (delta.kinds(old.toInt) == Result) open += 1
      else delta.kinds(row) = delta.kinds(old.toInt)
      delta.kill(old.toInt)
    } else { rowsOf(old).kill(old.toInt); noteUndo(row, old) }
  }

  def remove(family: Int, key: Array[Byte], from: Int, length: Int): Unit = {
    val old = find(family, key, from, length)
    if (old == Absent) return
    open -= 1
    if (inDelta(old) && delta.kinds(old.toInt) == Open) {
      delta.kill(old.toInt)
      index(family).delete(key, from, length)
    } else {
      val row = delta.append(Result, family, key, from, length, key, 0, 0)
      index(family).swap(key, from, length, delta.reference(row))
      if (inDelta(old)) delta.kill(old.toInt)
      else { rowsOf(old).kill(old.toInt); noteUndo(row, old) }
    }
  }

  private def noteUndo(row: Int, reference: Long): Unit = {
    if (undoCount == undoRows.length) {
      undoRows = Arrays.copyOf(undoRows, undoCount * 2)
      undoReferences = Arrays.copyOf(undoReferences, undoCount * 2)
    }
    undoRows(undoCount) = row
    undoReferences(undoCount) = reference
    undoCount += 1
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
    var frames = (oldestId until delta.id).map(id => rows(id).frames).sum + 1L
    val most = costMax(open)
    while (oldestId < delta.id && cost(frames) > most &&
        ((delta.count & 255) != 0 || System.nanoTime() < deadlineNs)) {
      val (in, row) = (rows(oldestId), oldestRow)
      val copy = delta.appendFrom(in, row, Check)
      noteUndo(copy, index(in.family(row)).swap(in.keys, in.keyStart(row), in.keyLength(row), delta.reference(copy)))
      in.kill(row)
      val was = oldestId
      advance()
      var passed = was
      while (passed < oldestId) { frames -= rows(passed).frames; passed += 1 }
    }
    delta.count - before
  }

  private def cost(frames: Long): Long =
    nextOffset_ + delta.liveCount - rows(oldestId).firstOffset - oldestRow + LiveState.FrameCostRecords * frames

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
      place(packed)
      renumberUndo(whole, moved)
    }
    delta
  }

  /** The first row of a key may have died since: the key's last row stands for it. */
  private def renumberUndo(whole: Rows, moved: Array[Int]): Unit = {
    var kept = 0
    var i = 0
    while (i < undoCount) {
      val row = undoRows(i)
      val now = if (moved(row) >= 0) moved(row) else {
        val reference = index(whole.family(row)).find(whole.keys, whole.keyStart(row), whole.keyLength(row))
        if (reference == Absent || !inDelta(reference)) -1 else reference.toInt
      }
      if (now >= 0) { undoRows(kept) = now; undoReferences(kept) = undoReferences(i); kept += 1 }
      i += 1
    }
    undoCount = kept
  }

  /** q of the version as it stands after [[compact]]. */
  def extentRecords: Long = {
    val end = nextOffset_ + delta.count
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
  def loadCostRecords: Long = cost((oldestId until delta.id).map(id => rows(id).frames).sum)

  /** Stored bytes of the frames that a rebuild would read. */
  def extentBytes: Long = (oldestId to delta.id).map(id => rows(id).storedBytes).sum

  /** The version is in the log. It can be taken back until the next one begins. */
  def seal(frames: Int, storedBytes: Long): Unit = {
    delta.frames = frames
    delta.storedBytes = storedBytes
    nextOffset_ += delta.count
    var row = 0
    while (row < delta.count) {
      if (delta.kinds(row) == Result) {
        delta.kill(row)
        index(delta.family(row)).delete(delta.keys, delta.keyStart(row), delta.keyLength(row))
      }
      row += 1
    }
    delta.trim()
    sealed_ = true
  }

  /** Back to where [[begin]] was called, before or after [[seal]]. */
  def undo(): Unit = {
    var i = undoCount - 1
    while (i >= 0) {
      val (row, old) = (undoRows(i), undoReferences(i))
      val keys = index(delta.family(row))
      val (start, length) = (delta.keyStart(row), delta.keyLength(row))
      if (old == Absent) keys.delete(delta.keys, start, length)
      else { keys.swap(delta.keys, start, length, old); rowsOf(old).revive(old.toInt) }
      i -= 1
    }
    oldestId = undoState._1
    oldestRow = undoState._2
    open = undoState._3
    nextOffset_ = undoState._4
    sealed_ = false
    begin()
  }

  def memoryBytes: Long = table.filter(_ != null).map(_.memoryBytes).sum + table.length * 8L +
    indexes.filter(_ != null).map(_.memoryBytes).sum + undoRows.length * 12L

  // -- loading --------------------------------------------------------------------------------

  private var closed = new Array[Long](16)
  private var closedCount = 0

  /** Take a frame's rows from the last down to `fromRow`; frames come newest first, ids descending. */
  def load(rows: Rows, fromRow: Int): Unit = {
    while (rows.id - tableFirst >= table.length) table = Arrays.copyOf(table, table.length * 2)
    table(rows.id - tableFirst) = rows
    val only = if (rows.families == null) index(DefaultFamily) else null
    var row = rows.count - 1
    while (row >= fromRow) {
      val isNew = (if (only != null) only else index(rows.family(row))).putIfAbsent(
        rows.keys, rows.keyStart(row), rows.keyLength(row), rows.reference(row))
      if (isNew) {
        if (rows.kinds(row) == Result) noteClosed(rows.reference(row)) else { rows.revive(row); open += 1 }
      }
      row -= 1
    }
    rows.kinds = null
    rows.renewed = null
  }

  private def noteClosed(reference: Long): Unit = {
    if (closedCount == closed.length) closed = Arrays.copyOf(closed, closedCount * 2)
    closed(closedCount) = reference
    closedCount += 1
  }

  /** All frames are in: forget the closed keys, and stand at the end of rows `lastId`. */
  def loaded(lastId: Int, endOffset: Long): Unit = {
    (0 until closedCount).foreach { i =>
      val (in, row) = (rowsOf(closed(i)), closed(i).toInt)
      index(in.family(row)).delete(in.keys, in.keyStart(row), in.keyLength(row))
    }
    closed = null
    nextOffset_ = endOffset
    if (lastId > 0) { delta = rows(lastId); sealed_ = true }
    begin()
  }
}

private[cecstore] object LiveState {
  /** Reading one more frame takes as long as about so many records: small commits count too. */
  val FrameCostRecords = 128L
}
