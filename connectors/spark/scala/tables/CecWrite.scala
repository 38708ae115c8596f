package org.apache.spark.sql.cecstore.tables

import java.util.UUID
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal
import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.format.{RefusedQuery, SparkErrors}
import org.apache.spark.sql.cecstore.queue.Store
import org.apache.spark.sql.cecstore.source.SentConfiguration
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.metric.CustomMetric
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.connector.write.streaming.{StreamingDataWriterFactory, StreamingWrite}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend
import org.apache.spark.util.SerializableConfiguration

/**
 * Rows of any output mode are appended, as Kafka's sink does it: of `update` those that have changed, of `complete` all
 * of them with each batch. Spark says "truncate" of complete mode, and of a batch that overwrites, which is refused.
 */
private[tables] final class CecWriteBuilder(ofTable: Map[String, String], info: LogicalWriteInfo, kept: KeptCommitter)
    extends WriteBuilder with SupportsTruncate with SupportsStreamingUpdateAsAppend {
  private var truncates = false
  override def truncate(): WriteBuilder = { truncates = true; this }
  override def build(): Write = new CecWrite(ofTable, info, kept, truncates)
}

/** The committer of a query, from one batch to the next. For one query and its driver's thread. */
private[tables] final class KeptCommitter {
  private var committer: Committer = _
  private var isFirst = true
  /** Of the last batch; none before the first. */
  @volatile var metrics: Option[SinkMetrics] = None

  def get(make: => Committer): Committer = { if (committer == null) committer = make; committer }
  /** True once: the first batch that a query commits may have been tried by an earlier run of it. */
  def takeFirst(): Boolean = { val was = isFirst; isFirst = false; was }
  /** Whatever the last commit has come to: look again. */
  def drop(): Unit = { committer = null; isFirst = true }
}

private[tables] final class CecWrite(
    ofTable: Map[String, String], info: LogicalWriteInfo, kept: KeptCommitter, truncates: Boolean) extends Write {
  private val said = info.options.asCaseSensitiveMap.asScala.toMap

  override def description: String = s"cec ${SinkOptions.pathOf(ofTable ++ said)}"
  override def supportedCustomMetrics(): Array[CustomMetric] = SinkMetrics.ofTasks

  override def toBatch: BatchWrite = SparkErrors.told {
    if (truncates) throw new RefusedQuery(
      "CEC_ONLY_APPEND", Map.empty, "a queue is only appended to: mode('append'); TRUNCATE TABLE takes away what is in a table")
    val options = SinkOptions.parse(said, ofTable, isBatch = true)
    val name = options.transaction.getOrElse(Transaction(UUID.randomUUID().toString, 0))
    val sink = new Sink(options, info, name.app, new KeptCommitter, isStream = options.transaction.nonEmpty,
      "A new checkpoint, or a fork, needs a txnAppId of its own")
    new CecBatchWrite(sink, name.version)
  }

  override def toStreaming: StreamingWrite = SparkErrors.told {
    val options = SinkOptions.parse(said, ofTable, isBatch = false)
    new CecStreamingWrite(new Sink(options, info, info.queryId, kept, isStream = true,
      "A copy of a checkpoint has its query's id: cec-store fork makes one of its own"))
  }
}

/** What batches and streams have in common. Makes the queue, or refuses one that does not fit. */
private[tables] final class Sink(
    asked: SinkOptions, info: LogicalWriteInfo, query: String, kept: KeptCommitter, isStream: Boolean, advice: String)
    extends Logging {
  private val session = SparkSession.active
  private val conf = new SerializableConfiguration(session.sessionState.newHadoopConf())
  /** An executor has a working folder of its own: a relative path is from the driver's on. */
  private val options = {
    val named = new Path(asked.path)
    if (named.isAbsolute) asked else asked.copy(path = Store.qualified(named, conf.value).toString)
  }
  private val columns = StoredColumns.of(
    info.schema, options.timestampColumn, options.keyColumns, SQLConf.get.caseSensitiveAnalysis)
  private def committer: Committer = kept.get(
    new Committer(Store.at(new Path(options.path), conf.value, options.singleWriter), columns, options, conf))
  val target: Target = Target(
    options.path, options.singleWriter, info.schema, committer.places, committer.schemaMessage, options.segmentBytes,
    query, SentConfiguration.of(session.sparkContext, conf.value))
  private var wasTried = false

  def commit(batch: Long, messages: Array[WriterCommitMessage]): Unit = {
    wasTried = true
    val found = written(messages)
    // A stream's first batch, and one with a name of its own, may have been tried by somebody who died.
    val isRetried = isStream && kept.takeFirst() || found.exists(_.attempt > 0)
    try kept.metrics = Some(committer.commit(query, batch, found, isStream, isRetried, advice)) catch {
      case e: Throwable => kept.drop(); throw e
    }
  }

  /** Never fails: the reason of the abort is to be told. What a commit may have named stays. */
  def abort(messages: Array[WriterCommitMessage]): Unit = if (!wasTried) try {
    committer.forget(written(messages).flatMap(_.segments).map(_.file).toSet)
  } catch { case NonFatal(e) => logWarning(s"cec: ${options.path}: objects of a write that failed stay: $e") }

  /** Of the tasks that got to their end. */
  private def written(messages: Array[WriterCommitMessage]): Seq[Written] =
    messages.toSeq.collect { case one: Written => one }

  override def toString: String = s"cec ${options.path}"
}

/** `df.write.format("cec").mode("append")`: all of it or nothing; with `txnAppId` and `txnVersion` exactly once. */
private[tables] final class CecBatchWrite(sink: Sink, batch: Long) extends BatchWrite {
  override def createBatchWriterFactory(info: PhysicalWriteInfo): DataWriterFactory = sink.target.ofBatch(batch)
  // Attempts write objects of their own: any number of them may come to their end.
  override def useCommitCoordinator(): Boolean = false
  override def commit(messages: Array[WriterCommitMessage]): Unit =
    SparkErrors.told(sink.commit(batch, messages))
  override def abort(messages: Array[WriterCommitMessage]): Unit = sink.abort(messages)
  override def toString: String = sink.toString
}

/** `df.writeStream.format("cec")`: exactly once by query and batch. */
private[tables] final class CecStreamingWrite(sink: Sink) extends StreamingWrite {
  override def createStreamingWriterFactory(info: PhysicalWriteInfo): StreamingDataWriterFactory = sink.target
  override def useCommitCoordinator(): Boolean = false
  override def commit(batch: Long, messages: Array[WriterCommitMessage]): Unit = sink.commit(batch, messages)
  override def abort(batch: Long, messages: Array[WriterCommitMessage]): Unit = sink.abort(messages)
  override def toString: String = sink.toString
}
