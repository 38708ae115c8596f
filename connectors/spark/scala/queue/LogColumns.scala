package org.apache.spark.sql.cecstore.queue

import java.nio.ByteBuffer
import java.util.{List => JList, Map => JMap}
import scala.jdk.CollectionConverters._
import scala.util.Using
import scala.util.control.NonFatal
import com.github.luben.zstd.Zstd
import org.apache.arrow.flatbuf.{Message, MessageHeader, RecordBatch}
import org.apache.arrow.memory.BufferAllocator
import org.apache.arrow.vector._
import org.apache.arrow.vector.complex.{ListVector, MapVector, StructVector}
import org.apache.arrow.vector.ipc.message.MessageSerializer
import org.apache.arrow.vector.types.TimeUnit
import org.apache.arrow.vector.types.pojo.{ArrowType, Field, FieldType, Schema}
import org.apache.spark.sql.cecstore.format.{BadFrame, Format, FrameHeader, SchemaMessage, WholeSegment}

/** The columns of objects of `log/`: docs/format.md §11 lists them. */
private[queue] object LogColumns {
  private val int = new ArrowType.Int(32, true)
  private val long = new ArrowType.Int(64, true)
  private val text = ArrowType.Utf8.INSTANCE

  private def field(name: String, kind: ArrowType, children: Field*): Field =
    new Field(name, FieldType.nullable(kind), children.asJava)
  private def required(name: String, kind: ArrowType, children: Field*): Field =
    new Field(name, FieldType.notNullable(kind), children.asJava)
  private def list(name: String): Field = field(name, ArrowType.List.INSTANCE, field("item", long))
  private def map(name: String, value: Field): Field = field(name, new ArrowType.Map(false),
    required("entries", ArrowType.Struct.INSTANCE, required("key", text), value))

  val schema: Schema = new Schema(Seq(
    field("_kind", new ArrowType.Int(8, false)),
    field("_timestamp", new ArrowType.Timestamp(TimeUnit.MICROSECOND, "UTC")),
    field("commit", ArrowType.Struct.INSTANCE,
      field("operation", new ArrowType.Int(8, false)), field("query", text), field("batch", long),
      list("starts"), list("ends"), map("queries", field("value", long)), map("consumed", list("value")),
      map("settings", field("value", text)), field("schema", ArrowType.Binary.INSTANCE)),
    field("segment", ArrowType.Struct.INSTANCE,
      field("partition", int), field("first_offset", long), field("records", long), field("file", text),
      field("byte", long), field("bytes", long), field("salt", new ArrowType.Int(64, false)), field("least_us", long),
      field("greatest_us", long), field("frames", int), field("written_us", long),
      field("removed", ArrowType.Bool.INSTANCE))).asJava)

  def vectors(root: VectorSchemaRoot): Seq[FieldVector] = root.getFieldVectors.asScala.toSeq

  def checkSchema(message: Array[Byte], path: String): Unit = {
    val found = try SchemaMessage.decode(message) catch {
      case e: BadFrame => throw WholeSegment.damaged(path, 0, e.reason)
    }
    if (found.getFields != schema.getFields) throw WholeSegment.damaged(path, 0, "not the columns of a commit")
  }

  // -- writing ------------------------------------------------------------------------------

  /** The rows of an object; whoever takes them closes them. */
  def filled(made: LogObject, allocator: BufferAllocator): VectorSchemaRoot = {
    val root = VectorSchemaRoot.create(schema, allocator)
    try {
      root.allocateNew()
      val rows = 1 + made.segments.size
      val kinds = root.getVector("_kind").asInstanceOf[UInt1Vector]
      val times = root.getVector("_timestamp").asInstanceOf[TimeStampMicroTZVector]
      (0 until rows).foreach { row => kinds.setSafe(row, Format.Data.toInt); times.setSafe(row, made.createdUs) }
      putCommit(made.commit, root.getVector("commit").asInstanceOf[StructVector])
      val segments = new SegmentVectors(root.getVector("segment").asInstanceOf[StructVector])
      made.segments.iterator.zipWithIndex.foreach { case (segment, number) => segments.put(1 + number, segment) }
      root.setRowCount(rows)
      root
    } catch { case e: Throwable => root.close(); throw e }
  }

  private def putCommit(commit: Commit, to: StructVector): Unit = {
    to.setIndexDefined(0)
    to.getChild("operation", classOf[UInt1Vector]).setSafe(0, commit.operation.toInt)
    commit.query.foreach { query =>
      to.getChild("query", classOf[VarCharVector]).setSafe(0, utf8(query))
      to.getChild("batch", classOf[BigIntVector]).setSafe(0, commit.batch)
    }
    putLongs(commit.starts, to.getChild("starts", classOf[ListVector]), 0, 0)
    putLongs(commit.ends, to.getChild("ends", classOf[ListVector]), 0, 0)
    putMap(commit.queries, to, "queries", classOf[BigIntVector])((values, at, batch) => values.setSafe(at, batch))
    var consumedBefore = 0
    putMap(commit.consumed, to, "consumed", classOf[ListVector]) { (values, at, offsets) =>
      putLongs(offsets, values, at, consumedBefore)
      consumedBefore += offsets.length
    }
    putMap(commit.settings, to, "settings", classOf[VarCharVector])((words, at, said) => words.setSafe(at, utf8(said)))
    commit.schema.foreach(to.getChild("schema", classOf[VarBinaryVector]).setSafe(0, _))
  }

  private def utf8(text: String): Array[Byte] = text.getBytes("UTF-8")

  private def putLongs(longs: Array[Long], to: ListVector, row: Int, before: Int): Unit = {
    to.startNewValue(row)
    val items = to.getDataVector.asInstanceOf[BigIntVector]
    longs.zipWithIndex.foreach { case (value, number) => items.setSafe(before + number, value) }
    to.endValue(row, longs.length)
  }

  private def putMap[A, V <: FieldVector](map: Map[String, A], to: StructVector, name: String, kind: Class[V])(
      put: (V, Int, A) => Unit): Unit = {
    val column = to.getChild(name, classOf[MapVector])
    column.startNewValue(0)
    val entries = column.getDataVector.asInstanceOf[StructVector]
    map.toSeq.sortBy(_._1).zipWithIndex.foreach { case ((key, value), at) =>
      entries.setIndexDefined(at)
      entries.getChild("key", classOf[VarCharVector]).setSafe(at, utf8(key))
      put(entries.getChild("value", kind), at, value)
    }
    column.endValue(0, map.size)
  }

  private final class SegmentVectors(struct: StructVector) {
    private val partitions = struct.getChild("partition", classOf[IntVector])
    private val longs = Seq("first_offset", "records", "byte", "bytes", "least_us", "greatest_us", "written_us")
      .map(struct.getChild(_, classOf[BigIntVector]))
    private val files = struct.getChild("file", classOf[VarCharVector])
    private val salts = struct.getChild("salt", classOf[UInt8Vector])
    private val frames = struct.getChild("frames", classOf[IntVector])
    private val removed = struct.getChild("removed", classOf[BitVector])
    private val columns = Seq(partitions, files, salts, frames, removed) ++ longs

    def put(row: Int, s: Segment): Unit = {
      struct.setIndexDefined(row)
      partitions.setSafe(row, s.partition)
      longs.zip(Seq(s.firstOffset, s.records, s.byte, s.bytes, s.leastUs, s.greatestUs, s.writtenUs))
        .foreach { case (to, value) => to.setSafe(row, value) }
      files.setSafe(row, utf8(s.file))
      salts.setSafe(row, s.salt)
      frames.setSafe(row, s.frames)
      removed.setSafe(row, if (s.removed) 1 else 0)
    }

    def get(row: Int, count: Int): Segment = {
      if (struct.isNull(row) || columns.exists(_.isNull(row))) throw new BadFrame("a segment with nulls")
      val Seq(firstOffset, records, byte, bytes, leastUs, greatestUs, writtenUs) = longs.map(_.get(row))
      val partition = partitions.get(row)
      val isPlaced = partition >= 0 && partition < count && firstOffset >= 0 && byte >= 0 && bytes >= 0
      if (!isPlaced || records <= 0 || leastUs > greatestUs) throw new BadFrame("a segment that cannot be")
      Segment(partition, firstOffset, records, new String(files.get(row), "UTF-8"), byte, bytes, salts.get(row),
        leastUs, greatestUs, frames.get(row), writtenUs, removed.get(row) == 1)
    }
  }

  // -- reading ------------------------------------------------------------------------------

  /** The rows of a body whose CRC has been checked; nothing in it is believed beyond that. Raises BadFrame. */
  def read(body: Array[Byte], frame: FrameHeader, allocator: BufferAllocator): (Commit, IndexedSeq[Segment]) = try {
    Using.resource(VectorSchemaRoot.create(schema, allocator)) { root =>
      load(inflated(body, frame), root, allocator)
      if (root.getRowCount != frame.recordCount || frame.recordCount < 1) {
        throw new BadFrame(s"body has ${root.getRowCount} records, its header says ${frame.recordCount}")
      }
      val commits = root.getVector("commit").asInstanceOf[StructVector]
      val isOne = !commits.isNull(0) && commits.getNullCount == frame.recordCount - 1
      if (!isOne) throw new BadFrame("not one commit and its segments")
      val commit = commitOf(commits.getObject(0).asInstanceOf[JMap[String, AnyRef]].asScala.toMap)
      if (commit.operation < Operation.make || commit.operation > Operation.set) {
        throw new BadFrame(s"a commit that does ${commit.operation}: upgrade cec-store")
      }
      val segments = new SegmentVectors(root.getVector("segment").asInstanceOf[StructVector])
      (commit, (1 until frame.recordCount).map(segments.get(_, commit.ends.length)))
    }
  } catch {
    case e: BadFrame => throw e
    case NonFatal(e) => throw new BadFrame(s"a commit that says what cannot be: $e")
  }

  private def inflated(body: Array[Byte], frame: FrameHeader): Array[Byte] = {
    val raw = frame.codec match {
      case Format.CodecNone => body
      case Format.CodecZstd if Zstd.getFrameContentSize(body) == frame.rawBytes => Zstd.decompress(body, frame.rawBytes)
      case Format.CodecZstd => throw new BadFrame("zstd frame claims another size than its header")
      case other => throw new BadFrame(s"a commit with codec $other: upgrade cec-store")
    }
    if (raw.length == frame.rawBytes) raw
    else throw new BadFrame(s"body of ${raw.length} bytes, its header says ${frame.rawBytes}")
  }

  private def load(raw: Array[Byte], root: VectorSchemaRoot, allocator: BufferAllocator): Unit = {
    val in = Format.littleEndian(raw)
    val isMessage = raw.length >= 8 && in.getInt(0) == -1 && in.getInt(4) >= 0 && in.getInt(4) <= raw.length - 8
    if (!isMessage) throw new BadFrame("body: no Arrow message")
    val start = 8 + in.getInt(4)
    val message = Message.getRootAsMessage(ByteBuffer.wrap(raw, 8, start - 8).slice())
    if (message.headerType != MessageHeader.RecordBatch) throw new BadFrame("body: no record batch")
    val batch = message.header(new RecordBatch).asInstanceOf[RecordBatch]
    if (batch.compression != null) throw new BadFrame("body: a record batch that Arrow itself has compressed")
    val buffer = allocator.buffer(raw.length - start)
    buffer.setBytes(0, raw, start, raw.length - start)
    buffer.writerIndex(raw.length - start)
    Using.resource(MessageSerializer.deserializeRecordBatch(batch, buffer))(new VectorLoader(root).load(_))
  }

  private def commitOf(row: Map[String, AnyRef]): Commit = {
    def longs(value: Any): Array[Long] = value.asInstanceOf[JList[Long]].asScala.toArray
    def pairs(name: String): Map[String, AnyRef] = row(name).asInstanceOf[JList[JMap[String, AnyRef]]].asScala
      .map(entry => entry.get("key").toString -> entry.get("value")).toMap
    val (starts, ends) = (longs(row("starts")), longs(row("ends")))
    if (starts.length != ends.length || ends.isEmpty || starts.min < 0) {
      throw new BadFrame(s"${starts.length} starts of ${ends.length} partitions")
    }
    if (starts.indices.exists(n => starts(n) > ends(n))) throw new BadFrame("a partition that starts behind its end")
    Commit(
      operation = row("operation").asInstanceOf[Number].byteValue,
      query = row.get("query").map(_.toString),
      batch = row.get("batch").fold(0L)(_.asInstanceOf[Long]),
      starts = starts,
      ends = ends,
      queries = pairs("queries").map { case (query, batch) => query -> batch.asInstanceOf[Long] },
      consumed = pairs("consumed").map { case (queue, offsets) => queue -> longs(offsets) },
      settings = pairs("settings").map { case (name, value) => name -> value.toString },
      schema = row.get("schema").map(_.asInstanceOf[Array[Byte]]))
  }
}
