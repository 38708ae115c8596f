package org.apache.spark.sql.cecstore.state

import scala.collection.mutable.ArrayBuffer
import org.apache.spark.sql.cecstore.format.{Format, Rows}
import org.apache.spark.sql.cecstore.keys.{KeyIndex, OrderedIndex, RowsTable}
import org.apache.spark.sql.cecstore.log.LoggedInputs

/**
 * The state of one store in memory: the rows of its extent as they stand in the log, and an index from
 * each key to its newest row. A version is made in place: puts go to `delta`, and an undo log takes them
 * back. A large version has several such parts. Renewing the oldest rows bounds the extent and frees memory at once. Rows of complete
 * parts, and indexes, are in local files where the heap has no room for them: see [[RowMemory]].
 *
 * For one thread: that of the task which owns it.
 *
 * @param isOrdered whether a column family needs its keys in order
 */
private[cecstore] final class LiveState(isOrdered: Int => Boolean, keysHint: Int, memory: RowMemory) {
  import Format._
  import KeyIndex.Absent
  import LiveState.Counters

  private val rows = new RowsTable
  private val index = new FamilyIndexes(rows, isOrdered, keysHint, memory)
  private val heap = new HeapParts(rows, memory)
  /** The oldest live row. */
  private var oldestId = 1
  private var oldestRow = 0
  /** What the version in progress has put, and what each of its keys had before, part by part. */
  private val parts = ArrayBuffer.empty[Rows]
  private val undoLogs = ArrayBuffer.empty[UndoLog]
  /** The last part, to which rows are appended. */
  private var delta: Rows = null
  /** N. */
  private var open = 0L
  private var nextOffset = 0L
  /** Which rows can be due; null until a scan asks. */
  private var zones: Zones = null
  /** Whose times the rows have that came with a directory. */
  private var timesOf: String = null
  /** Of rows that are still in the log; null where there are none. */
  private var inputs: LoggedInputs = null
  /** Brings them all; the first version after the load does not wait for that. */
  private var bringAll: () => Unit = null

  private var beforeVersion: Counters = null
  private var isCommitted = false

  def openWindows: Long = open
  def rowsOf(reference: Long): Rows = rows.of(reference)
  def keyCount(family: Int): Int = index.size(family)

  /** Families whose keys are kept in order. */
  def inOrder: Set[Int] = index.inOrder

  /** Keep this family's keys in order from now on: its use is known only once it is declared. */
  def order(family: Int): OrderedIndex = index.order(family)

  /** Begin the next version; what the last one did can no longer be taken back, unless this fails for want of local room. */
  def begin(): Unit = { makeRoom(); next() }

  private def makeRoom(): Unit = { heap.makeRoom(); index.makeRoom() }

  private def next(): Unit = {
    val last = delta
    val id = settle()
    val isLike = last != null && last.isSmallerThan(LiveState.partBytes)
    addPart(if (isLike) new Rows(id, last.count, last.keyBytesUsed, last.valueBytesUsed) else new Rows(id, 16, 256, 256))
    delta.firstOffset = nextOffset
  }

  /** What the last version did can no longer be taken back; returns the id of the next one's first part. */
  private def settle(): Int = {
    advance()
    rows.dropBelow(oldestId)
    heap.dropBelow(oldestId)
    val id = nextId
    rows.dropFrom(id)
    if (isCommitted) parts.foreach(heap.addNewest)
    parts.clear()
    beforeVersion = Counters(oldestId, oldestRow, open, nextOffset)
    isCommitted = false
    id
  }

  private def addPart(part: Rows): Unit = {
    if (parts.nonEmpty) {
      parts(parts.size - 1) = heap.placed(parts.last)
      index.makeRoom()
    }
    delta = part
    parts += part
    if (undoLogs.size < parts.size) undoLogs += new UndoLog
    undoLogs.remove(parts.size, undoLogs.size - parts.size)
    rows.put(part)
  }

  /** Have the next row, with so many bytes, find room in `delta`. */
  private def makeRoom(keyBytes: Int, valueBytes: Int): Unit =
    if (delta.count > 0 && !delta.hasRoom(keyBytes, valueBytes, LiveState.partBytes)) addPart(new Rows(delta.id + 1, 16, 256, 256))

  private def undoLogOf(reference: Long): UndoLog = undoLogs((reference >>> 32).toInt - parts.head.id)
  private def kindOf(reference: Long): Byte = rowsOf(reference).kinds(reference.toInt)

  /** The reference of the key's value, or [[KeyIndex.Absent]]. */
  def find(family: Int, key: Array[Byte], from: Int, length: Int): Long = {
    val reference = index(family).find(key, from, length)
    if (reference != Absent && isRemoved(reference)) Absent else reference
  }

  def inDelta(reference: Long): Boolean = (reference >>> 32) >= parts.head.id
  private def isRemoved(reference: Long): Boolean =
    inDelta(reference) && !isCommitted && kindOf(reference) == Result

  def put(family: Int, key: Array[Byte], from: Int, length: Int, value: Array[Byte], valueFrom: Int,
      valueLength: Int): Unit = {
    makeRoom(length, valueLength)
    val row = delta.append(Check, family, key, from, length, value, valueFrom, valueLength)
    val old = index(family).swap(key, from, length, delta.reference(row))
    if (old == Absent) { delta.kinds(row) = Open; open += 1 }
    else if (inDelta(old) && kindOf(old) != Result) delta.kinds(row) = kindOf(old)
    else if (inDelta(old)) open += 1
    replace(old, row)
  }

  def remove(family: Int, key: Array[Byte], from: Int, length: Int): Unit = {
    val old = find(family, key, from, length)
    if (old == Absent) return
    open -= 1
    if (inDelta(old) && kindOf(old) == Open) {
      rowsOf(old).markDead(old.toInt)
      index(family).deleteHeld(key, from, length, old)
    } else {
      makeRoom(length, 0)
      val row = delta.append(Result, family, key, from, length, key, 0, 0)
      index(family).move(key, from, length, old, delta.reference(row))
      replace(old, row)
    }
  }

  /** The row of the version in progress takes the place of what its key had. */
  private def replace(old: Long, row: Int): Unit = {
    undoLogs.last.note(row, if (old != Absent && inDelta(old)) undoLogOf(old).before(old.toInt) else old)
    if (old != Absent) rowsOf(old).markDead(old.toInt)
  }

  /** References of live rows of a family as `scan` gives them; rows may be put and removed meanwhile: see [[OrderedIndex]]. */
  def live(family: Int, scan: KeyIndex => Iterator[Long]): Iterator[Long] =
    if (index.isInOrder(family)) scan(index(family)).filter(!isRemoved(_))
    else scan(index(family)).map { reference =>
      val (in, row) = (rowsOf(reference), reference.toInt)
      if (in.isLive(row) && !isRemoved(reference)) reference
      else find(family, in.keyArray(row), in.keyFrom(row), in.keyLength(row))
    }.filter(_ != Absent)

  /**
   * References of live rows of the default family that are due at the bound: see [[Zones.notAfter]]. The first scan of a state, and
   * the first by another time, reads the time of each row.
   */
  def notAfter(time: RowTime, boundUs: Long, examined: () => Unit): Iterator[Long] = {
    if (zones == null || zones.time != time) {
      zones = new Zones(rows, DefaultFamily, time)
      if (timesOf != time.name) (rows.firstId to delta.id).foreach(rows(_).forgetTimes())
      timesOf = null
    }
    zones.notAfter(boundUs, oldestId to delta.id, examined)
  }

  /** What the key had when the version in progress began. */
  def findBefore(family: Int, key: Array[Byte], from: Int, length: Int): Long =
    before(index(family).find(key, from, length))

  /** As [[live]], of the rows that were live when the version in progress began. */
  def liveBefore(family: Int, scan: KeyIndex => Iterator[Long]): Iterator[Long] =
    scan(index(family)).map(before).filter(_ != Absent)

  private def before(reference: Long): Long =
    if (reference != Absent && !isCommitted && inDelta(reference)) undoLogOf(reference).before(reference.toInt) else reference

  /** Write the oldest footprints again while the extent costs or holds more than the target; returns how many. */
  def renew(target: ExtentTarget, deadlineNs: Long): Int = {
    advance()
    val before = count
    var frames = framesBefore + 1
    val (costMax, bytesMax) = (target.costMax(open), target.bytesMax(held(_.liveBytes)))
    var bytes = held(_.usedBytes)
    while (oldestId < parts.head.id && (cost(frames) > costMax || bytes > bytesMax) &&
        ((delta.count & 255) != 0 || System.nanoTime() < deadlineNs)) {
      val (in, row) = (rows(oldestId), oldestRow)
      makeRoom(in.keyLength(row), in.valueLength(row))
      val copy = delta.appendFrom(in, row, Check)
      index(in.family(row)).move(delta.keys, delta.keyStart(copy), delta.keyLength(copy), in.reference(row), delta.reference(copy))
      replace(in.reference(row), copy)
      bytes += in.keyLength(row) + in.valueLength(row)
      val was = oldestId
      advance()
      (was until oldestId).foreach { id => frames -= rows(id).frames; bytes -= rows(id).usedBytes }
    }
    count - before
  }

  /** Rows of the version in progress, live or not. */
  private def count: Int = parts.iterator.map(_.count).sum

  /** Bytes of keys and values in memory, as [[Rows]] counts them. */
  private def held(bytes: Rows => Long): Long = (oldestId to delta.id).iterator.map(id => bytes(rows(id))).sum

  /** Frames of the extent that older versions wrote. */
  private def framesBefore: Long = (oldestId until parts.head.id).iterator.map(rows(_).frames.toLong).sum

  private def cost(frames: Long): Long = nextOffset + parts.iterator.map(_.liveCount.toLong).sum -
    rows(oldestId).firstOffset - oldestRow + ExtentTarget.FrameCostRecords * frames

  private def advance(): Unit = if (delta != null) {
    val end = if (isCommitted) delta.id else parts.head.id
    while (oldestId < end && {
      oldestRow = rows(oldestId).nextLive(oldestRow)
      oldestRow == rows(oldestId).count
    }) { oldestId += 1; oldestRow = 0 }
  }

  /** What the version writes: each key's last record, in the order of the calls; renewed ones last. */
  def compact(): Seq[Rows] = {
    index.endScans()
    var offset = parts.head.firstOffset
    parts.indices.foreach { i =>
      if (parts(i).liveCount < parts(i).count) {
        parts(i) = index.packed(parts(i), undoLogs(i))
        if (i < parts.size - 1) parts(i) = heap.placed(parts(i))
      }
      parts(i).firstOffset = offset
      offset += parts(i).count
    }
    delta = parts.last
    parts.toSeq
  }

  /** q of the version as it stands after [[compact]]. */
  def extentRecords: Long = if (open == 0) 0 else {
    advance()
    val oldest = if (oldestId < parts.head.id) rows(oldestId).firstOffset + oldestRow
      else parts.iterator.map(part => part -> (0 until part.count).indexWhere(part.kinds(_) != Result))
        .collectFirst { case (part, row) if row >= 0 => part.firstOffset + row }.get
    nextOffset + count - oldest
  }

  /** q of the newest version, once it is in the log; what its last frame says as `extent_records`. */
  def extentInLog: Long = if (open == 0) 0 else {
    advance()
    nextOffset - rows(oldestId).firstOffset - rows(oldestId).nextLive(oldestRow)
  }

  /** What loading this state costs, in records; frames count too. */
  def loadCostRecords: Long = cost(framesBefore)

  /** Stored bytes of the frames that a rebuild would read. */
  def extentBytes: Long = held(_.storedBytes)

  /**
   * The version is in the log. It can be taken back until the next one begins.
   *
   * @param frames how many hold each part
   */
  def markCommitted(frames: Seq[Int], storedBytes: Long): Unit = {
    parts.lazyZip(frames).foreach { (part, n) =>
      part.frames = n
      part.storedBytes = storedBytes / parts.size
      nextOffset += part.count
      (0 until part.count).foreach(row => if (part.kinds(row) == Result) {
        part.markDead(row)
        index(part.family(row)).deleteHeld(part.keyArray(row), part.keyFrom(row), part.keyLength(row), part.reference(row))
      })
      part.trim()
    }
    isCommitted = true
    if (zones != null) zones.renew()
    bringRows()
  }

  /** Back to where [[begin]] was called, before or after [[markCommitted]]. */
  def rollback(): Unit = {
    index.endScans()
    // Each key has one row: a live one, or after the commit perhaps the RESULT that closed it.
    parts.lazyZip(undoLogs).foreach { (part, undoLog) =>
      (0 until part.count).foreach(row => if (isCommitted || part.isLive(row)) {
        val (keys, old) = (index(part.family(row)), undoLog.before(row))
        val (key, from, length) = (part.keyArray(row), part.keyFrom(row), part.keyLength(row))
        if (old == Absent) keys.delete(key, from, length)
        else { keys.swap(key, from, length, old); revive(old) }
      })
    }
    if (zones != null) zones.forgetScans()
    oldestId = beforeVersion.oldestId
    oldestRow = beforeVersion.oldestRow
    open = beforeVersion.open
    nextOffset = beforeVersion.nextOffset
    isCommitted = false
    next()
  }

  private def revive(reference: Long): Unit = {
    val (in, row) = (rowsOf(reference), reference.toInt)
    in.markLive(row)
    if (zones != null) zones.lower(in, row)
  }

  /** Bytes of keys, values and indexes in local files. */
  def localBytes: Long = rows.localBytes + index.localBytes

  def memoryBytes: Long = rows.memoryBytes + index.memoryBytes +
    undoLogs.iterator.map(_.memoryBytes).sum

  private var loading = new BackwardLoad(rows, index, memory)

  /** Take a frame's rows from the last down to `fromRow`; frames come newest first, ids descending. */
  def load(frame: Rows, fromRow: Int): Unit = {
    loading.take(frame, fromRow)
    heap.addOldest(frame)
    makeRoom()
  }

  /** All frames are in: forget the closed keys, and stand at the end of the newest. */
  def finishLoad(endOffset: Long): Unit = {
    open = loading.finish()
    loading = null
    nextOffset = endOffset
    if (!rows.isEmpty) { delta = rows(RowsTable.NewestLoadedId); oldestId = rows.firstId; isCommitted = true }
    begin()
  }

  /** The first live row of this state that another one has otherwise, in words; None if both are the same. */
  private[state] def difference(other: LiveState): Option[String] =
    if (open != other.open || nextOffset != other.nextOffset)
      Some(s"${other.open} keys up to offset ${other.nextOffset}, not $open up to $nextOffset")
    else (oldestId to delta.id).iterator.map(rows(_)).flatMap { in =>
      Iterator.iterate(in.nextLive(0))(row => in.nextLive(row + 1)).takeWhile(_ < in.count).filter(!isSame(in, _, other)).map(row =>
        s"the key ${in.key(row).map(byte => f"$byte%02x").mkString} of family ${in.family(row)} has another value, or is missing")
    }.nextOption()

  private def isSame(in: Rows, row: Int, other: LiveState): Boolean = {
    val found = other.find(in.family(row), in.keyArray(row), in.keyFrom(row), in.keyLength(row))
    found != Absent && java.util.Arrays.equals(other.rowsOf(found).value(found.toInt), in.value(row))
  }

  /** Nobody uses this state any more: what it has in local files and counts in the heap is free at once. */
  private[cecstore] def letGo(): Unit = { rows.letGo(); index.letGo(); heap.letGo() }

  /** Whether rows could not be read from the log: what asked for them may have been half done. */
  def isBroken: Boolean = inputs != null && inputs.hasFailed

  /** Bring the rows that are still in the log alone, in the background. */
  private[cecstore] def bringRows(): Unit = if (bringAll != null) { bringAll(); bringAll = null }

  /** Which rows are live, once a version is in the log and before the next one begins. */
  private[cecstore] def liveRows(): LiveRows = {
    advance()
    val all = (oldestId to delta.id).map(rows(_))
    if (zones != null) all.foreach(zones.cover)
    val times = Option(if (zones != null) zones.time.name else timesOf)
    LiveRows(open, nextOffset, times, all.map(part => LiveStretch(part.firstOffset, part.count, LivePart.of(part, times.nonEmpty))))
  }

  /**
   * Begin with what a directory says, and nothing else. Raises CecLogException where there is no local room.
   *
   * @param frames the rows of each frame of the extent, oldest first
   * @param indexes makes the index of each family, over these rows
   * @param bring called once a version was made
   */
  private[state] def beginWith(said: LiveFile, frames: Seq[Rows], indexes: RowsTable => FamilyKeys, logged: LoggedInputs, bring: () => Unit): Unit = {
    inputs = logged
    bringAll = bring
    timesOf = said.timesOf.orNull
    frames.foreach(rows.put)
    val keys = indexes(rows)
    keys.runs.foreach { case (family, run) => index.hashedOf(family).beginWith(run) }
    keys.inOrder.foreach { case (family, ordered) => index.beginInOrder(family, ordered) }
    index.loaded(_ => ())
    open = said.openWindows
    loading = null
    nextOffset = said.endOffset
    delta = frames.last
    oldestId = rows.firstId
    isCommitted = true
    begin()
  }

  /** Which id the first frame has to have that [[follow]] takes next. */
  def nextId: Int = if (delta == null) oldestId else if (isCommitted) delta.id + 1 else parts.head.id

  /**
   * The next version as the log has it, all of it: frames oldest first, ids ascending from [[nextId]]. It can be taken
   * back until the next one begins, as one that was committed here.
   */
  def follow(frames: Seq[Rows]): Unit = {
    makeRoom()
    settle()
    frames.foreach { frame =>
      addPart(frame)
      (0 until frame.count).foreach(row => open += index.follow(frame, row, undoLogs.last))
      frame.kinds = null
      frame.renewed = null
      nextOffset += frame.count
    }
    isCommitted = true
  }
}

private[cecstore] object LiveState {
  /** How many bytes of keys, and of values, one part may hold, unless it is one row; tests make it smaller. */
  @volatile private[cecstore] var partBytes: Int = 16 << 20

  /** What a version changes besides rows and indexes. */
  private final case class Counters(oldestId: Int, oldestRow: Int, open: Long, nextOffset: Long)
}

/** How an open store sees a state: as its puts have made it, or as it was when the version in progress began. */
private[cecstore] final class StateView(val state: LiveState, isBefore: Boolean) {
  /** The reference of the key's value, or [[KeyIndex.Absent]]. */
  def find(family: Int, key: Array[Byte], from: Int, length: Int): Long =
    if (isBefore) state.findBefore(family, key, from, length) else state.find(family, key, from, length)

  /** References of live rows of a family as `scan` gives them; rows may be put and removed meanwhile. */
  def live(family: Int, scan: KeyIndex => Iterator[Long]): Iterator[Long] =
    if (isBefore) state.liveBefore(family, scan) else state.live(family, scan)
}
