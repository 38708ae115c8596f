package org.apache.spark.sql.cecstore.log

import org.apache.spark.sql.cecstore.format.{BadFrame, EndFacts, Ends, Format, Frame, FrameHeader, Gap, LogKind}

/**
 * The end of a segment: its newest whole frame, and whether what stands behind that is the unfinished write of a
 * dead writer, or damage. docs/format.md §9.
 */
private[log] object SegmentTail {
  private val FirstSearchBytes = 64 << 10
  private val SearchBytes = 1 << 20

  /** The newest BATCH frame, and where the whole frames end, and why there. */
  final case class Found(newest: Option[FrameAt], end: Gap)

  def fileEnd(byte: Long): Gap = Gap(byte, new BadFrame("the file ends here"))

  /** Look for the newest frame from the file's end on; none where no frame follows the one before it. */
  def find(segment: SegmentReader): Option[Found] = {
    var to = segment.size
    var length = FirstSearchBytes
    while (to > Format.HeaderBytes) {
      val from = math.max(Format.HeaderBytes, to - length)
      val until = math.min(segment.size, to + Format.HeaderBytes - 1)
      segment.loadBack(from, until)
      val block = segment.read(from, (until - from).toInt)
      val found = segment.scan.intactIn(block, from, isBack = true).flatMap(foundAt(segment, _)).nextOption()
      if (found.nonEmpty) return found
      to = from
      length = SearchBytes
    }
    None
  }

  private def foundAt(segment: SegmentReader, frame: Frame): Option[Found] =
    if (frame.byte == Format.HeaderBytes) Some(Found(None, endAt(segment, frame.end)))
    else if (!frame.header.isBatch) None
    else {
      val head = frame.header
      val before = segment.frameAt(if (head.prevSegment == segment.id) head.prevByte else Format.HeaderBytes)
      before.filter(_.isBefore(frame)).map { previous =>
        if (frame.end <= segment.size) Found(Some(FrameAt(segment, frame)), endAt(segment, frame.end))
        else Found(Some(previous).filter(_.header.isBatch).map(FrameAt(segment, _)),
          Gap(frame.byte, new BadFrame("body cut short")))
      }
    }

  private def endAt(segment: SegmentReader, byte: Long): Gap =
    if (byte == segment.size) fileEnd(byte)
    else try {
      segment.scan.frameAt(byte)
      Gap(byte, new BadFrame("the frame does not follow the one before it"))
    } catch { case e: BadFrame => Gap(byte, e) }

  /**
   * Raise if what stands behind the last whole frame can only be damage: somebody builds on it, more of this
   * segment's frames follow, or a frame is all there and wrong.
   *
   * @param builtOn how many bytes of the segment others build on
   */
  def check(segment: SegmentReader, builtOn: Long): Unit = {
    val gap = segment.framesEnd
    val facts = EndFacts(gap.byte, segment.size, builtOn, isNewer = gap.isNewer)
    val all = if (gap.byte >= segment.size) facts
    else facts.copy(isUnfinished = isUnfinished(segment, gap.byte), hasFrameBeyond = hasFrameBeyond(segment, gap.byte + 1))
    if (Ends.isRefused(Ends.judge(LogKind.State, all)._1)) throw segment.damaged(gap)
  }

  /** Whether the file is just too short for what begins here, or goes on with zeros that were never filled. */
  private def isUnfinished(segment: SegmentReader, byte: Long): Boolean = {
    val header = segment.read(byte, Format.HeaderBytes)
    header.length < Format.HeaderBytes || blocks(segment, byte + 124).forall(_._2.forall(_ == 0)) ||
      (try byte + FrameHeader.decode(header).frameBytes > segment.size catch { case _: BadFrame => false })
  }

  private def hasFrameBeyond(segment: SegmentReader, from: Long): Boolean =
    blocks(segment, from).exists { case (at, block) => segment.scan.intactIn(block, at).nonEmpty }

  /** What follows in the file; each block ends with what a header that begins in it may need. */
  private def blocks(segment: SegmentReader, from: Long): Iterator[(Long, Array[Byte])] =
    Iterator.iterate(from)(_ + SearchBytes).takeWhile(_ < segment.size)
      .map(at => (at, segment.read(at, SearchBytes + Format.HeaderBytes - 1)))
}
