package org.apache.spark.sql.cecstore.format

import java.util.{Arrays, BitSet}
import org.apache.spark.sql.cecstore.CecLogException

/**
 * Rows in flat columns, as they stand in the log: those of a frame, or those a version has put so far.
 * A row is never changed; a newer row of its key makes it dead.
 *
 * @param id ascending with age of the frame; with the row number it makes a reference
 */
private[cecstore] final class Rows(val id: Int, rowsHint: Int, keyBytesHint: Int, valueBytesHint: Int) {
  var count = 0
  var liveCount = 0
  /** Bytes of the keys and values of live rows. */
  var liveBytes = 0L
  /** Offset of row 0 in the stream. */
  var firstOffset = 0L
  /** Frames of the log that hold these rows. */
  var frames = 1
  /** Bytes of those frames. */
  var storedBytes = 0L
  /** Null while all rows are of the default family. */
  var families: Array[Short] = null
  /** Of rows read from the log, one bit each: the footprint only says again what an older one said. */
  var renewed: Array[Byte] = null
  var kinds = new Array[Byte](rowsHint)
  /** Null once the rows are complete and all keys have the same length. */
  var keyEnds = new Array[Int](rowsHint + 1)
  var keys = new Array[Byte](keyBytesHint)
  var valueEnds = new Array[Int](rowsHint + 1)
  var values = new Array[Byte](valueBytesHint)
  /** The least time of each zone of the first `timedRows` rows: see `Zones`. Empty while nobody asks for times. */
  var leastTimes: Array[Long] = Rows.NoTimes
  var timedRows = 0
  private var keyWidth, valueWidth = 0
  private val live = new BitSet(rowsHint)

  def family(row: Int): Int = if (families == null) Format.DefaultFamily else families(row) & 0xffff
  def keyStart(row: Int): Int = if (keyEnds == null) row * keyWidth else keyEnds(row)
  def keyLength(row: Int): Int = if (keyEnds == null) keyWidth else keyEnds(row + 1) - keyEnds(row)
  def valueStart(row: Int): Int = if (valueEnds == null) row * valueWidth else valueEnds(row)
  def valueLength(row: Int): Int = if (valueEnds == null) valueWidth else valueEnds(row + 1) - valueEnds(row)
  def reference(row: Int): Long = id.toLong << 32 | row
  def isLive(row: Int): Boolean = live.get(row)
  def memoryBytes: Long = 128L + sizeOf(keyEnds) + sizeOf(valueEnds) + keys.length + values.length + live.size / 8 +
    (if (kinds == null) 0 else kinds.length) + (if (families == null) 0 else families.length * 2L) + leastTimes.length * 8L
  private def sizeOf(ends: Array[Int]): Long = if (ends == null) 0 else ends.length * 4L

  def key(row: Int): Array[Byte] = Arrays.copyOfRange(keys, keyStart(row), keyStart(row) + keyLength(row))
  def value(row: Int): Array[Byte] = Arrays.copyOfRange(values, valueStart(row), valueStart(row) + valueLength(row))

  def hasKey(row: Int, key: Array[Byte], from: Int, length: Int): Boolean = {
    val start = keyStart(row)
    keyLength(row) == length && Arrays.equals(keys, start, start + length, key, from, from + length)
  }

  def markDead(row: Int): Unit = { live.clear(row); liveCount -= 1; liveBytes -= bytesOf(row) }
  def markLive(row: Int): Unit = { live.set(row); liveCount += 1; liveBytes += bytesOf(row) }
  private def bytesOf(row: Int): Long = keyLength(row).toLong + valueLength(row)
  /** Bytes of all keys and values. */
  def usedBytes: Long = keyStart(count).toLong + valueStart(count)
  def isSmallerThan(bytes: Int): Boolean = keyStart(count) < bytes && valueStart(count) < bytes
  def hasRoom(keyBytes: Int, valueBytes: Int, max: Int): Boolean =
    keyStart(count).toLong + keyBytes <= max && valueStart(count).toLong + valueBytes <= max

  /** The first live row from `row` on; `count` if there is none. */
  def nextLive(row: Int): Int = {
    val next = live.nextSetBit(row)
    if (next < 0) count else next
  }

  /** Append a live row and return its number. */
  def append(kind: Byte, family: Int, key: Array[Byte], keyFrom: Int, keyLength: Int, value: Array[Byte],
      valueFrom: Int, valueLength: Int): Int = {
    val row = count
    if (row == kinds.length) growRows()
    if (family != Format.DefaultFamily && families == null) {
      families = new Array[Short](kinds.length)
      Arrays.fill(families, Format.DefaultFamily.toShort)
    }
    if (families != null) families(row) = family.toShort
    kinds(row) = kind
    val keyStart = keyEnds(row)
    keys = withSpace(keys, keyStart, keyLength)
    System.arraycopy(key, keyFrom, keys, keyStart, keyLength)
    keyEnds(row + 1) = keyStart + keyLength
    val valueStart = valueEnds(row)
    values = withSpace(values, valueStart, valueLength)
    System.arraycopy(value, valueFrom, values, valueStart, valueLength)
    valueEnds(row + 1) = valueStart + valueLength
    count = row + 1
    markLive(row)
    row
  }

  /** A copy of one row of other rows. */
  def appendFrom(other: Rows, row: Int, kind: Byte): Int =
    append(kind, other.family(row), other.keys, other.keyStart(row), other.keyLength(row), other.values,
      other.valueStart(row), other.valueLength(row))

  /** Give back what was reserved; kinds say nothing once the version is complete. */
  def trim(): Unit = {
    kinds = null
    if (families != null) families = Arrays.copyOf(families, count)
    keys = Arrays.copyOf(keys, keyEnds(count))
    values = Arrays.copyOf(values, valueEnds(count))
    dropEqualLengths()
  }

  /** Rows of longs all have one length: then two numbers stand for all ends. */
  private def dropEqualLengths(): Unit = {
    keyWidth = widthOf(keyEnds)
    keyEnds = if (keyWidth >= 0) null else Arrays.copyOf(keyEnds, count + 1)
    valueWidth = widthOf(valueEnds)
    valueEnds = if (valueWidth >= 0) null else Arrays.copyOf(valueEnds, count + 1)
  }

  private def widthOf(ends: Array[Int]): Int = {
    val width = if (count == 0) 0 else ends(1)
    var row = 1
    while (row < count && ends(row + 1) - ends(row) == width) row += 1
    if (row >= count) width else -1
  }

  /** Rows decoded from a frame come with their columns set; none of them is live yet. */
  def finishDecoding(rows: Int): Unit = {
    count = rows
    dropEqualLengths()
  }

  def forgetTimes(): Unit = { leastTimes = Rows.NoTimes; timedRows = 0 }

  def isRenewed(row: Int): Boolean = (renewed(row >> 3) & (1 << (row & 7))) != 0

  private def growRows(): Unit = {
    val size = math.max(16, kinds.length * 2)
    kinds = Arrays.copyOf(kinds, size)
    keyEnds = Arrays.copyOf(keyEnds, size + 1)
    valueEnds = Arrays.copyOf(valueEnds, size + 1)
    if (families != null) families = Arrays.copyOf(families, size)
  }

  private def withSpace(bytes: Array[Byte], used: Int, more: Int): Array[Byte] = {
    val needed = used.toLong + more
    if (needed <= bytes.length) bytes
    else if (needed > Int.MaxValue - 64) throw new CecLogException(
      s"a key or value of $more bytes is more than a state store can hold: let the query keep less under one key",
      named = Map("bytes" -> more.toString))
    else Arrays.copyOf(bytes, math.max(needed, math.min(bytes.length * 2L, Int.MaxValue - 64L)).toInt)
  }
}

private[cecstore] object Rows {
  private val NoTimes = new Array[Long](0)
}
