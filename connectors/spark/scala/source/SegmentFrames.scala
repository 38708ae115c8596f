package org.apache.spark.sql.cecstore.source

import java.io.FileNotFoundException
import java.util.Arrays
import org.apache.spark.sql.cecstore.queue.{Segment, Store}
import org.apache.spark.sql.cecstore.format.{BadFrame, DamagedLog, Format, Frame, FrameHeader, Gap, Scan}

/**
 * The frames of a segment that a commit names, one after the other. The object is read in windows, a request each:
 * a segment that is no larger than one takes one. Of large frames that are passed over the headers alone are read.
 * docs/format.md §11. For one thread.
 *
 * @param begin an offset before which no frame is wanted
 * @param known the bytes of its frames, where somebody has read them
 */
private[cecstore] final class SegmentFrames(store: Store, segment: Segment, begin: Long = 0,
    known: Option[Array[Byte]] = None) {
  import SegmentFrames._

  private val path = s"${store.url}/${segment.file}"
  private val end = segment.byte + segment.bytes
  private val scan = new Scan(Some(segment.salt), FrameHeader.decodeOfQueue, read).frames(segment.byte, end)(_ => ())
  private var window = known.getOrElse(Array.emptyByteArray)
  private var windowAt = segment.byte
  private var records = 0L
  private var frames = 0
  private var isPassing = segment.frames > 1 && segment.firstOffset < begin && segment.bytes > WindowBytes

  /** Of the frame that was last gone to: its header, and the offset of its first record in the partition. */
  var header: FrameHeader = _
  var firstOffset: Long = _
  /** Offset behind the frames that were gone to before. */
  var readUpto: Long = segment.firstOffset
  /** Where its body stands. */
  def bytes: Array[Byte] = window
  def bodyAt: Int = (byte + Format.HeaderBytes - windowAt).toInt
  /** Where it stands, or what is no frame. */
  private var byte = segment.byte

  /** Go to the next frame of records that is wanted, by its header and first offset; the others are passed over. */
  def next(isWanted: (FrameHeader, Long) => Boolean): Boolean = guarded {
    var isFound = false
    if (header != null && header.isBatch) readUpto = firstOffset + header.recordCount
    while (!isFound && scan.hasNext) scan.next() match {
      case Gap(at, why) =>
        byte = at
        throw why
      case frame: Frame =>
        byte = frame.byte
        header = frame.header
        firstOffset = segment.firstOffset + records
        if (header.isBatch) {
          records += header.recordCount
          frames += 1
          isFound = isWanted(header, firstOffset)
          isPassing = !isFound && header.bodyBytes >= LargeBytes && records < segment.records
        }
    }
    if (isFound) {
      have(byte + Format.HeaderBytes, header.bodyBytes, WindowBytes)
      header.proveBody(window, bodyAt)
    } else if (records != segment.records || frames != segment.frames) {
      throw new BadFrame(s"$frames frames with $records records, not those of the commit")
    }
    isFound
  }

  private def read(from: Long, count: Int): Array[Byte] = {
    have(from, count, if (isPassing) count else WindowBytes)
    val start = (from - windowAt).toInt
    Arrays.copyOfRange(window, start, start + count)
  }

  /** Have these bytes in the window; where they are not, so many at least are read. */
  private def have(from: Long, count: Int, ahead: Long): Unit = {
    if (count > end - from) throw new BadFrame(s"a frame goes beyond the ${segment.bytes} bytes that the commit names")
    if (from < windowAt || from + count > windowAt + window.length) {
      val size = math.min(end - from, math.max(count.toLong, ahead)).toInt
      window = Array.emptyByteArray // the garbage collector may have it before there is another
      window = try store.read(segment.file, from, size) catch {
        case _: FileNotFoundException => throw DamagedLog(path, 0, "an object that a commit names is missing")
      }
      windowAt = from
      if (window.length != size) throw new BadFrame("the object ends within what the commit names")
    }
  }

  /** What is wrong with a frame is said with its place. */
  def guarded[A](act: => A): A = try act catch {
    case e: BadFrame => throw DamagedLog(path, byte, e)
  }
}

private[cecstore] object SegmentFrames {
  private val WindowBytes = 16L << 20
  /** To read so much takes as long as a request of its own. */
  private val LargeBytes = 1 << 20
}
