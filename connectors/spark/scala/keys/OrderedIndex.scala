package org.apache.spark.sql.cecstore.keys

import java.util.{Arrays, Map => JMap}
import java.util.concurrent.ConcurrentSkipListMap

/**
 * Keys in the order of their bytes, for families with prefix or range scans. A scan sees what was there when it
 * began, as RocksDB's do: a timer that is set while timers expire is for the next batch. While a scan is under way
 * each change notes what its key had before.
 */
private[cecstore] final class OrderedIndex private (keys: ConcurrentSkipListMap[Array[Byte], java.lang.Long], private var keyBytes: Long) extends KeyIndex {
  import KeyIndex.Absent
  import OrderedIndex.Changes

  def this() = this(new ConcurrentSkipListMap[Array[Byte], java.lang.Long](KeyIndex.Unsigned), 0)

  private var size_ = keys.size // the map counts its own by walking it
  /** What keys had before each change since the first of the scans began that are under way; null if there are none. */
  @volatile private var changes: Changes = null
  private var scansUnderWay = 0
  private var changeNumber = 0L
  /** The last change before the newest scan began. */
  private var newestBegan = 0L
  /** How many versions have ended. */
  @volatile private var versions = 0

  override def size: Int = size_
  override def memoryBytes: Long = size_ * 96L + keyBytes

  private def exact(key: Array[Byte], from: Int, length: Int): Array[Byte] =
    if (from == 0 && length == key.length) key else Arrays.copyOfRange(key, from, from + length)

  override def find(key: Array[Byte], from: Int, length: Int): Long = keys.getOrDefault(exact(key, from, length), Absent)

  override def put(key: Array[Byte], from: Int, length: Int, reference: Long, replace: Boolean): Long = {
    val own = Arrays.copyOfRange(key, from, from + length)
    if (changes != null) note(own, keys.getOrDefault(own, Absent))
    val old = if (replace) keys.put(own, reference) else keys.putIfAbsent(own, reference)
    if (old != null) return old
    keyBytes += length
    size_ += 1
    Absent
  }

  override def delete(key: Array[Byte], from: Int, length: Int): Unit = {
    val own = exact(key, from, length)
    if (changes != null) note(Arrays.copyOf(own, length), keys.getOrDefault(own, Absent))
    if (keys.remove(own) != null) { keyBytes -= length; size_ -= 1 }
  }

  private def note(key: Array[Byte], before: Long): Unit = {
    changeNumber += 1
    val earlier = changes.getOrDefault(key, Vector.empty)
    // Every scan that is under way goes by the first change since it began: later ones tell it nothing.
    if (!earlier.lastOption.exists(_._1 > newestBegan)) changes.put(key, earlier :+ (changeNumber -> before))
  }

  override def references: Iterator[Long] with AutoCloseable = between(null, null)

  /** References of the keys in `[start, end)`, in order; null is open. */
  def between(start: Array[Byte], end: Array[Byte]): Iterator[Long] with AutoCloseable =
    new Scan(start, key => end == null || KeyIndex.Unsigned.compare(key, end) < 0)

  /** References of the keys that start with the prefix, in order. */
  def startingWith(prefix: Array[Byte]): Iterator[Long] with AutoCloseable = new Scan(prefix, key =>
    key.length >= prefix.length && Arrays.equals(key, 0, prefix.length, prefix, 0, prefix.length))

  /** The version has ended, and with it the scans over it: its rows get other places. */
  def endScans(): Unit = { changes = null; scansUnderWay = 0; versions += 1 }

  private final class Scan(start: Array[Byte], isWithin: Array[Byte] => Boolean) extends Iterator[Long] with AutoCloseable {
    if (changes == null) changes = new Changes(KeyIndex.Unsigned)
    scansUnderWay += 1
    private val ofScan = changes
    private val began = changeNumber
    newestBegan = began
    private val version = versions
    private val entries = (if (start == null) keys else keys.tailMap(start, true)).entrySet.iterator
    private var entry = nextEntry()
    private var last: Array[Byte] = null
    private var found = advance()

    override def hasNext: Boolean = found != Absent
    override def next(): Long = {
      if (!hasNext) throw new NoSuchElementException("the end of a scan")
      val given = found
      found = advance()
      given
    }

    /** Whoever looks only whether there is something leaves the rest. */
    override def close(): Unit = if (found != Absent) { found = Absent; end() }

    private def nextEntry(): JMap.Entry[Array[Byte], java.lang.Long] = if (entries.hasNext) entries.next() else null

    /** The reference of the next key that had one when the scan began; [[Absent]] at its end. */
    private def advance(): Long = {
      if (version != versions) throw new IllegalStateException("the version that this scan is of has been committed or given up")
      var reference = Absent
      while (reference == Absent) {
        val changed = nextChanged()
        val isChanged = changed != null && (entry == null || KeyIndex.Unsigned.compare(changed, entry.getKey) <= 0)
        val key = if (isChanged) changed else if (entry != null) entry.getKey else null
        if (key == null || !isWithin(key)) { end(); return Absent }
        reference = if (isChanged) before(key, entry) else entry.getValue
        if (entry != null && (!isChanged || Arrays.equals(key, entry.getKey))) entry = nextEntry()
        last = key
      }
      reference
    }

    private def nextChanged(): Array[Byte] = if (ofScan.isEmpty) null
      else if (last != null) ofScan.higherKey(last)
      else if (start != null) ofScan.ceilingKey(start)
      else ofScan.firstKey

    /** What the key had when the scan began: what it had before the first change since then. */
    private def before(key: Array[Byte], entry: JMap.Entry[Array[Byte], java.lang.Long]): Long =
      ofScan.get(key).collectFirst { case (number, old) if number > began => old }
        .getOrElse(if (entry != null && Arrays.equals(key, entry.getKey)) entry.getValue.longValue else Absent)

    private def end(): Unit = if (ofScan eq changes) {
      scansUnderWay -= 1
      if (scansUnderWay == 0) changes = null
    }
  }
}

private[cecstore] object OrderedIndex {
  /** The index of these keys, in any order; no two are equal. */
  def of(keys: Array[Array[Byte]], references: Array[Long]): OrderedIndex =
    new OrderedIndex(new ConcurrentSkipListMap[Array[Byte], java.lang.Long](new SortedKeys(keys, references)), keys.iterator.map(_.length.toLong).sum)

  /** By key: the numbers of its changes, ascending, and what it had before each. */
  private type Changes = ConcurrentSkipListMap[Array[Byte], Vector[(Long, Long)]]
}
