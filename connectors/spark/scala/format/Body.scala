package org.apache.spark.sql.cecstore.format

import java.nio.ByteBuffer
import java.util.Arrays
import com.google.flatbuffers.FlatBufferBuilder
import org.apache.arrow.flatbuf.{Buffer, FieldNode, Message, MessageHeader, MetadataVersion, RecordBatch}
import org.apache.arrow.vector.types.TimeUnit
import org.apache.arrow.vector.types.pojo.{ArrowType, Field, FieldType, Schema}
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.unsafe.Platform

/** A frame's body as stored. */
private[cecstore] final case class StoredBody(bytes: Array[Byte], rawBytes: Int, codec: Byte)

/**
 * Rows to the Arrow record batch message of a state log and back (docs/format.md §9). The columns in memory
 * are Arrow's own buffers, so both ways are a few block copies; Arrow's Java vectors would copy row by row.
 */
private[cecstore] object Body {
  import Format._

  private val Nodes = 9
  /** More than the message around the buffers takes. */
  private val MetadataRoomBytes = 4096
  private val Buffers = 18
  // Positions in the list of buffers, in the order of the schema.
  private val (kindAt, timestampAt, inputAt, familyAt, keyEndsAt, keysAt) = (1, 3, 5, 8, 10, 11)
  private val (stateValidAt, valueEndsAt, valuesAt, renewedAt) = (12, 14, 15, 17)

  private def field(name: String, kind: ArrowType, children: Field*): Field =
    new Field(name, FieldType.nullable(kind), Arrays.asList(children: _*))

  private val schema = new Schema(Arrays.asList(
    field("_kind", new ArrowType.Int(8, false)),
    field("_timestamp", new ArrowType.Timestamp(TimeUnit.MICROSECOND, "UTC")),
    field("_input_0", new ArrowType.Int(64, true)),
    field("_key", ArrowType.Struct.INSTANCE,
      field("family", new ArrowType.Int(16, false)), field("key", ArrowType.Binary.INSTANCE)),
    field("_state", ArrowType.Struct.INSTANCE,
      field("value", ArrowType.Binary.INSTANCE), field("renewed", ArrowType.Bool.INSTANCE))))

  /** The body of a SCHEMA frame. */
  val schemaMessage: Array[Byte] = SchemaMessage.encode(schema)

  /** Prove that a SCHEMA frame's body is the schema of a state log, whoever wrote it. */
  def checkSchema(message: Array[Byte]): Unit = if (!Arrays.equals(message, schemaMessage)) {
    val read = SchemaMessage.decode(message)
    if (read.getFields != schema.getFields) throw new BadFrame(s"not the schema of a state log: $read")
  }

  private def padded(bytes: Int): Int = (bytes + 7) & ~7

  /** Rows `from` until `until` as one body; rows from `renewedFrom` on are renewed footprints. */
  def encode(rows: Rows, from: Int, until: Int, renewedFrom: Int, version: Long, timestampUs: Long, level: Int): StoredBody = {
    // Above, there would be another two gigabytes of heap to compress into.
    val stored = if (level == 0 || Blocks.rawBytes(rows, from, until) > RawBytesMax) None
      else Some(Blocks.encode(rows, from, until, renewedFrom, version, timestampUs, level))
    stored.filter(body => body.rawBytes <= rawBytesMax(body.bytes.length, until - from) && body.bytes.length <= bodyBytesMax(until - from))
      .getOrElse(plain(rows, from, until, renewedFrom, version, timestampUs))
  }

  /** As an Arrow message that is not compressed. */
  private def plain(rows: Rows, from: Int, until: Int, renewedFrom: Int, version: Long, timestampUs: Long): StoredBody = {
    val n = until - from
    val results = (from until until).count(rows.kinds(_) == Result)
    val sizes = new Array[Int](Buffers)
    sizes(kindAt) = n
    sizes(timestampAt) = n * 8
    sizes(inputAt) = n * 8
    sizes(familyAt) = n * 2
    sizes(keyEndsAt) = (n + 1) * 4
    sizes(keysAt) = rows.keyEnds(until) - rows.keyEnds(from)
    sizes(stateValidAt) = if (results > 0) (n + 7) / 8 else 0
    sizes(valueEndsAt) = (n + 1) * 4
    sizes(valuesAt) = rows.valueEnds(until) - rows.valueEnds(from)
    sizes(renewedAt) = (n + 7) / 8
    val needed = sizes.map(size => (size + 7L) & ~7L).sum + MetadataRoomBytes
    if (needed > OneRecordBytesMax) throw new CecLogException(s"key and value of ${sizes(keysAt).toLong + sizes(valuesAt)} bytes, " +
      s"with what a frame needs besides, are above $OneRecordBytesMax bytes: let the query keep less under one key",
      named = Map("bytes" -> needed.toString))
    val starts = sizes.scanLeft(0)((at, size) => at + padded(size))
    val metadata = message(n, results, sizes, starts)
    val bodyAt = 8 + padded(metadata.remaining)
    val raw = new Array[Byte](bodyAt + starts(Buffers))
    littleEndian(raw).putInt(-1).putInt(bodyAt - 8).put(metadata)
    System.arraycopy(rows.kinds, from, raw, bodyAt + starts(kindAt), n)
    fill(raw, bodyAt + starts(timestampAt), n, timestampUs)
    fill(raw, bodyAt + starts(inputAt), n, version)
    putFamilies(raw, bodyAt + starts(familyAt), rows, from, n)
    rows.copyKeys(from, until, raw, bodyAt + starts(keysAt))
    rows.copyValues(from, until, raw, bodyAt + starts(valuesAt))
    if (results > 0) putBits(raw, bodyAt + starts(stateValidAt), n, i => rows.kinds(from + i) != Result)
    putBits(raw, bodyAt + starts(renewedAt), n, from + _ >= renewedFrom)
    putEnds(raw, bodyAt + starts(keyEndsAt), rows.keyEnds, from, n)
    putEnds(raw, bodyAt + starts(valueEndsAt), rows.valueEnds, from, n)
    StoredBody(raw, raw.length, CodecNone)
  }

  private def message(n: Int, results: Int, sizes: Array[Int], starts: Array[Int]): ByteBuffer = {
    val out = new FlatBufferBuilder(1024)
    RecordBatch.startNodesVector(out, Nodes)
    (Nodes - 1 to 0 by -1).foreach(i => FieldNode.createFieldNode(out, n, if (i == 6) results else 0))
    val nodes = out.endVector()
    RecordBatch.startBuffersVector(out, Buffers)
    (Buffers - 1 to 0 by -1).foreach(i => Buffer.createBuffer(out, starts(i), sizes(i)))
    val buffers = out.endVector()
    RecordBatch.startRecordBatch(out)
    RecordBatch.addLength(out, n)
    RecordBatch.addNodes(out, nodes)
    RecordBatch.addBuffers(out, buffers)
    val batch = RecordBatch.endRecordBatch(out)
    Message.startMessage(out)
    Message.addHeaderType(out, MessageHeader.RecordBatch)
    Message.addHeader(out, batch)
    Message.addVersion(out, MetadataVersion.V5)
    Message.addBodyLength(out, starts(Buffers))
    out.finish(Message.endMessage(out))
    out.dataBuffer()
  }

  private def fill(raw: Array[Byte], at: Int, n: Int, value: Long): Unit =
    (0 until n).foreach(i => Platform.putLong(raw, Platform.BYTE_ARRAY_OFFSET + at + i * 8L, value))

  private def putFamilies(raw: Array[Byte], at: Int, rows: Rows, from: Int, n: Int): Unit =
    (0 until n).foreach(i => Platform.putShort(raw, Platform.BYTE_ARRAY_OFFSET + at + i * 2L, rows.family(from + i).toShort))

  private def putEnds(raw: Array[Byte], at: Int, ends: Array[Int], from: Int, n: Int): Unit =
    (1 to n).foreach(i => Platform.putInt(raw, Platform.BYTE_ARRAY_OFFSET + at + i * 4L, ends(from + i) - ends(from)))

  private def putBits(raw: Array[Byte], at: Int, n: Int, bit: Int => Boolean): Unit =
    (0 until n).foreach(i => if (bit(i)) raw(at + (i >> 3)) = (raw(at + (i >> 3)) | 1 << (i & 7)).toByte)

  /** A body as it was before it was stored. Raises BadFrame. */
  def inflated(header: FrameHeader, stored: Array[Byte]): Array[Byte] = header.codec match {
    case CodecNone if stored.length != header.rawBytes => throw new BadFrame(s"body of ${stored.length} bytes, not ${header.rawBytes}")
    case CodecNone => stored
    case _ => ZstdFrames.inflate(stored, header.rawBytes)
  }

  /** The rows of a body whose CRC has been checked; nothing in it is believed beyond that. */
  def decode(header: FrameHeader, stored: Array[Byte], id: Int): Rows = try {
    if (header.codec == CodecBlocks) return Blocks.decode(stored, header.recordCount, header.rawBytes, id)
    val raw = inflated(header, stored)
    val in = littleEndian(raw)
    if (raw.length < 8 || in.getInt(0) != -1) throw new BadFrame("body: no Arrow message")
    val bodyAt = 8 + in.getInt(4)
    if (bodyAt < 8 || bodyAt > raw.length) throw new BadFrame("body: its metadata goes beyond its end")
    val message = Message.getRootAsMessage(ByteBuffer.wrap(raw, 8, bodyAt - 8).slice())
    val batch = message.header(new RecordBatch).asInstanceOf[RecordBatch]
    val n = header.recordCount
    if (message.headerType != MessageHeader.RecordBatch || batch.compression != null || batch.length != n ||
        batch.nodesLength != Nodes || batch.buffersLength != Buffers || batch.nodes(0).nullCount != 0) {
      throw new BadFrame(s"body: not a batch of $n records of a state log")
    }
    new Decoder(raw, bodyAt, batch, n).rows(id)
  } catch {
    case e @ (_: IndexOutOfBoundsException | _: NegativeArraySizeException | _: ClassCastException) => throw new BadFrame(s"body: $e")
  }

  private final class Decoder(raw: Array[Byte], bodyAt: Int, batch: RecordBatch, n: Int) {
    /** Where a buffer stands; it must hold so many bytes within the body. */
    private def at(buffer: Int, needed: Long): Int = {
      val b = batch.buffers(buffer)
      if (b.offset < 0 || b.length < needed || b.offset > raw.length - bodyAt || b.length > raw.length - bodyAt - b.offset) {
        throw new BadFrame(s"body: buffer $buffer of ${b.length} bytes at ${b.offset}, $needed needed")
      }
      bodyAt + b.offset.toInt
    }

    /** Where each row ends, counted from the first one's start. */
    private def ends(buffer: Int): Array[Int] = {
      val entries = Platform.BYTE_ARRAY_OFFSET + at(buffer, if (n == 0) 0 else (n + 1L) * 4)
      val ends = new Array[Int](n + 1)
      val first = firstOf(buffer)
      if (first < 0) throw new BadFrame("body: offsets below zero")
      var end = 0
      var i = 1
      while (i <= n) {
        val entry = Platform.getInt(raw, entries + i * 4L)
        val next = entry - first
        if (next < end) throw new BadFrame(s"body: offsets of row ${i - 1} fall")
        ends(i) = next
        end = next
        i += 1
      }
      ends
    }

    private def data(buffer: Int, firstEnd: Int, size: Int): Array[Byte] = {
      val start = at(buffer, firstEnd.toLong + size) + firstEnd
      Arrays.copyOfRange(raw, start, start + size)
    }

    private def firstOf(buffer: Int): Int = if (n == 0) 0 else Platform.getInt(raw, Platform.BYTE_ARRAY_OFFSET + at(buffer, 4))

    def rows(id: Int): Rows = {
      val rows = new Rows(id, 0, 0, 0)
      val kinds = at(kindAt, n)
      rows.kinds = Arrays.copyOfRange(raw, kinds, kinds + n)
      var i = 0 // loops, here and below: a restart runs this code before it is compiled well
      while (i < n) {
        if (rows.kinds(i) < Open || rows.kinds(i) > Result) throw new BadFrame("body: a record of no kind")
        i += 1
      }
      rows.keyEnds = ends(keyEndsAt)
      rows.keys = data(keysAt, firstOf(keyEndsAt), rows.keyEnds(n))
      rows.valueEnds = ends(valueEndsAt)
      rows.values = data(valuesAt, firstOf(valueEndsAt), rows.valueEnds(n))
      val families = Platform.BYTE_ARRAY_OFFSET + at(familyAt, n * 2L)
      i = 0
      while (i < n && Platform.getShort(raw, families + i * 2L) == DefaultFamily) i += 1
      if (i < n) rows.families = Array.tabulate(n)(i => Platform.getShort(raw, families + i * 2L))
      val renewed = at(renewedAt, (n + 7) / 8)
      rows.renewed = Arrays.copyOfRange(raw, renewed, renewed + (n + 7) / 8)
      rows.finishDecoding(n)
      rows
    }
  }
}
