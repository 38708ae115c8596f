package org.apache.spark.sql.cecstore.store

import org.apache.spark.sql.cecstore.format.Rows
import org.apache.spark.sql.cecstore.state.{RowTime, Zones}
import org.apache.spark.sql.types.{DataType, LongType, StructType, TimestampNTZType, TimestampType}
import org.apache.spark.unsafe.Platform

/**
 * A column of Spark's rows that is a time, read where the bytes lie.
 *
 * @param path for the row, and each struct within it, how many columns it has and which of them it is
 */
private[cecstore] final case class TimePlace(isInKey: Boolean, path: Seq[(Int, Int)], isInMillis: Boolean) extends RowTime {
  import TimePlace._

  override def name: String = s"${if (isInKey) "key" else "value"} ${path.map { case (columns, ordinal) => s"$ordinal/$columns" }.mkString(" ")} " +
    (if (isInMillis) "ms" else "us")

  private val columns = path.map(_._1).toArray
  private val ordinals = path.map(_._2).toArray

  override def of(in: Rows, row: Int): Long =
    if (isInKey) read(in.keyBase, in.keyOffset(row), in.keyLength(row)) else read(in.valueBase, in.valueOffset(row), in.valueLength(row))

  /** A row begins with the byte of its encoding; a struct stands in it as its offset and its size. */
  private def read(base: AnyRef, offset: Long, length: Int): Long = {
    var (start, left) = (offset + 1L, length - 1L)
    var depth = 0
    while (true) {
      val nulls = ((columns(depth) + 63) >> 6) << 3
      val ordinal = ordinals(depth)
      if (left < nulls + columns(depth) * 8L) return NoTime
      if ((Platform.getLong(base, start + ((ordinal >> 6) << 3)) & (1L << (ordinal & 63))) != 0) return NoTime
      val word = Platform.getLong(base, start + nulls + ordinal * 8L)
      depth += 1
      if (depth == columns.length) return if (isInMillis) ofMillis(word) else word
      val offset = word >>> 32
      if (offset > left) return NoTime
      start += offset
      left -= offset
    }
    NoTime
  }

  private def ofMillis(ms: Long): Long =
    if (ms == NoTimeout) Zones.Never
    else if (ms > MillisMax) Zones.Never - 1
    else if (ms < -MillisMax) NoTime
    else ms * 1000
}

private[cecstore] object TimePlace {
  /** A row whose time is null, or is not where it should be, is for the operator to judge. */
  private val NoTime: Long = Zones.Least
  /** In the column of a group's timeout. */
  private val NoTimeout = -1L
  private val MillisMax = Long.MaxValue / 1000

  /** The place that a hint names; None where rows of this schema have no time there. */
  def at(hint: ScanHint, schema: StructType): Option[TimePlace] =
    pathIn(schema, hint.path.toList).map(TimePlace(hint.isInKey, _, hint.isInMillis))

  private def pathIn(kind: DataType, path: List[Int]): Option[List[(Int, Int)]] = (kind, path) match {
    case (LongType | TimestampType | TimestampNTZType, Nil) => Some(Nil)
    case (struct: StructType, ordinal :: rest) if struct.indices.contains(ordinal) =>
      pathIn(struct(ordinal).dataType, rest).map((struct.length, ordinal) :: _)
    case _ => None
  }
}
