package org.apache.spark.sql.cecstore.state

import java.util.Arrays
import org.apache.spark.sql.cecstore.format.{Format, Rows}
import org.apache.spark.sql.cecstore.keys.{HashIndex, KeyIndex, KeyRun, KeyTable, OrderedIndex, RowsTable}
import org.apache.spark.sql.cecstore.local.LocalSpace

/**
 * The index of each column family, made when it is first asked for.
 *
 * @param isOrdered whether a column family needs its keys in order
 * @param keysHint how many keys the default family may get
 */
private[state] final class FamilyIndexes(rows: RowsTable, isOrdered: Int => Boolean, keysHint: Int, memory: RowMemory) {
  import FamilyIndexes.Growth

  private var indexes = new Array[KeyIndex](2)
  /** All keys are in no order until all are in: putting them in order is less work at once. */
  private var isLoading = true
  /** Rows that are loaded are sorted by their keys' hashes, because the heap has no room for all keys. */
  private var isSorting = keysHint > KeyRun.keysMin && !memory.hasRoom(KeyTable.bytesFor(keysHint))
  private val share = new RowMemory.Share
  LocalSpace.cleaner.register(this, share)

  def size(family: Int): Int = if (family < indexes.length && indexes(family) != null) indexes(family).size else 0
  def memoryBytes: Long = indexes.filter(_ != null).map(_.memoryBytes).sum
  def localBytes: Long = indexes.filter(_ != null).map(_.localBytes).sum

  def apply(family: Int): KeyIndex = {
    if (family >= indexes.length) indexes = Arrays.copyOf(indexes, family + 1)
    if (indexes(family) == null) {
      indexes(family) = if (isOrdered(family) && !isLoading) new OrderedIndex(rows) else hashed(family)
    }
    indexes(family)
  }

  /** The index of a family whose keys are not kept in order. */
  def hashedOf(family: Int): HashIndex = apply(family) match {
    case index: HashIndex => index
    case _ => throw new IllegalStateException(s"the keys of family $family are kept in order")
  }

  private def hashed(family: Int): HashIndex = {
    val index = new HashIndex(rows, if (family == Format.DefaultFamily && !isSorting) keysHint else 0)
    if (isSorting) index.beginLoad(keysHint, memory.space)
    index
  }

  /**
   * Put what has no room in the heap into local files: see [[HashIndex.makeRoom]]. Keys in order stay, and are not counted.
   */
  def makeRoom(): Unit = eachHashed(_.makeRoom(memory.isFull, Growth, memory.space))

  /**
   * All rows are in.
   *
   * @param take called with the newest row of each key that no call of `put` has told of
   */
  def loaded(take: Long => Unit): Unit = {
    isSorting = false
    isLoading = false
    eachHashed(index => if (index.isLoading) memory.placing(index.endLoad(take)))
    makeRoom()
    // What has come since a run was made would else stay in the heap for long.
    eachHashed(index => index.makeRoom(index.localBytes > 0, Int.MaxValue, memory.space))
    indexes.indices.filter(family => indexes(family) != null && isOrdered(family)).foreach(order)
  }

  private def eachHashed(change: HashIndex => Unit): Unit = {
    count()
    indexes.foreach { case hashed: HashIndex => change(hashed); case _ => }
    count()
  }

  /** Nobody looks up keys any more. */
  def letGo(): Unit = {
    indexes.foreach(index => if (index != null) index.letGo())
    share.run()
  }

  private def count(): Unit = {
    var bytes = 0L
    indexes.foreach { case hashed: HashIndex => bytes += hashed.memoryBytes; case _ => }
    share.add(bytes - share.bytes)
  }

  /** Families whose keys are kept in order. */
  def inOrder: Set[Int] = indexes.indices.filter(indexes(_).isInstanceOf[OrderedIndex]).toSet
  def isInOrder(family: Int): Boolean = apply(family).isInstanceOf[OrderedIndex]
  def endScans(): Unit = indexes.foreach { case ordered: OrderedIndex => ordered.endScans(); case _ => }

  /** Begin with the keys of a family in order. */
  def beginInOrder(family: Int, index: OrderedIndex): Unit = {
    if (family >= indexes.length) indexes = Arrays.copyOf(indexes, family + 1)
    indexes(family) = index
  }

  /** Keep this family's keys in order from now on. */
  def order(family: Int): OrderedIndex = apply(family) match {
    case ordered: OrderedIndex => ordered
    case hashed =>
      val ordered = OrderedIndex.of(rows, hashed.references.toArray)
      hashed.letGo()
      indexes(family) = ordered
      ordered
  }

  /** The rows of a version without its dead ones; keys, and what they had before, go with them. */
  def packed(whole: Rows, undoLog: UndoLog): Rows = {
    val packed = new Rows(whole.id, whole.liveCount, whole.keyEnds(whole.count), whole.valueEnds(whole.count))
    var row = whole.nextLive(0)
    while (row < whole.count) {
      val moved = packed.appendFrom(whole, row, whole.kinds(row))
      if (moved != row) apply(whole.family(row)) match {
        case ordered: OrderedIndex => ordered.willMove(packed.keys, packed.keyStart(moved), packed.keyLength(moved), packed.reference(moved))
        case hashed => hashed.move(packed.keys, packed.keyStart(moved), packed.keyLength(moved), whole.reference(row), packed.reference(moved))
      }
      undoLog.note(moved, undoLog.before(row))
      row = whole.nextLive(row + 1)
    }
    rows.put(packed)
    indexes.foreach { case ordered: OrderedIndex => ordered.moved(); case _ => }
    packed
  }

  /** Take over a row of the log that is newer than all that are here; returns how many windows are open more. */
  def follow(frame: Rows, row: Int, undoLog: UndoLog): Int = {
    val (keys, start, length) = (apply(frame.family(row)), frame.keyStart(row), frame.keyLength(row))
    val isResult = frame.kinds(row) == Format.Result
    val old = if (frame.kinds(row) == Format.Open) keys.swap(frame.keys, start, length, frame.reference(row))
      else keys.swapKnown(frame.keys, start, length, frame.reference(row))
    undoLog.note(row, old)
    if (isResult) keys.deleteHeld(frame.keys, start, length, frame.reference(row)) else frame.markLive(row)
    if (old != KeyIndex.Absent) rows.of(old).markDead(old.toInt)
    (if (isResult) 0 else 1) - (if (old == KeyIndex.Absent) 0 else 1)
  }
}

private[state] object FamilyIndexes {
  /** One in so many keys may have changed before a new run is made: more of them would fill the heap, and fewer cost more to merge. */
  private val Growth = 8
}
