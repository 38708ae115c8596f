package org.apache.spark.sql.cecstore.log

import java.io.IOException
import java.util.concurrent.atomic.{AtomicInteger, AtomicLong, AtomicLongArray}
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.{BadFrame, Blocks, DamagedLog, Format, FramePlace, LazyBytes, RowsAddresses, RowsSummary, ZstdFrames}
import org.apache.spark.sql.cecstore.local.{LocalRoom, LocalSpace}
import org.apache.spark.unsafe.Platform

/**
 * Segments of which single blocks are read for as long as a state lives. Once a read has failed, the state is of no use any
 * more: what asked for the block may have been half done. For any thread.
 */
private[cecstore] final class LoggedInputs(folder: SegmentFolder) {
  private val inputs = new OpenInputs(folder)
  @volatile private var hasFailed_ = false
  LocalSpace.cleaner.register(this, LoggedInputs.closing(inputs))

  def hasFailed: Boolean = hasFailed_

  /** So many bytes of a frame's body from `from` on. Raises CecLogException. */
  def read(place: FramePlace, from: Int, length: Int): Array[Byte] = synchronized {
    val bytes = inputs(place.segment).read(place.byte + Format.HeaderBytes + from, length)
    if (bytes.length < length) throw new BadFrame("body cut short")
    bytes
  }

  /** Have `work` say where it fails. */
  def reading[A](place: FramePlace)(work: => A): A = try work catch {
    case e: BadFrame => failed(new DamagedLog(folder.pathOf(place.segment), s"byte ${place.byte}: ${e.reason}: the state log is damaged"))
    case e: CecLogException => failed(e)
    case e: IOException => failed(new CecLogException(e.getMessage, e, Map("path" -> folder.pathOf(place.segment))))
  }

  private def failed(e: CecLogException): Nothing = { hasFailed_ = true; throw e }
}

private object LoggedInputs {
  private def closing(inputs: OpenInputs): Runnable = () => inputs.close()
}

/** The rows of one frame, brought block by block to a local file. A task and the thread that brings all may want some at once. */
private[cecstore] final class LoggedBytes(inputs: LoggedInputs, place: FramePlace, rows: RowsSummary, room: LocalRoom) extends LazyBytes {
  private val blocks = Blocks.countOf(place.rawBytes)
  private val here = new AtomicLongArray((blocks + 63) >>> 6)
  private val hereCount = new AtomicInteger
  private val (keyEndsAt, valueEndsAt) = LoggedBytes.endsAt(place, rows)
  @volatile private var hasEnds = rows.keyWidth >= 0 && rows.valueWidth >= 0
  private var places: Array[Int] = null
  private var isOver = false

  val addresses: RowsAddresses = RowsAddresses(room.address + place.inBody.keys, room.address + place.inBody.values,
    room.address + keyEndsAt, room.address + valueEndsAt)

  override def localBytes: Long = hereCount.get.toLong * Blocks.blockBytes
  override def bringKeys(from: Int, length: Int): Unit = bring(place.inBody.keys + from, length)
  override def bringValues(from: Int, length: Int): Unit = bring(place.inBody.values + from, length)
  override def letGo(): Unit = synchronized { isOver = true }

  /** All that is not here yet; false once nobody asks any more. */
  def bringAll(): Boolean = {
    var block = 0
    while (block < blocks && { if (!isHere(block)) synchronized { if (isOver) return false else fetch(block) }; true }) block += 1
    if (!hasEnds) synchronized { if (isOver) return false else bringEnds() }
    true
  }

  private def isHere(block: Int): Boolean = (here.get(block >>> 6) & (1L << block)) != 0

  private def bring(from: Int, length: Int): Unit = if (length > 0) {
    var block = from / Blocks.blockBytes
    val last = (from + length - 1) / Blocks.blockBytes
    while (block <= last) { if (!isHere(block)) fetch(block); block += 1 }
  }

  private def fetch(block: Int): Unit = synchronized {
    if (isOver) throw new CecLogException("a thread of a task that has ended still reads its state")
    if (!isHere(block)) inputs.reading(place) {
      if (places == null) places = Blocks.placesIn(inputs.read(place, 0, Blocks.tableBytes(place.rawBytes)), 0, place.bodyBytes, place.rawBytes)
      val stored = inputs.read(place, places(block), places(block + 1) - places(block))
      val raw = ZstdFrames.inflate(stored, Blocks.sizeOf(block, place.rawBytes))
      room.write(block.toLong * Blocks.blockBytes, raw, raw.length)
      here.set(block >>> 6, here.get(block >>> 6) | 1L << block)
      hereCount.incrementAndGet()
      LoggedBytes.blocksRead.incrementAndGet()
    }
  }

  override def bringEnds(): Unit = if (!hasEnds) synchronized {
    if (!hasEnds) {
      if (rows.keyWidth < 0) bringEnds(place.inBody.keyLengths, rows.keyBytes, keyEndsAt)
      if (rows.valueWidth < 0) bringEnds(place.inBody.valueLengths, rows.valueBytes, valueEndsAt)
      hasEnds = true
    }
  }

  private def bringEnds(lengthsAt: Int, bytes: Int, endsAt: Long): Unit = {
    bring(lengthsAt, (rows.count + 1) * 4)
    inputs.reading(place) {
      val ends = Format.littleEndian(new Array[Byte]((rows.count + 1) * 4))
      var end = 0
      (1 to rows.count).foreach { row =>
        end += Platform.getInt(null, room.address + lengthsAt + row * 4L)
        ends.putInt(row * 4, end)
      }
      if (end != bytes) throw new BadFrame(s"body: its rows end at $end of $bytes bytes")
      room.write(endsAt, ends.array, ends.capacity)
    }
  }
}

private[cecstore] object LoggedBytes {
  /** In this process. */
  val blocksRead = new AtomicLong

  /** Where in its room ends of keys and values are, behind the body before compression. */
  private def endsAt(place: FramePlace, rows: RowsSummary): (Long, Long) = {
    val keys = (place.rawBytes + 7L) & ~7L
    (keys, keys + (if (rows.keyWidth < 0) (rows.count + 1) * 4L else 0))
  }

  /** Raises an IOException where there is no room. */
  def in(space: LocalSpace, inputs: LoggedInputs, place: FramePlace, rows: RowsSummary): (LoggedBytes, LocalRoom) = {
    val room = space.reserve(endsAt(place, rows)._2 + (if (rows.valueWidth < 0) (rows.count + 1) * 4L else 0))
    (new LoggedBytes(inputs, place, rows, room), room)
  }
}
