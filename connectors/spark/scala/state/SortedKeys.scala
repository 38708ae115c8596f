package org.apache.spark.sql.cecstore.state

import java.util.{Arrays, PriorityQueue}
import scala.collection.mutable.ArrayBuffer
import org.apache.spark.sql.cecstore.format.{BadFrame, Format, Rows, ZstdFrames}
import org.apache.spark.sql.cecstore.keys.{OrderedIndex, RowsTable}
import org.apache.spark.unsafe.Platform

/** A block of a sorted run: how many rows, and how long their keys and the stored block are. */
private[state] final case class SortedBlock(rows: Int, keyBytes: Int, storedBytes: Int) {
  def rawBytes: Long = rows.toLong * SortedBlock.RowBytes + keyBytes
}

private[state] object SortedBlock {
  /** Of a row beside its key: its frame, its number there, and the length of the key. */
  val RowBytes = 12
  val KeyBytesMax: Int = 256 << 10
}

/** Some rows of one family in the order of their keys, of equal keys the older first. docs/format.md §16. */
private[state] final case class SortedRun(family: Int, blocks: Seq[SortedBlock]) {
  def rows: Long = blocks.iterator.map(_.rows.toLong).sum
  def storedBytes: Long = blocks.iterator.map(_.storedBytes.toLong).sum
}

/**
 * Puts the keys of these families in order, frame by frame. Compressed, they are in the heap until they are written; of more than
 * the heap may have of them there are none, and loads read these keys from the rows.
 */
private[state] final class SortedRunsWriter(families: Set[Int]) {
  val runs = ArrayBuffer.empty[SortedRun]
  val blocks = ArrayBuffer.empty[Array[Byte]]
  private var storedBytes = 0L
  private val unsorted = families.toSeq.sorted.map(new UnsortedKeys(_))

  /** Take the rows of the next frame, which has this number in the file. */
  def add(frame: Int, rows: Rows): Unit = unsorted.foreach { of =>
    var row = 0
    while (row < rows.count) {
      if (rows.family(row) == of.family) {
        if (of.isFull) write(of)
        of.add(frame, row, rows)
      }
      row += 1
    }
  }

  def finish(): Unit = unsorted.foreach(write)

  private def write(of: UnsortedKeys): Unit = {
    val written = of.taken()
    storedBytes += written.iterator.map(_._1.storedBytes.toLong).sum
    if (storedBytes > SortedKeys.storedBytesMax) { runs.clear(); blocks.clear() }
    else if (written.nonEmpty) {
      blocks ++= written.map(_._2)
      runs += SortedRun(of.family, written.map(_._1).toVector)
    }
  }
}

private final class UnsortedKeys(val family: Int) {
  import SortedBlock.{KeyBytesMax, RowBytes}
  import SortedKeys.{blockRowsMax, unsortedBytesMax}

  private var keys = new Array[Byte](1 << 12)
  private var ends = new Array[Int](1 << 8)
  /** The frame in the upper half, and the row. */
  private var places = new Array[Long](1 << 8)
  private var count = 0

  def isFull: Boolean = ends(count) + count.toLong * RowBytes >= unsortedBytesMax

  def add(frame: Int, row: Int, rows: Rows): Unit = {
    val (start, length) = (ends(count), rows.keyLength(row))
    val end = Math.addExact(start, length)
    if (end > keys.length) keys = Arrays.copyOf(keys, math.max(end, keys.length * 2))
    if (count + 1 == ends.length) { ends = Arrays.copyOf(ends, ends.length * 2); places = Arrays.copyOf(places, places.length * 2) }
    System.arraycopy(rows.keyArray(row), rows.keyFrom(row), keys, start, length)
    places(count) = frame.toLong << 32 | row
    count += 1
    ends(count) = end
  }

  /** All of them in order, block by block; there are none then. */
  def taken(): Seq[(SortedBlock, Array[Byte])] = {
    val order = Array.tabulate[Integer](count)(Integer.valueOf(_))
    // Of equal keys the one that was added first stays before the others.
    Arrays.sort(order, (a: Integer, b: Integer) => Arrays.compareUnsigned(keys, ends(a), ends(a + 1), keys, ends(b), ends(b + 1)))
    val made = ArrayBuffer.empty[(SortedBlock, Array[Byte])]
    var at = 0
    while (at < count) {
      val from = at
      var keyBytes = 0
      while (at < count && at - from < blockRowsMax && keyBytes < KeyBytesMax) { keyBytes += length(order(at)); at += 1 }
      made += block(order.slice(from, at), keyBytes)
    }
    count = 0
    made.toSeq
  }

  private def length(number: Int): Int = ends(number + 1) - ends(number)

  private def block(numbers: Array[Integer], keyBytes: Int): (SortedBlock, Array[Byte]) = {
    val out = Format.littleEndian(new Array[Byte](Math.toIntExact(numbers.length.toLong * RowBytes + keyBytes)))
    numbers.foreach(number => out.putInt((places(number) >>> 32).toInt))
    numbers.foreach(number => out.putInt(places(number).toInt))
    numbers.foreach(number => out.putInt(length(number)))
    numbers.foreach(number => out.put(keys, ends(number), length(number)))
    val stored = ZstdFrames.compressing(1)(_.compress(out.array))
    (SortedBlock(numbers.length, keyBytes, stored.length), stored)
  }
}

/** The rows of a sorted run, one after the other. */
private final class SortedCursor(file: KeyFile, run: SortedRun) {
  import SortedBlock.RowBytes

  private val blocks = run.blocks.iterator
  private var at = file.placeOf(run)
  private var rows, row = 0
  /** Of each row of the block its frame, its number there, and the length of its key, one column after the other. */
  private var columns = Array.emptyIntArray
  /** The block, and where the key of the row is in it. */
  var raw = Array.emptyByteArray
  var keyAt, keyLength = 0

  def frame: Int = columns(row)
  def rowInFrame: Int = columns(rows + row)

  /** Whether there is another row, which then is the one at hand. Raises BadFrame. */
  def next(): Boolean = {
    row += 1
    keyAt += keyLength
    while (row >= rows) {
      if (!blocks.hasNext) return false
      take(blocks.next())
    }
    keyLength = columns(2 * rows + row)
    if (keyLength < 0 || keyLength > raw.length - keyAt) throw new BadFrame("a block of sorted keys is shorter than they are")
    true
  }

  private def take(next: SortedBlock): Unit = {
    raw = ZstdFrames.inflate(file.read(at, next.storedBytes), next.rawBytes.toInt)
    at += next.storedBytes
    rows = next.rows
    row = 0
    keyAt = rows * RowBytes
    columns = new Array[Int](keyAt / 4)
    Platform.copyMemory(raw, Platform.BYTE_ARRAY_OFFSET, columns, Platform.INT_ARRAY_OFFSET, keyAt)
  }
}

private[cecstore] object SortedKeys {
  /** Of keys that are put in order together, and of rows in a block. Tests lower both. */
  @volatile private[cecstore] var unsortedBytesMax: Int = 16 << 20
  @volatile private[cecstore] var blockRowsMax: Int = 4096
  /** Of compressed keys in the heap, in one run of maintenance. Tests lower it. */
  @volatile private[cecstore] var storedBytesMax: Long = Runtime.getRuntime.maxMemory / 16

  /**
   * The index of a family, made of the sorted runs of all of its keys: no row is read. Raises BadFrame where they are not in order,
   * or not the keys of these rows.
   *
   * @param keys the files that have them, oldest first
   * @param rows of the newest frames of these files
   * @param live how many of them are live in this family
   */
  private[state] def index(table: RowsTable, family: Int, keys: Seq[KeyFile], rows: Seq[Rows], live: Int): OrderedIndex = {
    val merged = new PriorityQueue[Source]((a: Source, b: Source) => a.compare(b))
    val ofFrames = rows.toArray
    var first = rows.size - keys.map(_.frames.size).sum
    keys.foreach { file =>
      val counts = file.frames.map(_.rows.count).toArray
      file.runs.filter(_.family == family).foreach { run =>
        val source = new Source(new SortedCursor(file, run), counts, first, ofFrames, family)
        if (source.next()) merged.add(source)
      }
      first += file.frames.size
    }
    val made = new OrderedIndex.Builder(table)
    while (!merged.isEmpty) {
      val source = merged.poll()
      val cursor = source.cursor
      if (!made.add(source.reference, cursor.raw, cursor.keyAt, cursor.keyLength)) throw new BadFrame("sorted keys are not in order")
      if (source.next()) merged.add(source)
    }
    if (made.size != live) throw new BadFrame(s"sorted runs have ${made.size} live keys of family $family, there are $live")
    made.result
  }

  /**
   * The live rows of a run.
   *
   * @param counts of the rows of each frame of its file
   * @param first where the first of these frames is in `ofFrames`
   */
  private final class Source(val cursor: SortedCursor, counts: Array[Int], first: Int, ofFrames: Array[Rows], family: Int) {
    var reference = 0L

    def next(): Boolean = {
      while (cursor.next()) {
        val (frame, row) = (cursor.frame, cursor.rowInFrame)
        if (frame < 0 || frame >= counts.length || row < 0 || row >= counts(frame)) throw new BadFrame(s"sorted keys speak of row $row of frame $frame")
        val number = first + frame
        if (number >= 0 && ofFrames(number).isLive(row)) {
          val rows = ofFrames(number)
          if (rows.family(row) != family) throw new BadFrame(s"a sorted run of family $family has a row of another one")
          reference = rows.reference(row)
          return true
        }
      }
      false
    }

    def compare(other: Source): Int = Arrays.compareUnsigned(cursor.raw, cursor.keyAt, cursor.keyAt + cursor.keyLength,
      other.cursor.raw, other.cursor.keyAt, other.cursor.keyAt + other.cursor.keyLength)
  }
}
