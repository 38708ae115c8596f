package org.apache.spark.sql.cecstore.source

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.internal.SQLConf

/**
 * Slices as tasks of a batch, by the settings by which Spark packs files (`spark.sql.files.maxPartitionBytes`,
 * `openCostInBytes`, `minPartitionNum`): a thousand small partitions are not a thousand tasks, nor is a large one.
 *
 * @param share of all columns' bytes that is wanted
 */
private[source] final class Packing(share: Double, session: SparkSession) {
  private val conf = session.sessionState.conf

  /** How many records a task may have, `least` at least, for these slices to be tasks of that size. */
  def recordsMax(slices: Seq[Slice], least: Long): Long = {
    val found = BigDecimal(slices.map(_.rows).sum) * bytesMax(slices) / math.max(1L, slices.map(size).sum)
    math.max(least, found.min(BigDecimal(Long.MaxValue)).toLong)
  }

  def tasks(slices: Seq[Slice], recordsMax: Long): Seq[IndexedSeq[Slice]] = {
    val most = bytesMax(slices)
    val groups = slices.foldLeft(List.empty[Group]) {
      case (last :: before, slice) if last.hasRoomFor(slice, most, recordsMax) => last.and(slice) :: before
      case (all, slice) => Group(Vector(slice), size(slice), slice.rows) :: all
    }
    groups.reverse.map(_.slices)
  }

  private def bytesMax(slices: Seq[Slice]): Long = {
    val tasksMin = conf.filesMinPartitionNum.orElse(conf.getConf(SQLConf.LEAF_NODE_DEFAULT_PARALLELISM))
      .getOrElse(session.sparkContext.defaultParallelism)
    val ofTask = slices.map(size).sum / math.max(1, tasksMin)
    math.min(conf.filesMaxPartitionBytes, math.max(conf.filesOpenCostInBytes, ofTask))
  }

  /** To open a segment costs as much as to read so many bytes. */
  private def size(slice: Slice): Long = bytes(slice) + conf.filesOpenCostInBytes * slice.segments.size

  private final case class Group(slices: Vector[Slice], bytes: Long, rows: Long) {
    def hasRoomFor(slice: Slice, bytesMax: Long, recordsMax: Long): Boolean =
      bytes + size(slice) <= bytesMax && rows + slice.rows <= recordsMax
    def and(slice: Slice): Group = Group(slices :+ slice, bytes + size(slice), rows + slice.rows)
  }

  /** Of the wanted columns, about. */
  private def bytes(slice: Slice): Long = slice.segments.map { segment =>
    val rows = math.min(segment.endOffset, slice.part.stop) - math.max(segment.firstOffset, slice.part.start)
    (share * segment.bytes * math.max(0L, rows) / segment.records).toLong
  }.sum
}
