package org.apache.spark.sql.cecstore.source

import org.apache.hadoop.fs.Path
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.columns.{ByteSpan, ChosenVector, DictionaryVector, FrameColumns, LateVector, Nulls}
import org.apache.spark.sql.cecstore.columns.{Part, RecordFields, RequiredParts, RisingVector}
import org.apache.spark.sql.cecstore.queue.{NotAQueue, QueueReplaced, QueueState, ReferenceLog, SeenCommit, Segment}
import org.apache.spark.sql.cecstore.queue.Store
import org.apache.spark.sql.cecstore.format.{FrameHeader, SparkErrors}
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector
import org.apache.spark.sql.types.{IntegerType, StringType, StructField, StructType}
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.SerializableConfiguration

/**
 * What is read of a partition at a time: the frames that begin in its part, so that none is read by two tasks.
 *
 * @param whole the records that all tasks together read
 * @param segments those that may hold such frames, in order
 */
private[cecstore] final case class Slice(whole: OffsetRange, part: OffsetRange, segments: IndexedSeq[Segment]) {
  /** Whether a frame that begins at this offset is read here; of the first that is wanted only its end may be. */
  def has(first: Long): Boolean = {
    val begin = math.max(first, whole.start)
    part.start <= begin && begin < part.stop
  }
  def rows: Long = part.stop - part.start
}

/**
 * The queue that a query was planned over. Another may stand at its path when a task comes to read it.
 *
 * @param id 32 hex digits
 * @param ends next unread offset of each partition then
 * @param seen its newest commit then; none in a queue without commits
 */
private[cecstore] final case class PlannedQueue(path: String, id: String, ends: Map[Int, Long],
    seen: Option[SeenCommit]) {
  /**
   * This queue as it is now; none where it has no commits. Raises QueueReplaced where another queue or an older copy
   * stands there, or none.
   */
  def now(store: Store): Option[QueueState] = {
    if (seen.isEmpty) refuseReplaced(store)
    seen.map { commit =>
      val log = new ReferenceLog(store)
      log.prove(commit)
      val state = log.open()
      log.prove(commit) // it may have been replaced meanwhile
      state
    }
  }

  /** Whether its newest commit then is there still: one request of 128 bytes. */
  def isThere(store: Store): Boolean = seen.exists { commit =>
    try { new ReferenceLog(store).prove(commit); true } catch { case _: CecLogException => false }
  }

  private def refuseReplaced(store: Store): Unit = {
    val there = try Some(new PlainQueue(path, store)) catch { case _: NotAQueue => None }
    val what = there match {
      case None => Some("there is none")
      case Some(other) if other.id != id => Some(s"it is queue ${other.id}")
      case Some(older) if ends.exists { case (n, end) => older.ends.getOrElse(n, 0L) < end } => Some("an older copy is")
      case _ => None
    }
    what.foreach(reason => throw new QueueReplaced(store.url, s"${store.url}: queue $id is not here any more as it was " +
      s"when the query was planned: $reason; plan the query again"))
  }
}

/**
 * What one task reads: slices of one partition or of several, one after the other.
 *
 * @param inline frames of its segments that the driver has read, by file and byte
 * @param isReadAtOnce as a stream's batch is; another query may be run again when another queue stands there
 */
private[cecstore] final case class SliceGroup(slices: IndexedSeq[Slice], inline: Map[(String, Long), Array[Byte]],
    isReadAtOnce: Boolean) extends InputPartition

/**
 * What is read of each slice.
 *
 * @param columns of the rows, in their order, as the query names them
 * @param parts what they are in the queue
 * @param lowUs with `highUs`, moments outside of which no record need be read; both included
 * @param areAllRead whether Spark has said which columns it reads: of a stream it does not
 * @param required columns of which the table says that they are NOT NULL, read or not: Spark makes count(*) of a count of one
 */
private[cecstore] final case class Wanted(
    columns: StructType, parts: IndexedSeq[Part], kinds: Set[Byte], lowUs: Long, highUs: Long,
    areAllRead: Boolean = true, required: IndexedSeq[(StructField, Part)] = IndexedSeq.empty) {
  /** Of the bytes of all these columns, those of the wanted ones, as far as their types tell. */
  def shareOf(all: StructType): Double = math.min(1.0, columns.defaultSize.toDouble / math.max(1, all.defaultSize))
}

private[cecstore] final class SliceReaderFactory(queue: PlannedQueue, configuration: Broadcast[SerializableConfiguration],
    schemaMessage: Array[Byte], wanted: Wanted) extends PartitionReaderFactory {
  override def supportColumnarReads(partition: InputPartition): Boolean = true

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    throw new UnsupportedOperationException("rows one by one: queues are read by columns")

  override def createColumnarReader(partition: InputPartition): PartitionReader[ColumnarBatch] = partition match {
    case group: SliceGroup =>
      // Who only reads needs no store that keeps writers apart.
      val store = Store.at(new Path(queue.path), configuration.value.value, reading = true)
      new SliceReader(store, queue, RecordFields.decode(schemaMessage), group, wanted)
  }
}

/** Slices, in order: a batch for each frame. Columns are valid until the next batch. */
private[cecstore] final class SliceReader(store: Store, queue: PlannedQueue, fields: RecordFields, group: SliceGroup,
    wanted: Wanted) extends PartitionReader[ColumnarBatch] {
  private val columns = new FrameColumns(fields.fields)
  /** Without them the rows are read, which tells what has become of the queue. */
  private lazy val inline =
    if (group.isReadAtOnce || group.inline.isEmpty || queue.isThere(store)) group.inline else Map.empty[(String, Long), Array[Byte]]
  private var segments = for (slice <- group.slices.iterator; segment <- slice.segments.iterator) yield (slice, segment)
  private var segment: Segment = _
  private var slice: Slice = _
  private var frames: SegmentFrames = _
  private var batch: ColumnarBatch = _
  private val isKindWanted = Array.tabulate(256)(kind => wanted.kinds(kind.toByte))
  private val allOfKind = Array.tabulate[Long](256)(kind => kind * 0x0101010101010101L)

  private def isWanted(header: FrameHeader, first: Long): Boolean =
    slice.has(first) && first + header.recordCount > slice.whole.start &&
      header.minTimestampUs <= wanted.highUs && header.maxTimestampUs >= wanted.lowUs

  override def next(): Boolean = SparkErrors.told {
    batch = null
    while (batch == null && hasFrame()) batch = frames.guarded(decoded())
    batch != null
  }

  override def get(): ColumnarBatch = batch

  /** Go to the next frame; past the slice's end no more is read. */
  private def hasFrame(): Boolean = {
    while (frames == null || !(try hasMore(frames) catch { case e: CecLogException => goneOn(e) })) {
      if (!segments.hasNext) return false
      val (of, next) = segments.next()
      slice = of
      segment = next
      frames = new SegmentFrames(store, segment, slice.part.start, inline.get((segment.file, segment.byte)))
    }
    true
  }

  private def hasMore(frames: SegmentFrames): Boolean =
    (frames.header == null || frames.firstOffset + frames.header.recordCount < slice.part.stop) &&
        frames.next(isWanted)

  /**
   * Go on with the segments that have the rest of a segment's records now, if it was merged, and deleted, since the
   * query was planned: false, for they are yet to be opened. Raises `damage` where the queue still names it, and
   * QueueReplaced where it is another's.
   */
  private def goneOn(damage: CecLogException): Boolean = {
    val live = queue.now(store).getOrElse(throw damage).live.map(_.segment)
    if (live.exists(other => other.file == segment.file && other.byte == segment.byte)) throw damage
    val from = math.max(frames.readUpto, slice.whole.start)
    val until = math.min(segment.endOffset, slice.whole.stop)
    // Where tasks share a segment, its frames say between which rows it is cut: those are not known any more.
    val isShared = slice.part.stop < until ||
      frames.readUpto == segment.firstOffset && slice.part.start > from
    if (isShared) {
      throw new CecLogException(s"${damage.getMessage}; the queue has merged it since this query was planned: run the " +
        "query again", damage, Map("path" -> store.url, "partition" -> segment.partition.toString))
    }
    val rest = slice.part.copy(start = from, stop = until)
    val now = live.filter(s => s.partition == segment.partition && s.firstOffset < rest.stop && s.endOffset > rest.start)
      .sortBy(_.firstOffset).toIndexedSeq
    if (now.headOption.forall(_.firstOffset > rest.start)) throw new CecLogException(
      s"${store.url}: partition ${segment.partition}: offset ${rest.start} was trimmed while it was read", damage,
      Map("path" -> store.url, "partition" -> segment.partition.toString, "offset" -> rest.start.toString))
    val later = segments // `++` looks at its argument only when it comes to it
    segments = now.iterator.map(Slice(rest, rest, now) -> _) ++ later
    frames = null
    false
  }

  /** The frame's wanted rows; null where there is none. */
  private def decoded(): ColumnarBatch = {
    val header = frames.header
    columns.open(header, frames.bytes, frames.bodyAt)
    val from = math.max(0L, slice.whole.start - frames.firstOffset).toInt
    val until = math.min(header.recordCount.toLong, slice.whole.stop - frames.firstOffset).toInt
    val kinds = columns.numbers(RecordFields.KindPlace, 1)
    if (from == 0 && until == header.recordCount && areAllWanted(kinds, until)) {
      batchOf(kinds, until, until, identity)
    } else {
      val rows = (from until until).filter(row => isKindWanted(kinds.array(kinds.from + row) & 0xff)).toArray
      if (rows.isEmpty) null
      else batchOf(kinds, until, rows.length, new ChosenVector(_, rows))
    }
  }

  /** Rows of a frame, of which `count` are read and `rows` taken. */
  private def batchOf(kinds: ByteSpan, count: Int, rows: Int, chosen: ColumnVector => ColumnVector): ColumnarBatch = {
    wanted.required.foreach { case (field, part) =>
      if (part.place >= 0 && columns.nullsIn(part) > 0) checked(chosen(column(part, kinds, count)), field, rows)
    }
    new ColumnarBatch(wanted.columns.fields.zip(wanted.parts).map { case (asked, part) =>
      def read(): ColumnVector = checked(chosen(column(part, kinds, count)), asked, rows)
      val of = frames
      if (wanted.areAllRead) read() else new LateVector(asked.dataType, () => of.guarded(read()))
    }, rows)
  }

  /** Spark's code does not look for nulls where a table's column says that there are none. */
  private def checked(column: ColumnVector, asked: StructField, rows: Int): ColumnVector = {
    def refuse(what: String): Unit = throw new CecLogException(s"${store.url}: $what column '${asked.name}', which " +
      "the table says is NOT NULL: make the table anew without that",
      named = Map("path" -> store.url, "column" -> asked.name))
    if (!asked.nullable && column.numNulls > 0) refuse(s"${column.numNulls} nulls in")
    if (RequiredParts.firstNull(column, asked.dataType, rows) >= 0) refuse("a null in a part of")
    column
  }

  /** Most frames are of one kind. */
  private def areAllWanted(kinds: ByteSpan, count: Int): Boolean = {
    if (count == 0) return false
    val first = kinds.array(kinds.from) & 0xff
    val (word, end) = (allOfKind(first), kinds.from + count)
    var at = kinds.from
    while (at <= end - 8 && Platform.getLong(kinds.array, Platform.BYTE_ARRAY_OFFSET.toLong + at) == word) at += 8
    while (at < end && isKindWanted(kinds.array(at) & 0xff)) at += 1
    at == end && isKindWanted(first)
  }

  private def column(part: Part, kinds: ByteSpan, count: Int): ColumnVector = part.name match {
    case SourceColumns.Partition =>
      val constant = new ConstantColumnVector(count, IntegerType)
      constant.setInt(slice.part.partition)
      constant
    case SourceColumns.Offset => new RisingVector(frames.firstOffset)
    case RecordFields.Kind => new DictionaryVector(StringType, Nulls.None, kinds, 1, SliceReader.KindNames)
    case _ => columns.column(part)
  }

  override def close(): Unit = columns.close()
}

private object SliceReader {
  /** By kind; others are not wanted. */
  private val KindNames: Array[UTF8String] = (null +: SourceOptions.KindNames.map(UTF8String.fromString)).toArray
}
