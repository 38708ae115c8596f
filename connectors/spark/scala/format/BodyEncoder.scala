package org.apache.spark.sql.cecstore.format

import java.util.Arrays
import scala.collection.mutable
import scala.jdk.CollectionConverters._
import com.github.luben.zstd.{Zstd, ZstdCompressCtx}
import org.apache.arrow.memory.ArrowBuf
import org.apache.arrow.vector.{FieldVector, VarBinaryVector, VarCharVector}
import org.apache.arrow.vector.complex.StructVector
import org.apache.spark.sql.cecstore.CecLogException

/**
 * Columns to the body of a BATCH frame, compressed apart (codec 3) or as a whole (codec 1). docs/format.md §6. For one
 * thread; closed by who made it.
 */
private[cecstore] final class BodyEncoder(level: Int) extends AutoCloseable {
  import ArrowBytes._
  import BodyEncoder._
  import Format._
  private val context = new ZstdCompressCtx().setLevel(level)
  private val out = new Compressed(context)
  private var scratch = new Array[Byte](1 << 16)

  override def close(): Unit = context.close()

  /** Each column apart; as a whole where that takes less or can only be so. */
  def columns(vectors: Seq[FieldVector], rows: Int): StoredBody = {
    val plain = new Plain(vectors, rows)
    val isWorthIt = plain.rawBytes >= ColumnsBytesMin && plain.rawBytes <= RawBytesMax
    Option.when(isWorthIt)(apart(vectors, rows, plain.rawBytes)).flatten.filter { bytes =>
      // As below: what a reader would refuse must not be written.
      bytes.length <= math.min(plain.rawBytes, bodyBytesMax(2)) && plain.rawBytes <= rawBytesMax(bytes.length, rows)
    }.map(StoredBody(_, plain.rawBytes.toInt, CodecColumns)).getOrElse(whole(plain, rows))
  }

  private def whole(plain: Plain, rows: Int): StoredBody = {
    val limit = if (rows == 1) OneRecordBytesMax else RawBytesMax
    if (plain.rawBytes > limit) throw new CecLogException(s"$rows rows of ${plain.rawBytes} bytes are more than a " +
      s"frame may hold ($limit): keep such values elsewhere, and references to them here",
      named = Map("rows" -> rows.toString, "bytes" -> plain.rawBytes.toString))
    whole(plain.bytes, rows)
  }

  /** Bytes, compressed at once. Raises CecLogException where that is more than a frame may hold. */
  def whole(raw: Array[Byte], rows: Int): StoredBody = {
    // Above, there would be another two gigabytes of heap to compress into.
    val stored = if (raw.length > RawBytesMax) raw else context.compress(raw)
    // Readers refuse a body that inflates so much, whoever wrote it, and one above the limit.
    val inflates = raw.length > rawBytesMax(stored.length, rows)
    val isSmall = stored.length <= math.max(raw.length, bodyBytesMax(2))
    if ((stored ne raw) && isSmall && !inflates) StoredBody(stored, raw.length, CodecZstd)
    else if (raw.length <= bodyBytesMax(rows)) StoredBody(raw, raw.length, CodecNone)
    else throw new CecLogException(s"$rows rows of ${raw.length} bytes do not fit in a frame",
      named = Map("rows" -> rows.toString, "bytes" -> raw.length.toString))
  }

  /** None where buffers would claim more than the message that is stored otherwise. */
  private def apart(vectors: Seq[FieldVector], rows: Int, rawBytes: Long): Option[Array[Byte]] = {
    val listed = mutable.ArrayBuffer.empty[(Int, Dictionary)]
    val nodes = mutable.ArrayBuffer.empty[Node]
    val places = mutable.ArrayBuffer.empty[Place]
    out.beginBody()
    def add(vector: FieldVector, canBeListed: Boolean): Unit = {
      val dictionary = vector match {
        case strings: VarCharVector if canBeListed => Dictionary.of(strings)
        case bytes: VarBinaryVector if canBeListed => Dictionary.of(bytes)
        case _ => None
      }
      val number = nodes.size
      nodes += nodeOf(vector)
      dictionary match {
        case Some(made) =>
          listed += ((number, made))
          places += put(buffersOf(vector).head)
          places += out.add(made.indices)
        case None => buffersOf(vector).foreach(buffer => places += put(buffer))
      }
      vector.getChildrenFromFields.asScala.foreach(add(_, canBeListed && vector.isInstanceOf[StructVector]))
    }
    vectors.foreach(add(_, canBeListed = true))
    val batch = batchHead(Columns(rows, nodes.toSeq, places.toSeq), out.bodyBytes, isCompressed = true) -> out.taken()
    val messages = listed.toSeq.zipWithIndex.map { case ((_, dictionary), id) =>
      out.begin()
      val parts = Seq(Place(0, 0), out.add(dictionary.offsets), out.add(dictionary.values))
      dictionaryHead(id, dictionary.count, parts, out.bodyBytes) -> out.taken()
    } :+ batch
    Option.when(out.claimedBytes <= rawBytes)(joined(listed.toSeq, messages))
  }

  private def put(buffer: Option[ArrowBuf]): Place = buffer.fold(Place(0, 0)) { from =>
    out.shared(from.memoryAddress, from.readableBytes) {
      val size = Math.toIntExact(from.readableBytes)
      if (scratch.length < size) scratch = new Array[Byte](size + size / 4)
      from.getBytes(0, scratch, 0, size)
      out.add(scratch, size)
    }
  }

  private def joined(listed: Seq[(Int, Dictionary)], messages: Seq[(Array[Byte], Array[Byte])]): Array[Byte] = {
    val headBytes = 8 + 8 * listed.size
    val messageBytes = messages.map { case (head, body) => head.length.toLong + body.length }.sum
    val bytes = new Array[Byte](Math.toIntExact(headBytes + messageBytes))
    val to = littleEndian(bytes)
    to.putInt(listed.size).putInt(0)
    listed.foreach { case (number, made) => to.putInt(number).put(made.indexBytes.toByte).put(Array[Byte](0, 0, 0)) }
    messages.foreach { case (head, body) => to.put(head).put(body) }
    bytes
  }
}

private[cecstore] object BodyEncoder {
  import ArrowBytes._
  /** Before compression: smaller bodies are compressed as a whole, which takes less. */
  private val ColumnsBytesMin = 32 << 10
  private val AsItIs = -1L

  /** The message that codec 0 stores. */
  private final class Plain(vectors: Seq[FieldVector], rows: Int) {
    private val (nodes, buffers) = flattened(vectors)
    private val sizes = buffers.map(_.fold(0L)(_.readableBytes))
    private val starts = sizes.scanLeft(0L)((at, size) => at + padded(size))
    private val places = starts.zip(sizes).map { case (start, size) => Place(start, size) }
    private val head = batchHead(Columns(rows, nodes, places), starts.last, isCompressed = false)
    val rawBytes: Long = head.length + starts.last

    def bytes: Array[Byte] = {
      val raw = Arrays.copyOf(head, Math.toIntExact(rawBytes))
      for ((Some(buffer), place) <- buffers.zip(places)) {
        buffer.getBytes(0, raw, head.length + place.start.toInt, place.size.toInt)
      }
      raw
    }
  }

  /** Bodies of messages in the making: buffers compressed one after the other. */
  private final class Compressed(context: ZstdCompressCtx) {
    private var bytes = new Array[Byte](1 << 20)
    private var end = 0
    private var claimed = 0L
    private val known = mutable.Map.empty[(Long, Long), (Place, Long)]

    def begin(): Unit = { end = 0; known.clear() }
    def bodyBytes: Long = end
    def taken(): Array[Byte] = Arrays.copyOf(bytes, end)
    /** What all buffers of a body have before compression, as they say themselves. */
    def claimedBytes: Long = claimed
    def beginBody(): Unit = { claimed = 0; begin() }

    /** A buffer that two columns have is stored once. */
    def shared(address: Long, size: Long)(add: => Place): Place = known.get((address, size)) match {
      case Some((place, raw)) => claimed += raw; place
      case None =>
        val place = add
        known((address, size)) = (place, size)
        place
    }

    def add(from: Array[Byte]): Place = add(from, from.length)

    def add(from: Array[Byte], size: Int): Place = if (size == 0) Place(0, 0) else {
      val room = Math.toIntExact(end + 16L + math.max(Zstd.compressBound(size), size))
      if (bytes.length < room) bytes = Arrays.copyOf(bytes, math.max(room, bytes.length * 2))
      val start = end
      val stored = context.compressByteArray(bytes, start + 8, bytes.length - start - 8, from, 0, size)
      val isSmaller = stored < size
      if (!isSmaller) System.arraycopy(from, 0, bytes, start + 8, size)
      Format.littleEndian(bytes).putLong(start, if (isSmaller) size else AsItIs)
      val length = 8 + (if (isSmaller) stored else size)
      end = start + padded(length)
      Arrays.fill(bytes, start + length, end, 0.toByte)
      claimed += size
      Place(start, length)
    }
  }
}
