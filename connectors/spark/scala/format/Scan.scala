package org.apache.spark.sql.cecstore.format

/** What a scan comes to: a whole frame, or a gap. */
private[cecstore] sealed trait Scanned

/** A frame of a segment; `chain` is the segment's running CRC at its end. */
private[cecstore] final case class Frame(byte: Long, header: FrameHeader, chain: Int) extends Scanned {
  def end: Long = byte + header.frameBytes
  def isBefore(next: Frame): Boolean = end == next.byte && chain == next.header.chainCrc
}

/** The first byte that begins no whole frame of the segment, and why. */
private[cecstore] final case class Gap(byte: Long, why: BadFrame) extends Scanned {
  def isNewer: Boolean = why.isInstanceOf[NewerFrame]
}

/**
 * The only walk over the frames of a segment. docs/format.md §7. Strict readers raise at a gap, lenient ones judge it.
 *
 * @param salt of the segment; none takes frames of any
 * @param decode a frame's header; raises BadFrame
 * @param read returns so many bytes from a byte on, fewer at the end
 */
private[cecstore] final class Scan(salt: Option[Long], decode: Array[Byte] => FrameHeader, read: (Long, Int) => Array[Byte]) {
  import Format._

  /** The frame at a byte, its header proven; its chain CRC is believed. Raises BadFrame. */
  def frameAt(byte: Long): Frame = framed(byte, read(byte, HeaderBytes), None)

  private def framed(byte: Long, bytes: Array[Byte], chain: Option[Int]): Frame = {
    val header = decode(bytes)
    if (salt.exists(_ != header.salt)) throw new BadFrame("the frame belongs to another segment")
    Frame(byte, header, RunningCrc.extended(chain.getOrElse(header.chainCrc), bytes))
  }

  /**
   * The frames from `start` until `stop`, up to the first place that is none: a gap, which comes last.
   *
   * @param due the number of the first one; none takes that which is there
   * @param chain the running CRC before it; none believes that of each frame
   * @param prove raises BadFrame for a frame that is not whole
   */
  def frames(start: Long, stop: Long, due: Option[Long] = None, chain: Option[Int] = None)(
      prove: Frame => Unit): Iterator[Scanned] = new Iterator[Scanned] {
    private var byte = start
    private var number = due
    private var crc = chain
    override def hasNext: Boolean = byte < stop
    override def next(): Scanned = try {
      val frame = framed(byte, read(byte, HeaderBytes), crc)
      val seq = frame.header.seq
      if (number.exists(_ != seq)) throw new BadFrame(s"frame number $seq where ${number.get} is due")
      if (frame.header.frameBytes > stop - byte) throw new BadFrame(s"the frame goes on beyond byte $stop, the end")
      prove(frame)
      byte = frame.end
      number = Some(frame.header.nextSeq)
      crc = chain.map(_ => frame.chain)
      frame
    } catch { case e: BadFrame =>
      val gap = Gap(byte, e)
      byte = stop
      gap
    }
  }

  /** The body of a frame as it is stored. Raises BadFrame where it is not that which was written. */
  def body(frame: Frame): Array[Byte] = {
    val body = read(frame.byte + HeaderBytes, frame.header.bodyBytes)
    if (body.length < frame.header.bodyBytes) throw new BadFrame("body cut short")
    frame.header.proveBody(body)
    body
  }

  /** The frames of which a sound header begins in these bytes, which stand from `from` on; newest first if `isBack`. */
  def intactIn(block: Array[Byte], from: Long, isBack: Boolean = false): Iterator[Frame] = {
    val last = block.length - HeaderBytes
    val places = if (isBack) last to 0 by -1 else 0 to last
    val starts = places.iterator.filter { at =>
      block(at) == 'C' && block(at + 1) == 'E' && block(at + 2) == 'C' && block(at + 3) == 'F'
    }
    // Four bytes that only look like the beginning of a frame are none.
    starts.flatMap { at =>
      try Some(framed(from + at, block.slice(at, at + HeaderBytes), None)) catch { case _: BadFrame => None }
    }
  }
}

private[cecstore] object Scan {
  /** Of bytes that are all in memory. */
  def of(bytes: Array[Byte], salt: Option[Long], decode: Array[Byte] => FrameHeader): Scan =
    new Scan(salt, decode, (from, count) => bytes.slice(from.toInt, math.min(from + count, bytes.length.toLong).toInt))
}
