package org.apache.spark.sql.cecstore.log

import org.apache.spark.sql.cecstore.format.{BadFrame, EndFacts, Ends, Format, FrameHeader, LogKind, Verdict}

/**
 * The end of a segment: its newest whole frame, and whether what stands behind that is the unfinished write of a
 * dead writer, or damage. docs/format.md §9.
 */
private[log] object SegmentTail {
  private val FirstSearchBytes = 64 << 10
  private val SearchBytes = 1 << 20
  val FileEnd = "the file ends here"

  /** The newest BATCH frame, and where the whole frames end, and why there. */
  final case class Found(newest: Option[FrameAt], end: (Long, String))

  /** Look for the newest frame from the file's end on; none where no frame follows the one before it. */
  def find(segment: SegmentReader): Option[Found] = {
    var to = segment.size
    var length = FirstSearchBytes
    while (to > Format.HeaderBytes) {
      val from = math.max(Format.HeaderBytes, to - length)
      segment.loadBack(from, math.min(segment.size, to + Format.HeaderBytes))
      val block = segment.read(from, (math.min(segment.size, to + Format.HeaderBytes) - from).toInt)
      var at = math.min((to - from).toInt - 1, block.length - Format.HeaderBytes)
      while (at >= 0) {
        if (startsFrame(block, at)) {
          val found = foundAt(segment, from + at, block, at)
          if (found.nonEmpty) return found
        }
        at -= 1
      }
      to = from
      length = SearchBytes
    }
    None
  }

  private def startsFrame(block: Array[Byte], at: Int): Boolean =
    block(at) == 'C' && block(at + 1) == 'E' && block(at + 2) == 'C' && block(at + 3) == 'F'

  private def foundAt(segment: SegmentReader, byte: Long, block: Array[Byte], at: Int): Option[Found] = try {
    val h = segment.frameHeader(block.slice(at, at + Format.HeaderBytes), segment.header.get)
    if (byte == Format.HeaderBytes) return Some(Found(None, endAt(segment, byte + h.frameBytes)))
    if (!h.isBatch) return None
    val before = segment.at(if (h.prevSegment == segment.id) h.prevByte else Format.HeaderBytes)
      .filter(p => p.end == byte && p.runningCrc == h.chainCrc)
    before.map { previous =>
      if (byte + h.frameBytes > segment.size) Found(Some(previous).filter(_.header.isBatch), (byte, "body cut short"))
      else Found(segment.at(byte), endAt(segment, byte + h.frameBytes))
    }
  } catch { case _: BadFrame => None }

  private def endAt(segment: SegmentReader, byte: Long): (Long, String) = byte ->
    (if (byte == segment.size) FileEnd
    else try {
      segment.frameHeader(segment.read(byte, Format.HeaderBytes), segment.header.get)
      "the frame does not follow the one before it"
    } catch { case e: BadFrame => e.reason })

  /**
   * Raise if what stands behind the last whole frame can only be damage: somebody builds on it, more of this
   * segment's frames follow, or a frame is all there and wrong.
   *
   * @param builtOn how many bytes of the segment others build on
   */
  def check(segment: SegmentReader, builtOn: Long): Unit = {
    val (byte, reason) = segment.framesEnd
    val facts = EndFacts(byte, segment.size, builtOn)
    val all = if (byte >= segment.size) facts
    else facts.copy(isUnfinished = isUnfinished(segment, byte), hasFrameBeyond = hasFrameBeyond(segment, byte + 1))
    if (Ends.judge(LogKind.State, all)._1 == Verdict.Damage) throw segment.damaged(byte, reason)
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
      (0 to math.min(block.length - Format.HeaderBytes, SearchBytes - 1)).exists(i => startsFrame(block, i) && isFrame(block, i, salt))
    }
  }

  private def isFrame(block: Array[Byte], at: Int, salt: Option[Long]): Boolean =
    try {
      val h = FrameHeader.decode(block.slice(at, at + Format.HeaderBytes))
      h.isBatch && salt.forall(_ == h.salt)
    } catch { case _: BadFrame => false }
}
