package org.apache.spark.sql.cecstore.source

import java.util.OptionalLong
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.read.{Batch, InputPartition, PartitionReaderFactory, Scan, Statistics}
import org.apache.spark.sql.connector.read.{SupportsPushDownRequiredColumns, SupportsPushDownV2Filters}
import org.apache.spark.sql.connector.read.SupportsReportStatistics
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream
import org.apache.spark.sql.cecstore.columns.{Part, Parts, RequiredParts}
import org.apache.spark.sql.cecstore.format.{SchemaMismatch, SparkErrors}
import org.apache.spark.sql.cecstore.queue.Segment
import org.apache.spark.sql.cecstore.standby.Following
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * What a query wants of a queue. Filters on time narrow what is read, and Spark filters again.
 *
 * @param asked the table's columns: what Spark was told when the query was made
 */
private[cecstore] final class CecScanBuilder(queue: ReadableQueue, said: CaseInsensitiveStringMap, asked: StructType)
    extends SupportsPushDownRequiredColumns with SupportsPushDownV2Filters {
  private val options = SourceOptions.parseForColumns(said.asCaseSensitiveMap)
  private val there = SourceColumns.of(queue.fields, options)
  private val known = new Parts(there, SQLConf.get.caseSensitiveAnalysis)
  private val times = new TimeFilters(queue.fields, options, known.stored)
  private var columns = asked
  private var parts = found(asked)
  private var pushed = Array.empty[Predicate]

  private def found(wanted: StructType): IndexedSeq[Part] = {
    val (unfit, fit) = wanted.toIndexedSeq.partitionMap(field => known.of(field).left.map(field.name -> _))
    if (unfit.nonEmpty) throw SchemaMismatch(queue.store.url, unfit.map(_._1),
      s"the queue has no such columns: ${unfit.map(_._2).mkString("; ")}. It has ${there.toDDL}")
    fit.map(part => part.copy(place = queue.fields.place(part.name).getOrElse(-1)))
  }

  override def pruneColumns(required: StructType): Unit = {
    // Spark goes by what the table says is NOT NULL in a struct, also of parts that it does not read.
    val whole = asked.fields.filter(field => RequiredParts.areIn(field.dataType)).map(field => field.name -> field).toMap
    columns = StructType(required.map(field => whole.getOrElse(field.name, field)))
    parts = found(columns)
  }

  override def pushPredicates(predicates: Array[Predicate]): Array[Predicate] = {
    pushed = predicates.filter(times.narrow)
    predicates
  }
  override def pushedPredicates: Array[Predicate] = pushed

  override def build(): Scan = {
    val required = asked.fields.toIndexedSeq.filterNot(_.nullable)
    new CecScan(queue, said, Wanted(columns, parts, options.kinds, times.lowUs, times.highUs,
      required = required.zip(found(StructType(required)))), pushed)
  }
}

private[cecstore] final class CecScan(
    queue: ReadableQueue, said: CaseInsensitiveStringMap, wanted: Wanted, pushed: Array[Predicate])
    extends Scan with Batch with SupportsReportStatistics {
  private lazy val options = SourceOptions.parse(said.asCaseSensitiveMap, isStream = false)
  /** How much a batch of a stream will take is not known, and its options are not those of a batch query. */
  @volatile private var isStream = false

  override def readSchema(): StructType = wanted.columns
  override def description(): String =
    s"cec ${queue.store.url}" + (if (pushed.isEmpty) "" else pushed.mkString(" [", ", ", "]"))
  override def columnarSupportMode(): Scan.ColumnarSupportMode = Scan.ColumnarSupportMode.SUPPORTED

  /** Of each partition what is there now, as far as it can hold a moment that is wanted. */
  private lazy val ranges: Seq[OffsetRange] = {
    val available = queue.available(options.failOnDataLoss)
    val starts = available.starting(options)
    val ends = available.ending(options.ending)
    starts.toSeq.sortBy(_._1).map { case (number, start) => narrowed(OffsetRange(number, start, ends(number))) }
  }

  private def mayHold(segment: Segment): Boolean =
    segment.leastUs <= wanted.highUs && segment.greatestUs >= wanted.lowUs

  private def narrowed(range: OffsetRange): OffsetRange = {
    val found = queue.segmentsOf(range).filter(mayHold)
    if (found.isEmpty) OffsetRange(range.partition, range.start, range.start)
    else OffsetRange(range.partition, math.max(range.start, found.head.firstOffset),
      math.min(range.stop, found.last.endOffset))
  }

  override def toBatch: Batch = this
  override def toMicroBatchStream(checkpoint: String): MicroBatchStream = SparkErrors.told {
    isStream = true
    val options = SourceOptions.parse(said.asCaseSensitiveMap, isStream = true)
    val session = SparkSession.active
    val following = options.followCheckpoint.map(primary =>
      new Following(primary, checkpoint, session, session.sessionState.newHadoopConf()))
    new CecStream(queue, options, wanted.copy(areAllRead = false), new Beginning(checkpoint, session.sessionState.newHadoopConf()), following)
  }

  override def planInputPartitions(): Array[InputPartition] = SparkErrors.told {
    val packing = new Packing(wanted.shareOf(SourceColumns.of(queue.fields, options)), SparkSession.active)
    def slices(recordsMax: Long, tasksMin: Option[Long]) =
      CecScan.slices(queue, ranges, options.copy(maxRecordsPerPartition = recordsMax, minPartitions = tasksMin), mayHold)
    val most = options.maxRecordsPerPartition
    val recordsMax =
      if (said.containsKey("maxRecordsPerPartition")) most else packing.recordsMax(slices(Long.MaxValue, None), most)
    val found = slices(recordsMax, options.minPartitions)
    val groups = if (options.minPartitions.isEmpty) packing.tasks(found, recordsMax) else found.map(IndexedSeq(_))
    groups.map(CecScan.group(queue, _, isReadAtOnce = false)).toArray
  }

  override def createReaderFactory(): PartitionReaderFactory = CecScan.readers(queue, wanted)

  override def estimateStatistics(): Statistics = SparkErrors.told(if (isStream) CecScan.Unknown else statistics)

  private def statistics: Statistics = new Statistics {
    private val rows = ranges.map(range => math.max(0L, range.stop - range.start)).sum
    override def numRows: OptionalLong = OptionalLong.of(rows)
    override def sizeInBytes: OptionalLong =
      OptionalLong.of(math.max(1L, rows) * math.max(1, wanted.columns.defaultSize))
  }
}

private[cecstore] object CecScan {
  private object Unknown extends Statistics {
    override def numRows: OptionalLong = OptionalLong.empty
    override def sizeInBytes: OptionalLong = OptionalLong.empty
  }

  /** What is read of these ranges; a slice without a segment that may hold what is wanted is none. */
  def slices(queue: ReadableQueue, ranges: Seq[OffsetRange], options: SourceOptions,
      mayHold: Segment => Boolean): Seq[Slice] =
    AvailableOffsets.cut(ranges, options.minPartitions, options.maxRecordsPerPartition).map { piece =>
      val whole = ranges.find(_.partition == piece.partition).get
      val slice = Slice(whole, piece, IndexedSeq.empty)
      slice.copy(segments = queue.segmentsOf(piece).filter(s => mayHold(s) && (s.frames > 1 || slice.has(s.firstOffset))))
    }.filter(_.segments.nonEmpty)

  /** What one task reads, with what the driver has read of it. */
  def group(queue: ReadableQueue, slices: IndexedSeq[Slice], isReadAtOnce: Boolean): SliceGroup = {
    val inline = for (slice <- slices; segment <- slice.segments; rows <- queue.inlineRows(segment))
      yield (segment.file, segment.byte) -> rows
    SliceGroup(slices, inline.toMap, isReadAtOnce)
  }

  def readers(queue: ReadableQueue, wanted: Wanted): PartitionReaderFactory = {
    val session = SparkSession.active
    val configuration = SentConfiguration.of(session.sparkContext, session.sessionState.newHadoopConf())
    val planned = PlannedQueue(queue.path, queue.id, queue.ends, queue.seen)
    new SliceReaderFactory(planned, configuration, queue.schemaMessage, wanted)
  }
}
