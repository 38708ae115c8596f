package org.apache.spark.sql.cecstore.log

import java.io.IOException
import java.lang.ref.Cleaner
import java.util.concurrent.atomic.{AtomicLong, AtomicLongArray}
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.{BadFrame, Blocks, BlockTable, DamagedLog, Format, FramePlace, ImagePlaces, LazyBytes, RowsSummary}
import org.apache.spark.sql.cecstore.local.{LocalRoom, LocalSpace}
import org.apache.spark.unsafe.Platform

/**
 * Segments of which single blocks are read for as long as a state lives. Once a read has failed, the state is of no use any
 * more: what asked for the block may have been half done. For any thread.
 */
private[cecstore] final class LoggedInputs(folder: SegmentFolder) {
  private val inputs = new OpenInputs(folder)
  @volatile private var hasFailed_ = false
  LoggedInputs.cleaner.register(this, LoggedInputs.closing(inputs))

  def hasFailed: Boolean = hasFailed_

  /** So many bytes of a frame's body from `from` on. Raises CecLogException. */
  def read(place: FramePlace, from: Int, length: Int): Array[Byte] = synchronized {
    val bytes = inputs(place.segment).read(place.byte + Format.HeaderBytes + from, length)
    if (bytes.length < length) throw new BadFrame("body cut short")
    bytes
  }

  /**
   * Have `work` say where it fails.
   *
   * @param isAsked a task waits for it, which then is half done; else it is tried again once one does
   */
  def reading[A](place: FramePlace, isAsked: Boolean)(work: => A): A = {
    def failed(e: CecLogException): Nothing = { if (isAsked) hasFailed_ = true; throw e }
    try work catch {
      case e: BadFrame => failed(new DamagedLog(folder.pathOf(place.segment), s"byte ${place.byte}: ${e.reason}: the state log is damaged"))
      case e: CecLogException => failed(e)
      case e: IOException => failed(new CecLogException(e.getMessage, e, Map("path" -> folder.pathOf(place.segment))))
    }
  }

  /** No segment stays open, of which maintenance may have deleted the name; one that is asked for is opened again. */
  def close(): Unit = synchronized(inputs.close())
}

private object LoggedInputs {
  /** With a thread of its own: a remote stream may take long to close, and local room is to be free meanwhile. */
  private val cleaner = Cleaner.create()
  private def closing(inputs: OpenInputs): Runnable = () => inputs.close()
}

/** The rows of one frame, brought block by block to a local file. A task and the thread that brings all may want some at once. */
private[cecstore] final class LoggedBytes(inputs: LoggedInputs, place: FramePlace, rows: RowsSummary, room: LocalRoom) extends LazyBytes {
  /** A bit for each block that is here; null until one is asked for. */
  @volatile private var here: AtomicLongArray = null
  private var table: BlockTable = null
  private val hereBytes = new AtomicLong
  private var isOver = false

  override def localBytes: Long = hereBytes.get
  override def letGo(): Unit = synchronized { isOver = true }

  override def keyAt(row: Int): Long = { val in = blockOf(row); room.address + in.keys + in.keyEnds.start(row) }
  override def keyLength(row: Int): Int = blockOf(row).keyEnds.length(row)
  override def valueLength(row: Int): Int = blockOf(row).valueEnds.length(row)
  override def valueAt(row: Int): Long = {
    val in = blockOf(row)
    room.address + in.keys + in.keyEnds.all + in.valueEnds.start(row)
  }

  /** The row's block, which then is here. */
  private def blockOf(row: Int): Here = {
    if (row < 0 || row >= rows.count) throw new IndexOutOfBoundsException(s"row $row of ${rows.count}")
    if (here == null) open(isAsked = true)
    val block = row / table.rowsPerBlock
    if (!isHere(block)) fetch(block, isAsked = true)
    new Here(block)
  }

  /** A block in the room, in which lengths have become ends. */
  private final class Here(block: Int) {
    private val n = table.rowsIn(block)
    private val places = new ImagePlaces(table.images(block), n)
    val keys: Int = places.keys
    private val bytes = table.images(block + 1) - keys
    val keyEnds = new Ends(places.keyLengths, n, rows.keyWidth, bytes)
    val valueEnds = new Ends(places.valueLengths, n, rows.valueWidth, bytes - keyEnds.all)
  }

  /**
   * Where the keys or the values of a block end, which take so many bytes at most: a thread that comes late may read what others
   * have put into the room since.
   */
  private final class Ends(at: Int, n: Int, width: Int, bytesMax: Int) {
    private def end(rowInBlock: Int): Int = if (width >= 0) (rowInBlock + 1) * width else {
      val end = Platform.getInt(null, room.address + at + rowInBlock * 4L)
      if (end < 0 || end > bytesMax) throw new IndexOutOfBoundsException(s"row $rowInBlock of a block ends at $end of $bytesMax bytes")
      end
    }
    def all: Int = end(n - 1)
    def start(row: Int): Int = { val inBlock = row % table.rowsPerBlock; if (inBlock == 0) 0 else end(inBlock - 1) }
    def length(row: Int): Int = {
      val length = end(row % table.rowsPerBlock) - start(row)
      if (length < 0) throw new IndexOutOfBoundsException(s"row $row ends before it begins")
      length
    }
  }

  /** All that is not here yet; false once nobody asks any more. */
  def bringAll(): Boolean = {
    synchronized { if (isOver) return false else if (here == null) open(isAsked = false) }
    var block = 0
    while (block < table.count && { if (!isHere(block)) synchronized { if (isOver) return false else fetch(block, isAsked = false) }; true }) block += 1
    true
  }

  private def isHere(block: Int): Boolean = (here.get(block >>> 6) & (1L << block)) != 0

  /** Once all is here. */
  def closeInputs(): Unit = inputs.close()

  private def open(isAsked: Boolean): Unit = synchronized {
    if (here == null) inputs.reading(place, isAsked) {
      val perBlock = Blocks.rowsPerBlock(inputs.read(place, 0, math.min(Blocks.HeadBytes, place.bodyBytes)))
      val head = inputs.read(place, 0, math.min(Blocks.headBytes(rows.count, perBlock), place.bodyBytes))
      table = Blocks.table(head, rows.count, place.bodyBytes, place.rawBytes)
      here = new AtomicLongArray((table.count + 63) >>> 6)
    }
  }

  private def fetch(block: Int, isAsked: Boolean): Unit = synchronized {
    if (isOver) throw new CecLogException("a thread of a task that has ended still reads its state")
    if (!isHere(block)) inputs.reading(place, isAsked) {
      val image = Blocks.image(table, block, inputs.read(place, table.places(block), table.storedBytes(block)))
      check(block, image)
      room.write(table.images(block), image, image.length)
      here.set(block >>> 6, here.get(block >>> 6) | 1L << block)
      hereBytes.addAndGet(image.length)
      LoggedBytes.blocksRead.incrementAndGet()
    }
  }

  /** Make ends of the lengths in an image, which have to be as the directory says. */
  private def check(block: Int, image: Array[Byte]): Unit = {
    val n = table.rowsIn(block)
    val places = new ImagePlaces(0, n)
    def isOf(width: Int, bytes: Long): Boolean = width < 0 || bytes == n.toLong * width
    val isRoom = places.keys <= image.length
    val (keys, values) = if (isRoom) (toEnds(image, places.keyLengths, n), toEnds(image, places.valueLengths, n)) else (0L, 0L)
    val isSound = isRoom && keys + values == image.length - places.keys && isOf(rows.keyWidth, keys) && isOf(rows.valueWidth, values)
    if (!isSound) throw new BadFrame(s"body: the $n rows of block $block do not take its ${image.length} bytes")
  }

  /** Make ends of lengths; returns the last one. */
  private def toEnds(image: Array[Byte], lengths: Int, n: Int): Long = {
    var end = 0L
    var row = 0
    while (row < n) {
      val at = Platform.BYTE_ARRAY_OFFSET + lengths + row * 4L
      end += Platform.getInt(image, at) & 0xffffffffL
      Platform.putInt(image, at, end.toInt)
      row += 1
    }
    end
  }
}

private[cecstore] object LoggedBytes {
  /** In this process. */
  val blocksRead = new AtomicLong

  /** Raises an IOException where there is no room. */
  def in(space: LocalSpace, inputs: LoggedInputs, place: FramePlace, rows: RowsSummary): (LoggedBytes, LocalRoom) = {
    val room = space.reserve(place.rawBytes)
    (new LoggedBytes(inputs, place, rows, room), room)
  }
}
