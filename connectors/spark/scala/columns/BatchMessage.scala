package org.apache.spark.sql.cecstore.columns

import java.nio.{ByteBuffer, ByteOrder}
import com.github.luben.zstd.ZstdDecompressCtx
import org.apache.arrow.flatbuf.{Buffer, CompressionType, BodyCompressionMethod, DictionaryBatch, FieldNode, Message}
import org.apache.arrow.flatbuf.{MessageHeader, MetadataVersion, RecordBatch}
import org.apache.spark.sql.cecstore.format.{BadFrame, ZstdFrames}
import org.apache.spark.unsafe.Platform

/** Decompresses into arrays that are used again. For one thread. */
private[cecstore] final class Inflater extends AutoCloseable {
  val scratch = new Scratch
  private val context = new ZstdDecompressCtx

  /** One zstd frame of exactly so many bytes. */
  def inflate(stored: Array[Byte], from: Int, length: Int, rawBytes: Int): ByteSpan = {
    val raw = scratch.take(rawBytes)
    ZstdFrames.inflate(context, stored, from, length, raw, 0, rawBytes)
    new ByteSpan(raw, 0, rawBytes)
  }

  override def close(): Unit = context.close()
}

/**
 * A RecordBatch, or what a DictionaryBatch holds: its nodes, and its buffers, decompressed when they are asked for.
 *
 * @param bodyAt where in `bytes` the buffers' positions count from
 * @param isCompressed buffer by buffer (docs/format.md §6, codec 3)
 */
private[cecstore] final class BatchMessage(batch: RecordBatch, bytes: Array[Byte], bodyAt: Int, bodyBytes: Int,
    isCompressed: Boolean, inflater: Inflater) {
  import BatchMessage._

  val rows: Long = batch.length
  val nodes: Int = batch.nodesLength
  val buffers: Int = batch.buffersLength
  private val node = new FieldNode
  private val place = new Buffer
  if ((batch.compression != null) != isCompressed) {
    throw new BadFrame("body: no record batch, or one that Arrow itself has compressed in another way")
  }

  /** Bytes of all buffers after decompression, as they say themselves; each of them proven to be in place. */
  def claimedBytes(limit: Long): Long = (0 until buffers).map { number =>
    val (at, length) = placeOf(number)
    if (length == 0) 0L
    else {
      if (length < LengthBytes || (at - bodyAt) % LengthBytes != 0) {
        throw new BadFrame(s"body: buffers outside a message of $bodyBytes bytes, or cut")
      }
      val claimed = claimOf(at, length)
      if (claimed < 0 || claimed > limit) throw new BadFrame(
          s"body: a buffer claims more than the $limit bytes of its header")
      claimed
    }
  }.sum

  private def claimOf(at: Int, length: Int): Long = {
    val claimed = Platform.getLong(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + at)
    if (claimed == AsItIs) length - LengthBytes else claimed
  }

  private def placeOf(number: Int): (Int, Int) = {
    batch.buffers(place, number)
    val (from, length) = (place.offset, place.length)
    if (from < 0 || length < 0 || from > bodyBytes || length > bodyBytes - from) {
      throw new BadFrame(s"body: buffer $number of $length bytes at $from is outside a message of $bodyBytes bytes")
    }
    (bodyAt + from.toInt, length.toInt)
  }

  def rowsOf(number: Int): Int = {
    val length = batch.nodes(node, number).length
    if (length < 0 || length > Int.MaxValue - 8) throw new BadFrame(s"body: a field of $length rows")
    length.toInt
  }

  def nullsOf(number: Int): Long = batch.nodes(node, number).nullCount

  def buffer(number: Int): ByteSpan = {
    val (at, length) = placeOf(number)
    if (length == 0) ByteSpan.Empty
    else if (!isCompressed) new ByteSpan(bytes, at, length)
    else if (Platform.getLong(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + at) == AsItIs) {
      new ByteSpan(bytes, at + LengthBytes, length - LengthBytes)
    } else {
      // The claims were checked against the header's before anything is decompressed.
      val claimed = claimOf(at, length).toInt
      if (claimed == 0) ByteSpan.Empty else inflater.inflate(bytes, at + LengthBytes, length - LengthBytes, claimed)
    }
  }
}

private[cecstore] object BatchMessage {
  private val LengthBytes = 8
  private val AsItIs = -1L

  /** An encapsulated message that begins at `start`, and where it ends. */
  final case class Found(batch: BatchMessage, end: Int)

  /**
   * @param end where the bytes end that may be its own
   * @param dictionary the id of the dictionary that is due; −1: a record batch
   */
  def read(bytes: Array[Byte], start: Int, end: Int, dictionary: Int, isCompressed: Boolean,
      inflater: Inflater): Found = {
    val in = ByteBuffer.wrap(bytes, start, end - start).slice().order(ByteOrder.LITTLE_ENDIAN)
    if (in.remaining < 8 || in.getInt(0) != -1) throw new BadFrame("body: no Arrow message")
    val metadataBytes = in.getInt(4)
    if (metadataBytes < 8 || metadataBytes > end - start - 8) throw new BadFrame("body: metadata goes beyond its end")
    // Bounds of a buffer of its own: nothing in the metadata can point out of it.
    val message = Message.getRootAsMessage(ByteBuffer.wrap(bytes, start + 8, metadataBytes).slice())
    val bodyAt = start + 8 + metadataBytes
    val bodyBytes = message.bodyLength
    if (bodyBytes < 0 || bodyBytes > end - bodyAt) throw new BadFrame(
        s"body: a message of $bodyBytes bytes goes beyond its end")
    val wanted = if (dictionary < 0) MessageHeader.RecordBatch else MessageHeader.DictionaryBatch
    if (message.headerType != wanted || isCompressed && message.version != MetadataVersion.V5) {
      throw new BadFrame(s"body: a message of type ${message.headerType} where one of type $wanted of version 5 is due")
    }
    val batch =
      if (dictionary < 0) message.header(new RecordBatch).asInstanceOf[RecordBatch] else dataOf(message, dictionary)
    if (batch == null) throw new BadFrame("body: a message without content")
    val compression = batch.compression
    if (isCompressed && (compression == null || compression.codec != CompressionType.ZSTD ||
        compression.method != BodyCompressionMethod.BUFFER)) {
      throw new BadFrame("body: buffers are not compressed with zstd one by one")
    }
    Found(new BatchMessage(batch, bytes, bodyAt, bodyBytes.toInt, isCompressed, inflater), bodyAt + bodyBytes.toInt)
  }

  private def dataOf(message: Message, due: Int): RecordBatch = {
    val found = message.header(new DictionaryBatch).asInstanceOf[DictionaryBatch]
    if (found == null || found.id != due || found.isDelta) throw new BadFrame(
        s"body: another dictionary where all of $due is due")
    found.data
  }
}
