package org.apache.spark.sql.cecstore.keys

import java.util.{Arrays, TreeMap}
import scala.collection.mutable.ArrayBuffer

/**
 * Keys in the order of their bytes, for families with prefix or range scans. References stand in leaves of up to
 * [[OrderedIndex.LeafMax]], one leaf after the other; their keys are read from the rows, so that a key takes about 17 bytes here.
 *
 * A scan sees what was there when it began, as RocksDB's do: a timer that is set while timers expire is for the next batch. While a
 * scan is under way each change notes what its key had before. One thread may scan while another one changes keys.
 */
private[cecstore] final class OrderedIndex(rows: RowsTable) extends KeyIndex {
  import KeyIndex.Absent
  import OrderedIndex._

  /** None is empty. */
  private val leaves = ArrayBuffer.empty[KeyLeaf]
  private var size_ = 0
  /** How often references have got other places. */
  private var structure = 0L
  /** What keys had before each change since the first of the scans began that are under way; null if there are none. */
  private var changes: Changes = null
  private var scansUnderWay = 0
  private var changeNumber = 0L
  /** The last change before the newest scan began. */
  private var newestBegan = 0L
  /** How many versions have ended. */
  private var versions = 0
  /** Where keys are whose rows get other places: see [[move]]. */
  private val moves = ArrayBuffer.empty[(KeyLeaf, Int, Long)]

  override def size: Int = synchronized(size_)
  override def memoryBytes: Long = synchronized(leaves.iterator.map(_.memoryBytes).sum)

  /** The number of the leaf, in the upper half, and the place in it; its complement where the key would have to be put in. */
  private def placeOf(key: Array[Byte], from: Int, length: Int, isHere: Boolean = false): Long = {
    val leaf = math.max(0, lastLeaf(key, from, length))
    if (leaf == leaves.size) return ~0L
    val at = leaves(leaf).placeOf(key, from, length, isHere)
    if (at >= 0) leaf.toLong << 32 | at else ~(leaf.toLong << 32 | ~at)
  }

  /** The last leaf of which the keys may be at or below this one; -1 if there is none. */
  private def lastLeaf(key: Array[Byte], from: Int, length: Int): Int = {
    var (low, high) = (-1, leaves.size - 1)
    while (low < high) {
      val middle = (low + high + 1) >>> 1
      val least = leaves(middle).least
      if (Arrays.compareUnsigned(least, 0, least.length, key, from, from + length) <= 0) low = middle else high = middle - 1
    }
    low
  }

  private def leafOf(place: Long): KeyLeaf = leaves((place >>> 32).toInt)
  private def referenceAt(place: Long): Long = leafOf(place).references(place.toInt)

  override def find(key: Array[Byte], from: Int, length: Int): Long = synchronized {
    val place = placeOf(key, from, length)
    if (place < 0) Absent else referenceAt(place)
  }

  override def put(key: Array[Byte], from: Int, length: Int, reference: Long, replace: Boolean): Long =
    put(key, from, length, reference, replace, isHere = false)
  override def swapKnown(key: Array[Byte], from: Int, length: Int, reference: Long): Long =
    put(key, from, length, reference, replace = true, isHere = true)

  private def put(key: Array[Byte], from: Int, length: Int, reference: Long, replace: Boolean, isHere: Boolean): Long = synchronized {
    val place = placeOf(key, from, length, isHere)
    val old = if (place < 0) Absent else referenceAt(place)
    if (changes != null) note(Arrays.copyOfRange(key, from, from + length), old)
    if (place < 0) insert(~place, reference, key, from, length) else if (replace) leafOf(place).references(place.toInt) = reference
    old
  }

  override def delete(key: Array[Byte], from: Int, length: Int): Unit = delete(key, from, length, isHere = false)
  override def deleteHeld(key: Array[Byte], from: Int, length: Int, held: Long): Unit = delete(key, from, length, isHere = true)

  private def delete(key: Array[Byte], from: Int, length: Int, isHere: Boolean): Unit = synchronized {
    val place = placeOf(key, from, length, isHere)
    if (place >= 0) {
      if (changes != null) note(Arrays.copyOfRange(key, from, from + length), referenceAt(place))
      remove(place)
    }
  }

  private def insert(place: Long, reference: Long, key: Array[Byte], from: Int, length: Int): Unit = {
    val (number, at) = ((place >>> 32).toInt, place.toInt)
    if (leaves.isEmpty) leaves += new KeyLeaf(rows, LeafLeast)
    val leaf = leaves(number)
    if (leaf.count < LeafMax) leaf.insert(at, reference, key, from, length)
    else {
      // Keys that come in their order leave full leaves behind.
      val kept = if (number == leaves.size - 1 && at == leaf.count) leaf.count else leaf.count / 2
      val rest = leaf.split(kept)
      if (at < kept) leaf.insert(at, reference, key, from, length) else rest.insert(at - kept, reference, key, from, length)
      leaves.insert(number + 1, rest)
    }
    size_ += 1
    structure += 1
  }

  private def remove(place: Long): Unit = {
    val (number, leaf) = ((place >>> 32).toInt, leafOf(place))
    leaf.remove(place.toInt)
    if (leaf.count == 0) leaves.remove(number)
    else if (number + 1 < leaves.size && leaf.count + leaves(number + 1).count <= LeafMax / 4) {
      leaf.take(leaves.remove(number + 1))
    }
    size_ -= 1
    structure += 1
  }

  /**
   * The row of this key gets another place. While rows do so, keys cannot be compared: what is told between is done at once by [[moved]],
   * before which nothing else is asked.
   */
  def willMove(key: Array[Byte], from: Int, length: Int, reference: Long): Unit = {
    val place = placeOf(key, from, length, isHere = true)
    moves += ((leafOf(place), place.toInt, reference))
  }

  def moved(): Unit = { moves.foreach { case (leaf, at, reference) => leaf.references(at) = reference }; moves.clear() }

  private def note(key: Array[Byte], before: Long): Unit = {
    changeNumber += 1
    val earlier = changes.getOrDefault(key, Vector.empty)
    // Every scan that is under way goes by the first change since it began: later ones tell it nothing.
    if (!earlier.lastOption.exists(_._1 > newestBegan)) changes.put(key, earlier :+ (changeNumber -> before))
  }

  override def references: Iterator[Long] with AutoCloseable = between(null, null)

  /** References of the keys in `[start, end)`, in order; null is open. */
  def between(start: Array[Byte], end: Array[Byte]): Iterator[Long] with AutoCloseable = synchronized(new Scan(start, end))

  /** References of the keys that start with the prefix, in order. */
  def startingWith(prefix: Array[Byte]): Iterator[Long] with AutoCloseable = between(prefix, behind(prefix))

  /** The version has ended, and with it the scans over it: its rows get other places. */
  def endScans(): Unit = synchronized { changes = null; scansUnderWay = 0; versions += 1 }

  private final class Scan(start: Array[Byte], end: Array[Byte]) extends Iterator[Long] with AutoCloseable {
    if (changes == null) changes = new Changes(KeyIndex.Unsigned)
    scansUnderWay += 1
    private val ofScan = changes
    private val began = changeNumber
    newestBegan = began
    private val version = versions
    /** The key that the scan has passed last; its reference where the key was not asked for yet. */
    private var last: Array[Byte] = null
    private var lastReference = Absent
    /** Where the next reference is, as long as the structure is this one. */
    private var leaf, at = 0
    private var known = structure - 1
    private var found = advance()

    override def hasNext: Boolean = found != Absent
    override def next(): Long = {
      if (!hasNext) throw new NoSuchElementException("the end of a scan")
      val given = found
      found = OrderedIndex.this.synchronized(advance())
      given
    }

    /** Whoever looks only whether there is something leaves the rest. */
    override def close(): Unit = OrderedIndex.this.synchronized(if (found != Absent) { found = Absent; finish() })

    /** The reference of the next key that had one when the scan began; [[Absent]] at its end. */
    private def advance(): Long = {
      if (version != versions) throw new IllegalStateException("the version that this scan is of has been committed or given up")
      var reference = Absent
      while (reference == Absent) {
        val here = nextHere()
        val changed = nextChanged()
        val order = if (changed == null) 1 else if (here == Absent) -1 else -rows.compare(here, changed, 0, changed.length)
        if (order <= 0) {
          if (end != null && KeyIndex.Unsigned.compare(changed, end) >= 0) { finish(); return Absent }
          reference = before(changed, if (order == 0) here else Absent)
          last = changed
        } else {
          if (here == Absent || end != null && rows.compare(here, end, 0, end.length) >= 0) { finish(); return Absent }
          reference = here
          last = null
          lastReference = here
        }
        if (order >= 0) at += 1
      }
      reference
    }

    /** The reference that the index has next; [[Absent]] at its end. */
    private def nextHere(): Long = {
      if (known != structure) seek()
      if (leaf < leaves.size && at == leaves(leaf).count) { leaf += 1; at = 0 }
      if (leaf < leaves.size) leaves(leaf).references(at) else Absent
    }

    /** Find the first key behind the last one: what was put or removed meanwhile has moved it. */
    private def seek(): Unit = {
      val key = if (lastKey != null) last else start
      val place = if (key == null) 0L else placeOf(key, 0, key.length)
      leaf = ((if (place < 0) ~place else place) >>> 32).toInt
      at = (if (place < 0) ~place else place).toInt
      if (place >= 0 && lastKey != null) at += 1
      known = structure
    }

    private def lastKey: Array[Byte] = {
      if (last == null && lastReference != Absent) last = rows.of(lastReference).key(lastReference.toInt)
      last
    }

    private def nextChanged(): Array[Byte] = if (ofScan.isEmpty) null
      else if (lastKey != null) ofScan.higherKey(last)
      else if (start != null) ofScan.ceilingKey(start)
      else ofScan.firstKey

    /** What the key had when the scan began: what it had before the first change since then. */
    private def before(key: Array[Byte], now: Long): Long = ofScan.get(key).collectFirst { case (number, old) if number > began => old }.getOrElse(now)

    private def finish(): Unit = if (ofScan eq changes) {
      scansUnderWay -= 1
      if (scansUnderWay == 0) changes = null
    }
  }
}

private[cecstore] object OrderedIndex {
  private val LeafMax = 512
  private val LeafLeast = 16
  /** Of a leaf that is made: there is room for those that come between. */
  private val LeafFilled = LeafMax * 3 / 4

  /** By key: the numbers of its changes, ascending, and what it had before each. */
  private type Changes = TreeMap[Array[Byte], Vector[(Long, Long)]]

  /** Makes an index of keys that come in order. */
  final class Builder(rows: RowsTable) {
    private val index = new OrderedIndex(rows)
    private var leaf: KeyLeaf = null
    private var last = Array.emptyByteArray
    private var lastLength = 0

    def size: Int = index.size_

    /** Take the next key; false if it is not above the one before. */
    def add(reference: Long, key: Array[Byte], from: Int, length: Int): Boolean = {
      if (size > 0 && Arrays.compareUnsigned(last, 0, lastLength, key, from, from + length) >= 0) return false
      if (leaf == null || leaf.count == LeafFilled) {
        leaf = new KeyLeaf(rows, LeafMax)
        index.leaves += leaf
      }
      leaf.insert(leaf.count, reference, key, from, length)
      index.size_ += 1
      if (last.length < length) last = new Array[Byte](math.max(length, last.length * 2))
      System.arraycopy(key, from, last, 0, length)
      lastLength = length
      true
    }

    def result: OrderedIndex = index
  }

  /** The index of these rows' keys, in any order; no two are equal. The array is put in order. */
  def of(rows: RowsTable, references: Array[Long]): OrderedIndex = {
    KeyOrder.sort(rows, references)
    val index = new OrderedIndex(rows)
    references.grouped(LeafFilled).foreach(some => index.leaves += KeyLeaf.of(rows, some, LeafMax))
    index.size_ = references.length
    index
  }

  /** The least key behind all that start with the prefix; null if there is none. */
  private def behind(prefix: Array[Byte]): Array[Byte] = {
    val last = prefix.lastIndexWhere(_ != -1)
    if (last < 0) null else {
      val next = Arrays.copyOf(prefix, last + 1)
      next(last) = (next(last) + 1).toByte
      next
    }
  }
}
