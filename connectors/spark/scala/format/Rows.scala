package org.apache.spark.sql.cecstore.format

import java.util.{Arrays, BitSet}
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.local.Extent
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods

/**
 * Rows in flat columns, as they stand in the log: those of a frame, or those a version has put so far.
 * A row is never changed; a newer row of its key makes it dead. Their bytes are in the heap, or in a local file: see [[movedTo]].
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
  /** Null once the rows are complete and all keys have the same length, and where the ends are in a local file. */
  var keyEnds = new Array[Int](rowsHint + 1)
  /** Null where the bytes are in a local file. */
  var keys = new Array[Byte](keyBytesHint)
  var valueEnds = new Array[Int](rowsHint + 1)
  var values = new Array[Byte](valueBytesHint)
  /** The least time of each zone of the first `timedRows` rows: see `Zones`. Empty while nobody asks for times. */
  var leastTimes: Array[Long] = Rows.NoTimes
  var timedRows = 0
  /** Where a frame of the log has these rows, if they were read from one. */
  var place: FramePlace = null
  private var keyWidth, valueWidth = -1
  private var live = new BitSet(rowsHint)
  /** What brings the bytes to the local file when they are asked for; null where they are here. */
  private var lazily: LazyBytes = null
  /** Of a row of those that [[lazily]] brings, so that none is read to be counted. */
  private var meanBytes = 0L
  /** Where the bytes are if not in the heap, and the addresses of keys, values and their ends there. */
  private var extent, endsExtent: Extent = null
  private var keysAt, valuesAt, keyEndsAt, valueEndsAt = 0L
  /** How many bytes of keys and values are there. */
  private var keyBytes, valueBytes = 0

  def isInHeap: Boolean = extent == null
  def family(row: Int): Int = if (families == null) Format.DefaultFamily else families(row) & 0xffff
  def keyStart(row: Int): Int =
    if (keyWidth >= 0) row * keyWidth else if (keyEnds != null) keyEnds(row) else endAt(keyEndsAt, row, keyBytes)
  def keyLength(row: Int): Int =
    if (keyWidth >= 0) keyWidth else if (lazily != null) lazily.keyLength(row) else keyStart(row + 1) - keyStart(row)
  def valueStart(row: Int): Int =
    if (valueWidth >= 0) row * valueWidth else if (valueEnds != null) valueEnds(row) else endAt(valueEndsAt, row, valueBytes)
  def keyBytesUsed: Int = if (isInHeap) keyStart(count) else keyBytes
  def valueBytesUsed: Int = if (isInHeap) valueStart(count) else valueBytes
  def valueLength(row: Int): Int =
    if (valueWidth >= 0) valueWidth else if (lazily != null) lazily.valueLength(row) else valueStart(row + 1) - valueStart(row)
  def reference(row: Int): Long = id.toLong << 32 | row
  def isLive(row: Int): Boolean = live.get(row)
  /** Bytes in the heap. */
  def memoryBytes: Long = 128L + sizeOf(keyEnds) + sizeOf(valueEnds) + live.size / 8 + (if (isInHeap) keys.length.toLong + values.length else 0) +
    (if (kinds == null) 0 else kinds.length) + (if (families == null) 0 else families.length * 2L) + leastTimes.length * 8L
  private def sizeOf(ends: Array[Int]): Long = if (ends == null) 0 else ends.length * 4L

  /** An end as a local file has it. A thread that comes late may read what others have put there since: never beyond these rows. */
  private def endAt(ends: Long, row: Int, bytes: Int): Int = {
    if (row < 0 || row > count) throw new IndexOutOfBoundsException(s"row $row of $count")
    val end = Platform.getInt(null, ends + row * 4L)
    if (end < 0 || end > bytes) throw new IndexOutOfBoundsException(s"row $row ends at $end of $bytes bytes")
    end
  }

  /** Base object and offset of a row's key and value, as Spark's `Platform` takes them. */
  def keyBase: AnyRef = keys
  def keyOffset(row: Int): Long =
    if (lazily != null) lazily.keyAt(row) else (if (isInHeap) Platform.BYTE_ARRAY_OFFSET.toLong else keysAt) + keyStart(row)
  def valueBase: AnyRef = values
  def valueOffset(row: Int): Long =
    if (lazily != null) lazily.valueAt(row) else (if (isInHeap) Platform.BYTE_ARRAY_OFFSET.toLong else valuesAt) + valueStart(row)

  /** An array that holds a row's key at [[keyFrom]]: the rows' own where they are in the heap. */
  def keyArray(row: Int): Array[Byte] = if (isInHeap) keys else key(row)
  def keyFrom(row: Int): Int = if (isInHeap) keyStart(row) else 0
  /** An array that holds a row's value at [[valueFrom]]: the rows' own where they are in the heap. */
  def valueArray(row: Int): Array[Byte] = if (isInHeap) values else value(row)
  def valueFrom(row: Int): Int = if (isInHeap) valueStart(row) else 0

  def key(row: Int): Array[Byte] = copied(keyBase, keyOffset(row), keyLength(row))
  def value(row: Int): Array[Byte] = copied(valueBase, valueOffset(row), valueLength(row))

  private def copied(base: AnyRef, offset: Long, length: Int): Array[Byte] = {
    val copy = new Array[Byte](length)
    Platform.copyMemory(base, offset, copy, Platform.BYTE_ARRAY_OFFSET, length)
    copy
  }

  def hasKey(row: Int, key: Array[Byte], from: Int, length: Int): Boolean = {
    keyLength(row) == length && (
      if (isInHeap) { val start = keyStart(row); Arrays.equals(keys, start, start + length, key, from, from + length) }
      else ByteArrayMethods.arrayEquals(key, Platform.BYTE_ARRAY_OFFSET + from.toLong, null, keyOffset(row), length))
  }

  /** How a row's key stands to another one in the order of bytes without sign: below 0, 0 or above. */
  def compareKey(row: Int, key: Array[Byte], from: Int, length: Int): Int = {
    val own = keyLength(row)
    if (isInHeap) { val start = keyStart(row); Arrays.compareUnsigned(keys, start, start + own, key, from, from + length) }
    else {
      val (at, common) = (keyOffset(row), math.min(own, length))
      val same = bytesInCommon(at, key, from, common)
      if (same == common) own - length else (Platform.getByte(null, at + same) & 0xff) - (key(from + same) & 0xff)
    }
  }

  /** How many bytes a row's key begins with like another one, of which the first `known` are known and `most` count. */
  def keyInCommon(row: Int, key: Array[Byte], known: Int, most: Int): Int = {
    val common = math.min(most, keyLength(row))
    if (isInHeap) {
      val start = keyStart(row)
      val differs = Arrays.mismatch(keys, start + known, start + common, key, known, common)
      if (differs < 0) common else known + differs
    } else known + bytesInCommon(keyOffset(row) + known, key, known, common - known)
  }

  private def bytesInCommon(at: Long, key: Array[Byte], from: Int, most: Int): Int = {
    var same = 0
    while (same + 8 <= most && Platform.getLong(null, at + same) == Platform.getLong(key, Platform.BYTE_ARRAY_OFFSET + from + same.toLong)) same += 8
    while (same < most && Platform.getByte(null, at + same) == key(from + same)) same += 1
    same
  }

  /** Four bytes of a row's key from there on, as a number without sign; zeros behind its end. */
  def keyWord(row: Int, from: Int): Long = Rows.wordAt(keyBase, keyOffset(row) + from, keyLength(row) - from) & 0xffffffffL

  def markDead(row: Int): Unit = { live.clear(row); liveCount -= 1; liveBytes -= bytesOf(row) }
  def markLive(row: Int): Unit = { live.set(row); liveCount += 1; liveBytes += bytesOf(row) }
  private def bytesOf(row: Int): Long = if (lazily != null) meanBytes else keyLength(row).toLong + valueLength(row)
  /** Bytes of all keys and values. */
  def usedBytes: Long = keyBytesUsed.toLong + valueBytesUsed
  /** Bytes in a local file. */
  def localBytes: Long = if (isInHeap) 0 else if (lazily != null) lazily.localBytes else usedBytes
  def isSmallerThan(bytes: Int): Boolean = keyBytesUsed < bytes && valueBytesUsed < bytes
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
    append(kind, other.family(row), other.keyArray(row), other.keyFrom(row), other.keyLength(row), other.valueArray(row),
      other.valueFrom(row), other.valueLength(row))

  /** Copy the keys, or values, of some rows in one piece. */
  def copyKeys(from: Int, until: Int, into: Array[Byte], at: Int): Unit =
    Platform.copyMemory(keyBase, keyOffset(from), into, Platform.BYTE_ARRAY_OFFSET + at.toLong, (keyStart(until) - keyStart(from)).toLong)
  def copyValues(from: Int, until: Int, into: Array[Byte], at: Int): Unit =
    Platform.copyMemory(valueBase, valueOffset(from), into, Platform.BYTE_ARRAY_OFFSET + at.toLong, (valueStart(until) - valueStart(from)).toLong)

  /** Give back what was reserved; kinds say nothing once the version is complete. */
  def trim(): Unit = {
    kinds = null
    if (families != null) families = Arrays.copyOf(families, count)
    if (isInHeap) {
      keys = Arrays.copyOf(keys, keyEnds(count))
      values = Arrays.copyOf(values, valueEnds(count))
    }
    dropEqualLengths()
  }

  /** Bytes that [[movedTo]] takes out of the heap: keys and values, or the ends that rows have kept which were moved while they were put. */
  def movableBytes: Long = if (isInHeap) usedBytes else endBytes(keyEnds) + endBytes(valueEnds)

  /** What [[movedTo]] needs to have in a local file, in this order: keys, values, and the ends of those that differ in length. */
  def localParts: Seq[(AnyRef, Long)] = {
    val (keyBytes, valueBytes) = if (isInHeap) (keyStart(count), valueStart(count)) else (0, 0)
    Seq[(AnyRef, Long)]((keys, keyBytes.toLong), (values, valueBytes.toLong), (keyEnds, endBytes(keyEnds)), (valueEnds, endBytes(valueEnds)))
  }

  /** While rows are being put, their ends are asked for as they are. */
  private def endBytes(ends: Array[Int]): Long = if (ends == null || kinds != null) 0 else (count + 1) * 4L

  /**
   * These rows with their bytes in a local file, where [[localParts]] stand at these addresses; the extent is theirs to let go of.
   * Others may still read these ones. What says which rows are live is one for both.
   */
  def movedTo(extent: Extent, addresses: Seq[Long]): Rows = {
    val moved = new Rows(id, 0, 0, 0)
    moved.count = count
    moved.liveCount = liveCount
    moved.liveBytes = liveBytes
    moved.firstOffset = firstOffset
    moved.frames = frames
    moved.storedBytes = storedBytes
    moved.place = place
    moved.families = families
    moved.renewed = renewed
    moved.kinds = kinds
    moved.leastTimes = leastTimes
    moved.timedRows = timedRows
    moved.live = live
    moved.keyWidth = keyWidth
    moved.valueWidth = valueWidth
    moved.keyEnds = if (kinds == null) null else keyEnds
    moved.valueEnds = if (kinds == null) null else valueEnds
    moved.keys = null
    moved.values = null
    moved.keyBytes = keyStart(count)
    moved.valueBytes = valueStart(count)
    if (isInHeap) {
      moved.extent = extent
      moved.keysAt = addresses(0)
      moved.valuesAt = addresses(1)
    } else {
      moved.extent = this.extent
      moved.extent.retain() // these rows let go of it when those take their place
      moved.endsExtent = extent
      moved.keysAt = keysAt
      moved.valuesAt = valuesAt
    }
    moved.keyEndsAt = addresses(2)
    moved.valueEndsAt = addresses(3)
    moved
  }

  /** Nobody reads these rows any more. */
  def letGo(): Unit = {
    if (lazily != null) lazily.letGo()
    if (extent != null) extent.release()
    if (endsExtent != null) endsExtent.release()
  }

  def summary: RowsSummary = RowsSummary(count, firstOffset, storedBytes, keyWidth, valueWidth, keyBytesUsed, valueBytesUsed)
  /** Bit i % 64 of word i / 64 says whether row i is live; no word behind the last live row. */
  def liveBits: Array[Long] = live.toLongArray

  /** Of rows that were decoded: these are live. */
  def setLive(bits: Array[Long]): Unit = {
    kinds = null
    renewed = null
    live = BitSet.valueOf(bits)
    liveCount = live.cardinality
    liveBytes = live.stream.mapToLong(bytesOf(_)).sum
  }

  /** Rows of longs all have one length: then two numbers stand for all ends. */
  private def dropEqualLengths(): Unit = {
    keyWidth = widthOf(keyEnds)
    if (keyWidth >= 0) keyEnds = null else if (keyEnds.length > count + 1) keyEnds = Arrays.copyOf(keyEnds, count + 1)
    valueWidth = widthOf(valueEnds)
    if (valueWidth >= 0) valueEnds = null else if (valueEnds.length > count + 1) valueEnds = Arrays.copyOf(valueEnds, count + 1)
  }

  private def widthOf(ends: Array[Int]): Int = {
    val width = if (count == 0) 0 else ends(1)
    var row = 1
    while (row < count && ends(row + 1) - ends(row) == width) row += 1
    if (row >= count) width else -1
  }

  /** Of rows that are being decoded. */
  private[format] def setFamily(row: Int, family: Short): Unit = {
    if (families == null) { families = new Array[Short](kinds.length); Arrays.fill(families, Format.DefaultFamily.toShort) }
    families(row) = family
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

/** Where a frame of the log is, and how its body is stored. */
private[cecstore] final case class FramePlace(segment: Long, byte: Long, bodyBytes: Int, rawBytes: Int, codec: Byte) {
  def isInBlocks: Boolean = codec == Format.CodecBlocks
}

/** What is known of a frame's rows without reading them; a width is -1 where lengths differ. */
private[cecstore] final case class RowsSummary(
  count: Int, firstOffset: Long, storedBytes: Long, keyWidth: Int, valueWidth: Int, keyBytes: Int, valueBytes: Int) {
  def endOffset: Long = firstOffset + count
  /** Bytes of a row's key and value, on average. */
  def meanBytes: Long = if (count == 0) 0 else (keyBytes.toLong + valueBytes) / count
}

/** Keys and values that come out of the log to a local file when they are asked for; raises CecLogException. */
private[cecstore] trait LazyBytes {
  /** The address of a row's key. */
  def keyAt(row: Int): Long
  def keyLength(row: Int): Int
  def valueAt(row: Int): Long
  def valueLength(row: Int): Int
  /** Bytes that were brought. */
  def localBytes: Long
  /** Nobody asks any more. */
  def letGo(): Unit
}

private[cecstore] object Rows {
  /** Rows of a frame of which nothing was read: their bytes come to this extent when they are asked for. */
  def lazily(id: Int, of: RowsSummary, live: Array[Long], bytes: LazyBytes, extent: Extent): Rows = {
    val rows = new Rows(id, 0, 0, 0)
    rows.count = of.count
    rows.live = BitSet.valueOf(live)
    rows.liveCount = rows.live.cardinality
    rows.meanBytes = of.meanBytes
    rows.liveBytes = rows.liveCount * of.meanBytes
    rows.firstOffset = of.firstOffset
    rows.storedBytes = of.storedBytes
    rows.kinds = null
    rows.keyWidth = of.keyWidth
    rows.valueWidth = of.valueWidth
    rows.keyEnds = null
    rows.valueEnds = null
    rows.keys = null
    rows.values = null
    rows.lazily = bytes
    rows.extent = extent
    rows.keyBytes = of.keyBytes
    rows.valueBytes = of.valueBytes
    rows
  }

  /** Four bytes as a number without sign, of which so many are there; zeros behind them. */
  def wordAt(base: AnyRef, at: Long, bytes: Int): Int = if (bytes >= 4) Integer.reverseBytes(Platform.getInt(base, at)) else {
    var (word, i) = (0, 0)
    while (i < 4) { word = word << 8 | (if (i < bytes) Platform.getByte(base, at + i) & 0xff else 0); i += 1 }
    word
  }

  private val NoTimes = new Array[Long](0)
}
