package org.apache.spark.sql.cecstore.keys

import java.io.IOException
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.local.LocalSpace
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.hash.Murmur3_x86_32

/**
 * Keys in no order. All are in a table in the heap, until [[makeRoom]] puts them into a run in a local file: from then on the
 * table has those that have changed since, and the run all others. No key is in both, because an entry of the run that is replaced
 * or deleted counts no more.
 */
private[cecstore] final class HashIndex(rows: RowsTable, keysHint: Int) extends KeyIndex with Logging {
  import KeyIndex.Absent
  import KeyRun.Nowhere

  private var table = new KeyTable(rows, keysHint, isOverRun = false)
  private var run: KeyRun = null
  /** How many scans have begun. */
  private var scans = 0
  private var failedAt = 0
  private var loading: RunLoad = null
  private val hashBits = HashIndex.hashBits

  override def size: Int = table.size + (if (run == null) 0 else run.size)
  override def memoryBytes: Long = table.memoryBytes + (if (run == null) 0 else run.memoryBytes)
  override def localBytes: Long = if (run == null) 0 else run.localBytes

  private def hashOf(key: Array[Byte], from: Int, length: Int): Int = HashIndex.counted(HashIndex.hash(key, from, length), hashBits)

  /** The run is asked first, because most keys are there: then the table is not read at all. */
  private def placeOf(hash: Int, key: Array[Byte], from: Int, length: Int): Int =
    if (run == null) Nowhere else run.placeOf(hash, key, from, length)
  private def placeHolding(hash: Int, held: Long): Int = if (run == null) Nowhere else run.placeHolding(hash, held)

  override def find(key: Array[Byte], from: Int, length: Int): Long = {
    val hash = hashOf(key, from, length)
    val place = placeOf(hash, key, from, length)
    if (place != Nowhere) return run.reference(place)
    val slot = table.slotOf(hash, key, from, length)
    if (slot >= 0) table.reference(slot) else Absent
  }

  override def put(key: Array[Byte], from: Int, length: Int, reference: Long, replace: Boolean): Long = {
    val hash = hashOf(key, from, length)
    val place = placeOf(hash, key, from, length)
    if (place != Nowhere) {
      val old = run.reference(place)
      if (replace) replaceInRun(place, hash, reference)
      old
    } else {
      val slot = table.slotOf(hash, key, from, length)
      val old = if (slot >= 0) table.reference(slot) else Absent
      if (slot < 0) table.insert(slot, hash, reference, ~scans)
      else if (replace) table.set(slot, reference)
      old
    }
  }

  override def swapKnown(key: Array[Byte], from: Int, length: Int, reference: Long): Long = if (run == null) swap(key, from, length, reference)
    else {
      val hash = hashOf(key, from, length)
      val slot = table.slotOf(hash, key, from, length)
      if (slot >= 0) {
        val old = table.reference(slot)
        table.set(slot, reference)
        old
      } else {
        val place = run.placeOfKnown(hash, key, from, length)
        if (place == Nowhere) table.insert(slot, hash, reference, ~scans) else replaceInRun(place, hash, reference)
        if (place == Nowhere) Absent else run.reference(place)
      }
    }

  private def replaceInRun(place: Int, hash: Int, reference: Long): Unit = {
    run.replace(place)
    table.insert(table.freeSlot(hash), hash, reference, place)
  }

  override def delete(key: Array[Byte], from: Int, length: Int): Unit = {
    val hash = hashOf(key, from, length)
    val place = placeOf(hash, key, from, length)
    if (place != Nowhere) run.replace(place)
    else {
      val slot = table.slotOf(hash, key, from, length)
      if (slot >= 0) table.delete(slot)
    }
  }

  override def move(key: Array[Byte], from: Int, length: Int, held: Long, reference: Long): Unit = {
    val hash = hashOf(key, from, length)
    val place = placeHolding(hash, held)
    if (place != Nowhere) replaceInRun(place, hash, reference) else table.set(table.slotHolding(hash, held), reference)
  }

  override def deleteHeld(key: Array[Byte], from: Int, length: Int, held: Long): Unit = {
    val hash = hashOf(key, from, length)
    val place = placeHolding(hash, held)
    if (place != Nowhere) run.replace(place) else table.delete(table.slotHolding(hash, held))
  }

  /**
   * From now on until [[endLoad]] rows come newest first, by [[load]], and nothing is asked: of each key the first one counts.
   *
   * @param keysHint how many keys are expected: more than the heap has room for
   */
  def beginLoad(keysHint: Int, space: () => LocalSpace): Unit = loading = new RunLoad(rows, keysHint, space)

  def isLoading: Boolean = loading != null

  /** Take in a row, or one that says that its key is gone. Raises an IOException where there is no room for it. */
  def load(key: Array[Byte], from: Int, length: Int, reference: Long, isClosed: Boolean): Unit =
    loading.add(hashOf(key, from, length), reference, isClosed)

  /**
   * All rows are in. Raises an IOException where there is no room.
   *
   * @param take called with the reference of each key
   */
  def endLoad(take: Long => Unit): Unit = {
    val loaded = loading
    loading = null
    loaded.finish(take)
    if (loaded.size <= KeyRun.keysMin) table = tableOf(loaded.size, loaded.foreach)
    else {
      run = loaded.written()
      table = new KeyTable(rows, 0, isOverRun = true)
    }
    loaded.letGo()
  }

  /** Over a run also closable: until it is closed or through, it holds the run. */
  override def references: Iterator[Long] = if (run == null) table.scan(_ => true) else new Scan(run)

  /** What is in the run first, then what was in the table when the scan began: what has come from the run since was given. */
  private final class Scan(below: KeyRun) extends Iterator[Long] with AutoCloseable {
    scans += 1
    private val number = scans
    private val inRun = new below.Scan
    private val inTable = table.scan(origin => if (origin >= 0) inRun.wasReplaced(origin) else ~origin < number)

    override def hasNext: Boolean = inRun.hasNext || inTable.hasNext
    override def next(): Long = if (inRun.hasNext) inRun.next() else inTable.next()
    override def close(): Unit = inRun.close()
  }

  /**
   * Merge the table and the run into a new run, where the heap is full and the table has grown, or half of the run counts no
   * more; into a table, where few keys are left. Where the local disk has no room, all stays as it is, until twice as much has
   * changed.
   *
   * @param isFull whether the heap has no room for more
   * @param growth one in so many of the keys may be in the table before they are merged
   */
  def makeRoom(isFull: Boolean, growth: Int, space: () => LocalSpace): Unit = {
    val least = KeyRun.keysMin
    val isGrown = isFull && table.size > math.max(least, size / growth)
    val isWorn = run != null && run.replacedCount > math.max(least, run.entries / 2)
    if ((isGrown || isWorn) && changes / 2 >= failedAt) {
      if (size <= least) intoTable() else try intoRun(space()) catch { case e: IOException =>
        failedAt = changes
        logWarning(s"cec: an index of $size keys stays in the heap for now: $e")
      }
    }
  }

  private def changes: Int = table.size + (if (run == null) 0 else run.replacedCount)

  private def intoRun(space: LocalSpace): Unit = {
    val merged = new RunMerge(rows, table, Option(run)).written(space)
    val above = new KeyTable(rows, 0, isOverRun = true)
    letGo()
    run = merged
    table = above
    failedAt = 0
  }

  /** Begin with the keys of a run, in an index that has none. */
  def beginWith(begun: KeyRun): Unit = {
    run = begun
    table = new KeyTable(rows, 0, isOverRun = true)
    if (size <= KeyRun.keysMin) intoTable()
  }

  private def intoTable(): Unit = if (run != null) {
    val all = tableOf(size, add => { table.foreach((hash, slot) => add(hash, table.reference(slot))); run.foreach(add) })
    letGo()
    run = null
    table = all
  }

  /** @param entries calls with the hash and the reference of each key */
  private def tableOf(keys: Int, entries: ((Long, Long) => Unit) => Unit): KeyTable = {
    val table = new KeyTable(rows, keys, isOverRun = false)
    entries((hash, reference) => table.insert(table.freeSlot(hash.toInt), hash.toInt, reference, Nowhere))
    table
  }

  override def letGo(): Unit = if (run != null) run.letGo()
}

private[cecstore] object HashIndex {
  /** Which bits of hashes count. Tests leave few, so that keys look alike. */
  @volatile private[cecstore] var hashBits: Int = -1

  /** What an index has of a hash: some values are taken. */
  private[keys] def counted(hash: Int, bits: Int): Int = {
    val left = hash & bits
    if (left >= 0 && left < KeyTable.HashMin) left + KeyTable.HashMin else left
  }

  def hash(key: Array[Byte], from: Int, length: Int): Int = {
    val at = Platform.BYTE_ARRAY_OFFSET + from.toLong
    // Spark's own tables hash rows, whose size is always a multiple of eight, by the first of the two: where a
    // restart loads a state, it is compiled already.
    if ((length & 7) == 0) Murmur3_x86_32.hashUnsafeWords(key, at, length, 0)
    else Murmur3_x86_32.hashUnsafeBytes2(key, at, length, 0)
  }
}
