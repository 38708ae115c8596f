package org.apache.spark.sql.cecstore.format

import java.nio.ByteBuffer
import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._
import com.google.flatbuffers.FlatBufferBuilder
import org.apache.arrow.flatbuf.{BodyCompression, BodyCompressionMethod, Buffer, CompressionType}
import org.apache.arrow.flatbuf.{DictionaryBatch, FieldNode, Message, MessageHeader, MetadataVersion, RecordBatch}
import org.apache.arrow.memory.ArrowBuf
import org.apache.arrow.vector.FieldVector

/** Where a buffer stands in a message's body. */
private[format] final case class Place(start: Long, size: Long)

/** One field of a message, in the order of the schema: rows and nulls. */
private[format] final case class Node(rows: Long, nulls: Long)

/** What the metadata of a record batch says. */
private[format] final case class Columns(rows: Long, nodes: Seq[Node], places: Seq[Place])

/** The bytes of Arrow messages that hold columns. docs/format.md §6. */
private[format] object ArrowBytes {
  private val MetadataBytes = 1024

  def padded(bytes: Int): Int = (bytes + 7) & ~7
  def padded(bytes: Long): Long = (bytes + 7) & ~7L

  /** The buffers of one field, not of its children. The first says what is null, and is left out where nothing is. */
  def buffersOf(vector: FieldVector): Seq[Option[ArrowBuf]] = {
    val hasNulls = vector.getNullCount > 0
    vector.getFieldBuffers.asScala.toSeq.zipWithIndex.map { case (buffer, number) =>
      Option.when(buffer.readableBytes > 0 && (number > 0 || hasNulls))(buffer)
    }
  }

  def nodeOf(vector: FieldVector): Node = Node(vector.getValueCount, vector.getNullCount)

  /** All nodes and buffers of columns, each field before its children. */
  def flattened(columns: Seq[FieldVector]): (Seq[Node], Seq[Option[ArrowBuf]]) = {
    val nodes = ArrayBuffer.empty[Node]
    val buffers = ArrayBuffer.empty[Option[ArrowBuf]]
    def add(vector: FieldVector): Unit = {
      nodes += nodeOf(vector)
      buffers ++= buffersOf(vector)
      vector.getChildrenFromFields.asScala.foreach(add)
    }
    columns.foreach(add)
    (nodes.toSeq, buffers.toSeq)
  }

  /** What begins a message of a record batch: marker, length and metadata. The body follows. */
  def batchHead(batch: Columns, bodyBytes: Long, isCompressed: Boolean): Array[Byte] = {
    val out = new FlatBufferBuilder(MetadataBytes)
    val table = addBatch(out, batch, isCompressed)
    head(out, MessageHeader.RecordBatch, table, bodyBytes)
  }

  /** The same of a dictionary, which is compressed always. */
  def dictionaryHead(id: Long, values: Long, places: Seq[Place], bodyBytes: Long): Array[Byte] = {
    val out = new FlatBufferBuilder(MetadataBytes)
    val batch = addBatch(out, Columns(values, Seq(Node(values, 0)), places), isCompressed = true)
    DictionaryBatch.startDictionaryBatch(out)
    DictionaryBatch.addId(out, id)
    DictionaryBatch.addData(out, batch)
    DictionaryBatch.addIsDelta(out, false)
    head(out, MessageHeader.DictionaryBatch, DictionaryBatch.endDictionaryBatch(out), bodyBytes)
  }

  private def addBatch(out: FlatBufferBuilder, batch: Columns, isCompressed: Boolean): Int = {
    RecordBatch.startNodesVector(out, batch.nodes.size)
    batch.nodes.reverseIterator.foreach(node => FieldNode.createFieldNode(out, node.rows, node.nulls))
    val nodes = out.endVector()
    RecordBatch.startBuffersVector(out, batch.places.size)
    batch.places.reverseIterator.foreach(place => Buffer.createBuffer(out, place.start, place.size))
    val buffers = out.endVector()
    val compression = Option.when(isCompressed)(
      BodyCompression.createBodyCompression(out, CompressionType.ZSTD, BodyCompressionMethod.BUFFER))
    RecordBatch.startRecordBatch(out)
    RecordBatch.addLength(out, batch.rows)
    RecordBatch.addNodes(out, nodes)
    RecordBatch.addBuffers(out, buffers)
    compression.foreach(RecordBatch.addCompression(out, _))
    RecordBatch.endRecordBatch(out)
  }

  private def head(out: FlatBufferBuilder, kind: Byte, table: Int, bodyBytes: Long): Array[Byte] = {
    Message.startMessage(out)
    Message.addHeaderType(out, kind)
    Message.addHeader(out, table)
    Message.addVersion(out, MetadataVersion.V5)
    Message.addBodyLength(out, bodyBytes)
    out.finish(Message.endMessage(out))
    val metadata: ByteBuffer = out.dataBuffer()
    val bytes = new Array[Byte](8 + padded(metadata.remaining))
    Format.littleEndian(bytes).putInt(-1).putInt(bytes.length - 8).put(metadata)
    bytes
  }
}
