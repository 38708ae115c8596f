package org.apache.spark.sql.cecstore.log

import org.apache.spark.sql.cecstore.format.{BadFrame, Format, FrameHeader}

/** What stands behind the last whole frame of a segment: the unfinished write of a dead writer, or damage. docs/format.md §9. */
private[log] object SegmentTail {
  private val SearchBytes = 1 << 20

  /**
   * Raise if it can only be damage: somebody builds on it, more of this segment's frames follow, or a frame
   * is all there and wrong.
   *
   * @param builtOn how many bytes of the segment others build on
   */
  def check(segment: SegmentReader, builtOn: Long): Unit = {
    val (byte, reason) = segment.framesEnd
    if (byte < builtOn || byte < segment.size && (!isUnfinished(segment, byte) || hasFrameBeyond(segment, byte + 1))) {
      throw segment.damaged(byte, reason)
    }
  }

  /** Whether the file is just too short for what begins here, or goes on with zeros that were never filled. */
  private def isUnfinished(segment: SegmentReader, byte: Long): Boolean = {
    val header = segment.read(byte, Format.HeaderBytes)
    header.length < Format.HeaderBytes || segment.read(byte + 124, SearchBytes).forall(_ == 0) ||
      (try byte + FrameHeader.decode(header).frameBytes > segment.size catch { case _: BadFrame => false })
  }

  private def hasFrameBeyond(segment: SegmentReader, from: Long): Boolean = {
    val salt = segment.header.map(_.salt)
    Iterator.iterate(from)(_ + SearchBytes).takeWhile(_ < segment.size).exists { at =>
      val block = segment.read(at, SearchBytes + Format.HeaderBytes)
      (0 to math.min(block.length - Format.HeaderBytes, SearchBytes - 1)).exists(i => block(i) == 'C' && isFrame(block, i, salt))
    }
  }

  private def isFrame(block: Array[Byte], at: Int, salt: Option[Long]): Boolean =
    try {
      val h = FrameHeader.decode(block.slice(at, at + Format.HeaderBytes))
      h.isBatch && salt.forall(_ == h.salt)
    } catch { case _: BadFrame => false }
}
