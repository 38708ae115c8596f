package org.apache.spark.sql.cecstore.log

import org.apache.spark.sql.cecstore.format.Format

/** Where a version ends in the log: what the next commit builds on. */
private[cecstore] final case class Base(
    version: Long, logId: Array[Byte], segment: Long, salt: Long, seq: Long, byte: Long, end: Long,
    runningCrc: Int, nextOffset: Long) {
  def nextSeq: Long = seq + 1
  /** The unique id that checkpoint format V2 hands around. docs/format.md §9. */
  def uniqueId: String = f"$segment%016x-$salt%016x-$seq%x"
  def isEmpty: Boolean = segment == Format.NoSegment
}

private[cecstore] object Base {
  def empty(version: Long): Base = Base(version, null, Format.NoSegment, 0, -1, 0, 0, 0, 0)

  def at(last: FrameAt): Base = {
    val head = last.segment.header.get
    Base(last.header.inputUpto, head.logId, head.segmentId, head.salt, last.header.seq, last.byte, last.end,
      last.runningCrc, last.header.endOffset)
  }
}
