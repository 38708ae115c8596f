package org.apache.spark.sql.cecstore.columns

import scala.collection.mutable
import org.apache.arrow.vector.types.pojo.Field
import org.apache.spark.sql.cecstore.format.{BadFrame, Format, FrameHeader}
import org.apache.spark.sql.vectorized.ColumnVector
import org.apache.spark.unsafe.Platform

/**
 * Takes frames of one record schema apart, into columns of Spark. What it returns is valid until the next frame.
 * Nothing in a frame is believed that is not proven, whoever wrote it. docs/format.md §6. For one thread.
 *
 * @param fields the record schema
 */
private[cecstore] final class FrameColumns(fields: IndexedSeq[Field]) extends AutoCloseable {
  private val inflater = new Inflater
  private val plain = Layout.of(fields, Map.empty)
  private val strings = Layout.strings(plain)
  // Frames of one writer hardly differ in what they store as dictionaries.
  private val layouts = mutable.Map.empty[Map[Int, Int], IndexedSeq[Layout]]

  private var message: BatchMessage = _
  private var columns: IndexedSeq[Layout] = plain
  private var decoder: ColumnDecoder = _
  private var rows = 0

  /** Go to a frame whose header is proven; its body stands in `bytes` from `from` on. */
  def open(header: FrameHeader, bytes: Array[Byte], from: Int): Unit = guarded {
    inflater.scratch.rewind()
    rows = header.recordCount
    val end = from + header.bodyBytes
    header.codec match {
      case Format.CodecColumns => openByColumns(bytes, from, end, header.rawBytes)
      case codec => openWhole(header, codec, bytes, from)
    }
    if (message.rows != rows) throw new BadFrame(s"body has ${message.rows} records, its header says $rows")
    if (message.nodes != columns.lastOption.fold(0)(_.endNumber) ||
        message.buffers != columns.lastOption.fold(0)(_.endBuffer)) {
      throw new BadFrame(s"body: ${message.nodes} fields and ${message.buffers} buffers are not those of the schema")
    }
  }

  private def openWhole(header: FrameHeader, codec: Byte, bytes: Array[Byte], from: Int): Unit = {
    if (codec == Format.CodecBlocks) throw new BadFrame("body: in blocks, which only state logs have")
    val raw =
      if (codec != Format.CodecNone) inflater.inflate(bytes, from, header.bodyBytes, header.rawBytes)
      else if (header.bodyBytes == header.rawBytes) new ByteSpan(bytes, from, header.bodyBytes)
      else throw new BadFrame(s"body of ${header.bodyBytes} bytes, its header says ${header.rawBytes}")
    val end = raw.from + header.rawBytes
    message = BatchMessage.read(raw.array, raw.from, end, -1, isCompressed = false, inflater).batch
    columns = layoutOf(Map.empty)
    decoder = new ColumnDecoder(message, inflater.scratch, Map.empty)
  }

  private def openByColumns(bytes: Array[Byte], from: Int, end: Int, rawBytes: Int): Unit = {
    val listed = readListed(bytes, from, end)
    var at = from + 8 + listed.size * 8
    var left = rawBytes.toLong
    def next(dictionary: Int): BatchMessage = {
      val found = BatchMessage.read(bytes, at, end, dictionary, isCompressed = true, inflater)
      left -= found.batch.claimedBytes(rawBytes)
      if (left < 0) throw new BadFrame(s"body: buffers claim more than the $rawBytes bytes of its header")
      at = found.end
      found.batch
    }
    val dictionaries = listed.indices.map(next)
    message = next(-1)
    if (at != end) throw new BadFrame(s"body: ${end - at} bytes behind its record batch")
    columns = layoutOf(listed.toMap)
    decoder = new ColumnDecoder(message, inflater.scratch, listed.map(_._1).zip(dictionaries).toMap)
  }

  /** Which fields are stored as dictionary and indices, and the bytes of an index, in order. */
  private def readListed(bytes: Array[Byte], from: Int, end: Int): IndexedSeq[(Int, Int)] = {
    def intAt(at: Int) = Platform.getInt(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + at)
    if (end - from < 8) throw new BadFrame("body: cut short")
    val count = intAt(from)
    if (count < 0 || count > strings.size || intAt(from + 4) != 0 || end - from < 8 + count * 8) {
      throw new BadFrame(s"body: $count dictionaries of ${strings.size} fields with strings")
    }
    var last = -1
    (0 until count).map { k =>
      val at = from + 8 + k * 8
      val (number, indexBytes, rest) = (intAt(at), bytes(at + 4).toInt, intAt(at + 4) >>> 8)
      val isKnown = strings(number) && (indexBytes == 1 || indexBytes == 2 || indexBytes == 4) && rest == 0
      if (!isKnown || number <= last) throw new BadFrame(
          s"body: a dictionary of field $number with $indexBytes-byte indices")
      last = number
      (number, indexBytes)
    }
  }

  private def layoutOf(listed: Map[Int, Int]): IndexedSeq[Layout] =
    layouts.getOrElseUpdate(listed, Layout.of(fields, listed))

  /** How many nulls a column has in the frame, as it says itself. */
  def nullsIn(part: Part): Long = guarded(decoder.nullsIn(columns(part.place)))

  /** A column of the frame, or what is asked for of it; nothing else is decompressed. */
  def column(part: Part): ColumnVector = guarded(decoder.column(columns(part.place), rows, part))

  /** The values of a column of numbers, by its place, without nulls. */
  def numbers(place: Int, width: Int): ByteSpan = guarded(decoder.numbers(columns(place), rows, width))

  /** What Arrow's and flatbuffers' own code raises on bytes that are not what they claim. */
  private def guarded[A](act: => A): A = try act catch {
    case e @ (_: IndexOutOfBoundsException | _: NegativeArraySizeException | _: IllegalArgumentException |
        _: ClassCastException | _: NullPointerException) => throw new BadFrame(s"body: $e")
  }

  override def close(): Unit = inflater.close()
}
