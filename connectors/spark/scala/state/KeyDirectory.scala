package org.apache.spark.sql.cecstore.state

import java.nio.{BufferUnderflowException, ByteBuffer, ByteOrder}
import java.nio.charset.StandardCharsets.UTF_8
import org.apache.spark.sql.cecstore.format.{BadFrame, Format, FramePlace, NewerFrame, Rows, RowsSummary}
import org.apache.spark.sql.cecstore.keys.{KeyRun, RowsTable, RunLayout}
import org.apache.spark.sql.cecstore.log.FrameAt

/**
 * A state without its rows.
 *
 * @param rows of each frame of the extent, oldest first
 * @param runs of each family its index, over these rows
 * @param timesOf whose least times the rows have
 */
private[state] final case class DirectoryState(
    openWindows: Long, endOffset: Long, rows: Seq[Rows], runs: Seq[(Int, KeyRun)], timesOf: Option[String])

/** The frame at whose end the state of a directory stands. */
private[state] final case class DirectoryEnd(segment: Long, byte: Long, seq: Long, runningCrc: Int, version: Long) {
  def isAt(frame: FrameAt): Boolean = frame.segment.id == segment && frame.byte == byte && frame.runningCrc == runningCrc
}

private[state] object DirectoryEnd {
  def of(last: FrameAt): DirectoryEnd =
    DirectoryEnd(last.segment.id, last.byte, last.header.seq, last.runningCrc, last.header.inputUpto)
}

/** What a directory says of a frame: where it is, and what is known of its rows. */
private[state] final case class DirectoryFrame(
    place: FramePlace, rows: RowsSummary, live: Array[Long], timedRows: Int, leastTimes: Array[Long], families: Array[Short])

/** What it says of an index; rows count back from the newest frame: `below` from the first that the run can name. */
private[state] final case class DirectoryRun(family: Int, entries: Int, spread: Int, slots: Int, below: Int, idBits: Int, rowBits: Int) {
  def layout: RunLayout = RunLayout(spread, slots, RowsTable.NewestLoadedId - below, idBits, rowBits)
}

/** A file beside the log that says where the newest row of each key is: docs/format.md §16. */
private[state] final case class KeyDirectory(
    end: DirectoryEnd, openWindows: Long, endOffset: Long, timesOf: Option[String], frames: Seq[DirectoryFrame], runs: Seq[DirectoryRun]) {
  /** Where in the file the slots of each run begin. */
  def slotsAt(headBytes: Long): Seq[Long] =
    runs.scanLeft(KeyDirectory.HeaderBytes + headBytes)((at, run) => at + KeyDirectory.LengthBytes + run.layout.bytes + KeyDirectory.CrcBytes)
      .map(_ + KeyDirectory.LengthBytes)
}

private[state] object KeyDirectory {
  private val Magic = 0x4b434543 // CECK
  private val Version: Short = 1
  val HeaderBytes = 24
  val CrcBytes = 4
  val LengthBytes = 8

  /** The bytes of the file for the state at the end of `last`, piece by piece. */
  def encoded(last: FrameAt, state: DirectoryState): Iterator[Array[Byte]] = {
    val newest = state.rows.last.id
    val out = new HeadBytes
    val end = DirectoryEnd.of(last)
    out.long(end.segment).long(end.byte).long(end.seq).int(end.runningCrc).long(end.version).long(state.openWindows).long(state.endOffset)
    val times = state.timesOf.getOrElse("").getBytes(UTF_8)
    out.int(times.length).bytes(times)
    out.int(state.rows.size)
    state.rows.foreach(addFrame(out, _, state.timesOf.nonEmpty))
    out.int(state.runs.size)
    state.runs.foreach { case (family, run) =>
      val layout = run.layout
      out.int(family).int(run.entries).int(layout.spread).int(layout.slots).int(newest - layout.firstId).int(layout.idBits).int(layout.rowBits)
    }
    val head = out.taken
    Iterator(header(head), head) ++ state.runs.iterator.flatMap { case (_, run) => sealedSlots(run) }
  }

  private def addFrame(out: HeadBytes, rows: Rows, hasTimes: Boolean): Unit = {
    val (place, of) = (Option(rows.place).getOrElse(FramePlace(Format.NoSegment, 0, 0, 0, Format.CodecNone)), rows.summary)
    out.long(place.segment).long(place.byte).int(place.bodyBytes).int(place.rawBytes).int(place.codec)
    out.int(of.count).int(of.liveCount).long(of.liveBytes).long(of.firstOffset).long(of.storedBytes)
    out.int(of.keyWidth).int(of.valueWidth).int(of.keyBytes).int(of.valueBytes)
    out.longs(rows.liveBits)
    out.int(if (hasTimes) rows.timedRows else 0).longs(if (hasTimes) rows.leastTimes else Array.empty[Long])
    out.int(if (rows.families == null) 0 else 1)
    if (rows.families != null) (0 until of.count).foreach(row => out.short(rows.families(row)))
  }

  private def header(head: Array[Byte]): Array[Byte] = {
    val header = Format.littleEndian(new Array[Byte](HeaderBytes))
    header.putInt(Magic).putShort(Version).putShort(0).putLong(head.length).putInt(Format.crc32c(head, head.length))
    header.putInt(Format.crc32c(header.array, HeaderBytes - CrcBytes))
    header.array
  }

  private def sealedSlots(run: KeyRun): Iterator[Array[Byte]] = {
    val crc = new java.util.zip.CRC32C
    Iterator(Format.littleEndian(new Array[Byte](LengthBytes)).putLong(run.layout.bytes).array) ++
      run.slotBytes.map { bytes => crc.update(bytes); bytes } ++
      Iterator(() => Format.littleEndian(new Array[Byte](CrcBytes)).putInt(crc.getValue.toInt).array).map(_())
  }

  /** How many bytes the head has behind this header. Raises BadFrame. */
  def headBytes(header: Array[Byte]): Int = {
    val in = Format.littleEndian(header)
    if (header.length < HeaderBytes || in.getInt(0) != Magic || !Format.isSealed(header)) throw new BadFrame("no key directory, or its header is damaged")
    if (in.getShort(4) != Version || in.getShort(6) != 0) throw new NewerFrame(s"a key directory of version ${in.getShort(4)}")
    Math.toIntExact(in.getLong(8))
  }

  /** What the head says. Raises BadFrame. */
  def decoded(header: Array[Byte], head: Array[Byte]): KeyDirectory = {
    if (head.length < headBytes(header) || Format.crc32c(head, head.length) != Format.littleEndian(header).getInt(16)) {
      throw new BadFrame("the head of a key directory fails its checksum")
    }
    try decoded(Format.littleEndian(head)) catch {
      case e @ (_: BufferUnderflowException | _: NegativeArraySizeException) => throw new BadFrame(s"the head of a key directory: $e")
    }
  }

  private def decoded(in: ByteBuffer): KeyDirectory = {
    val end = DirectoryEnd(in.getLong, in.getLong, in.getLong, in.getInt, in.getLong)
    val (openWindows, endOffset) = (in.getLong, in.getLong)
    val times = new Array[Byte](in.getInt)
    in.get(times)
    val frames = Vector.fill(in.getInt)(frame(in))
    val runs = Vector.fill(in.getInt)(DirectoryRun(in.getInt, in.getInt, in.getInt, in.getInt, in.getInt, in.getInt, in.getInt))
    val directory = KeyDirectory(end, openWindows, endOffset, Option.when(times.nonEmpty)(new String(times, UTF_8)), frames, runs)
    val (live, entries) = (frames.map(_.rows.liveCount.toLong).sum, runs.map(_.entries.toLong).sum)
    if (live != openWindows || entries != openWindows || frames.isEmpty) throw new BadFrame(
      s"a key directory of $openWindows windows has $entries entries and $live live rows")
    directory
  }

  private def frame(in: ByteBuffer): DirectoryFrame = {
    val place = FramePlace(in.getLong, in.getLong, in.getInt, in.getInt, in.getInt.toByte)
    val rows = RowsSummary(in.getInt, in.getInt, in.getLong, in.getLong, in.getLong, in.getInt, in.getInt, in.getInt, in.getInt)
    val live = longs(in)
    val (timedRows, leastTimes) = (in.getInt, longs(in))
    val families = if (in.getInt == 0) null else Array.fill(rows.count)(in.getShort)
    DirectoryFrame(place, rows, live, timedRows, leastTimes, families)
  }

  private def longs(in: ByteBuffer): Array[Long] = {
    val read = new Array[Long](in.getInt)
    in.asLongBuffer.get(read)
    in.position(in.position() + read.length * 8)
    read
  }
}

/** A head in the making. */
private final class HeadBytes {
  private var out = ByteBuffer.allocate(1 << 16).order(ByteOrder.LITTLE_ENDIAN)

  private def room(bytes: Int): ByteBuffer = {
    if (out.remaining < bytes) {
      val larger = ByteBuffer.allocate(Math.toIntExact(math.max(out.capacity * 2L, out.position() + bytes.toLong))).order(ByteOrder.LITTLE_ENDIAN)
      out.flip()
      out = larger.put(out)
    }
    out
  }

  def short(value: Short): HeadBytes = { room(2).putShort(value); this }
  def int(value: Int): HeadBytes = { room(4).putInt(value); this }
  def long(value: Long): HeadBytes = { room(8).putLong(value); this }
  def bytes(values: Array[Byte]): HeadBytes = { room(values.length).put(values); this }
  /** Behind how many there are. */
  def longs(values: Array[Long]): HeadBytes = {
    int(values.length)
    room(values.length * 8)
    values.foreach(out.putLong)
    this
  }
  def taken: Array[Byte] = java.util.Arrays.copyOf(out.array, out.position())
}
