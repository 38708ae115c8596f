package org.apache.spark.sql.cecstore.tables

import java.security.SecureRandom
import org.apache.hadoop.fs.Path
import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format._
import org.apache.spark.sql.cecstore.queue._
import org.apache.spark.sql.cecstore.source.SegmentFrames
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.util.SerializableConfiguration

/**
 * Puts the frames of neighbouring segments into one object, as they are stored. Tasks do it: no row passes through the
 * driver. docs/format.md §11.
 *
 * @param schemaMessage the queue's record schema, as SCHEMA frames have it
 */
private[tables] final class Merging(path: String, singleWriter: Boolean, conf: SerializableConfiguration,
    schemaMessage: Array[Byte]) extends Merger with Serializable with Logging {
  private val query = f"merge-${Merging.random.nextLong()}%016x"
  private def context: SparkContext = SparkSession.active.sparkContext

  override def bytesMax: Long = Merges.MergedBytes * context.defaultParallelism

  override def all(pieces: Seq[IndexedSeq[Segment]]): Seq[Option[Segment]] =
    context.parallelize(pieces, math.min(pieces.size, context.defaultParallelism)).map(mergedIfSound).collect().toSeq

  /** A task that fails would take along what others have made, which no commit would name. */
  private def mergedIfSound(segments: IndexedSeq[Segment]): Option[Segment] =
    try Some(merged(segments)) catch { case e: CecLogException => logWarning(s"cec: not merged: $e"); None }

  private def merged(segments: IndexedSeq[Segment]): Segment = {
    val store = Store.at(new Path(path), conf.value, singleWriter)
    val header = SegmentWriter.newHeader(SegmentHeader.Compacted)
    val encoder = new SegmentEncoder(header, schemaMessage)
    val name = Names.segment(query, 0, segments.head.partition, header.segmentId)
    val frames = segments.iterator.flatMap(copied(store, _, encoder))
    store.create(name, encoder.begin().iterator ++ frames.flatten)
    val (byte, bytes) = encoder.batches
    segments.head.copy(records = encoder.records, file = name, byte = byte, bytes = bytes, salt = header.salt,
      leastUs = segments.map(_.leastUs).min, greatestUs = segments.map(_.greatestUs).max,
      frames = segments.map(_.frames).sum,
      // As old as the newest of what is in it: retention by time goes by it.
      writtenUs = segments.map(_.writtenUs).max)
  }

  private def copied(store: Store, segment: Segment, encoder: SegmentEncoder): Iterator[Seq[Array[Byte]]] = {
    val frames = new SegmentFrames(store, segment)
    Iterator.continually(frames.next((_, _) => true)).takeWhile(identity).map { _ =>
      val from = frames.header
      val body = java.util.Arrays.copyOfRange(frames.bytes, frames.bodyAt, frames.bodyAt + from.bodyBytes)
      encoder.batch(StoredBody(body, from.rawBytes, from.codec), from.recordCount, from.minTimestampUs,
        from.maxTimestampUs)
    }
  }
}

private[tables] object Merging {
  private val random = new SecureRandom
}
