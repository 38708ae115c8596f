package org.apache.spark.sql.cecstore.tables

import java.util.{Collections, EnumSet, Map => JMap, Set => JSet}
import scala.jdk.CollectionConverters._
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.cecstore.format.SparkErrors
import org.apache.spark.sql.cecstore.queue.{NotAQueue, Store}
import org.apache.spark.sql.cecstore.source.{CecScanBuilder, KeptQueue, SourceOptions}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.catalog.{SupportsRead, SupportsWrite, TableCapability, TableCatalog, TruncatableTable}
import org.apache.spark.sql.connector.catalog.TableCapability._
import org.apache.spark.sql.connector.read.{LocalScan, Scan, ScanBuilder}
import org.apache.spark.sql.connector.read.streaming.{MicroBatchStream, ReportsSinkMetrics}
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, WriteBuilder}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A queue as Spark sees it. One object serves one query, from batch to batch. */
private[cecstore] final class CecTable(columns: StructType, options: Map[String, String], queue: KeptQueue)
    extends SupportsRead with SupportsWrite with TruncatableTable with ReportsSinkMetrics {
  private val kept = new KeptCommitter
  private val isOfCatalog = TableOptions.areOfCatalog(options)
  private val ofSource = TableOptions.ofSource(options)

  /** A table's columns may be NOT NULL; whether those of a reader's schema have nulls is not its to say. */
  override val schema: StructType = if (isOfCatalog) columns else columns.asNullable

  override def name(): String = s"cec ${SinkOptions.pathOf(options)}"

  /** For DESCRIBE: those of a reader or a writer are its own. The path is the table's location. */
  override def properties(): JMap[String, String] =
    if (isOfCatalog) (options.removed("path") ++ options.get("path").map(TableCatalog.PROP_LOCATION -> _) ++
      Option.when(TableOptions.isExternal(options))(TableCatalog.PROP_EXTERNAL -> "true")).asJava
    else lineage.asJava

  private lazy val lineage: Map[String, String] = Some(SinkOptions.pathOf(options)).filter(_.nonEmpty)
    .fold(Map.empty[String, String])(TableOptions.lineage(_, SparkSession.active.sessionState.newHadoopConf()))

  override def capabilities(): JSet[TableCapability] =
    EnumSet.of(BATCH_READ, MICRO_BATCH_READ, BATCH_WRITE, STREAMING_WRITE, TRUNCATE)

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = new CecWriteBuilder(options, info, kept)

  /** TRUNCATE TABLE, by which a declarative pipeline also begins a full refresh and each run of a materialized view. */
  override def truncateTable(): Boolean = SparkErrors.told {
    val own = SinkOptions.parse(Map.empty, options, isBatch = true)
    val configuration = SparkSession.active.sessionState.newHadoopConf()
    Committer.truncate(Store.at(Store.qualified(new Path(own.path), configuration), configuration, own.singleWriter))
    true
  }

  /** Of the last batch. */
  override def metrics(): JMap[String, String] = kept.metrics.fold(Collections.emptyMap[String, String])(_.asProgress)

  /** A table of a catalog has options of its own besides those of the query. */
  override def newScanBuilder(ofQuery: CaseInsensitiveStringMap): ScanBuilder = SparkErrors.told {
    val own = ofSource.filter { case (name, _) => SourceOptions.isKnown(name) && !ofQuery.containsKey(name) }
    val asked = new CaseInsensitiveStringMap((own ++ ofQuery.asCaseSensitiveMap.asScala).asJava)
    val path = SourceOptions.parseForColumns(asked.asCaseSensitiveMap).path
    val found = if (isOfCatalog) queue.ifMade(path) else Some(queue.at(path))
    found.fold[ScanBuilder](new NoRows(path, schema))(new CecScanBuilder(_, asked, schema))
  }
}

/** Of a table that nobody has inserted into. */
private final class NoRows(path: String, override val readSchema: StructType) extends ScanBuilder with LocalScan {
  override def build(): Scan = this
  override def rows(): Array[InternalRow] = Array.empty
  override def toMicroBatchStream(checkpoint: String): MicroBatchStream =
    throw new NotAQueue(path, s"no queue here yet: insert into the table first, or start what writes to it")
}
