package org.apache.spark.sql.cecstore.state

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import scala.util.Using
import org.apache.spark.sql.cecstore.format.BadFrame
import org.apache.spark.sql.cecstore.log.{DirectoryName, FrameAt, SegmentInput}

/** The frame at whose end the state of a directory stands. */
private[state] final case class DirectoryEnd(segment: Long, byte: Long, seq: Long, runningCrc: Int, version: Long) {
  def isAt(frame: FrameAt): Boolean = frame.segment.id == segment && frame.byte == byte && frame.runningCrc == runningCrc
}

private[state] object DirectoryEnd {
  def of(last: FrameAt): DirectoryEnd =
    DirectoryEnd(last.segment.id, last.byte, last.header.seq, last.runningCrc, last.header.inputUpto)
}

/** A key file as a live file names it. */
private[state] final case class KeyFileOf(name: DirectoryName, seal: Seal)

/**
 * Which rows of the extent are live at the end of one version. docs/format.md §16.
 *
 * @param keyFiles which have its frames, oldest first
 * @param parts of each of the newest frames of these files: those of the extent
 */
private[state] final case class LiveFile(
    end: DirectoryEnd, openWindows: Long, endOffset: Long, timesOf: Option[String], keyFiles: Seq[KeyFileOf], parts: Seq[LivePart])

private[state] object LiveFile {
  private val Magic = 0x4c434543 // CECL

  def encoded(live: LiveFile): Iterator[Array[Byte]] = SealedFile.encoded(Magic, Iterator.empty, () => head(live))

  private def head(live: LiveFile): HeadBytes = {
    val out = new HeadBytes
    val end = live.end
    out.long(end.segment).long(end.byte).long(end.seq).int(end.runningCrc).long(end.version).long(live.openWindows).long(live.endOffset)
    val times = live.timesOf.getOrElse("").getBytes(UTF_8)
    out.int(times.length).bytes(times)
    out.int(live.keyFiles.size)
    live.keyFiles.foreach { file => out.long(file.name.segment).long(file.name.seq).int(file.seal.headCrc).int(file.seal.bodyCrc) }
    out.int(live.parts.size)
    live.parts.foreach { part => out.longs(part.bits).int(part.timedRows).longs(part.leastTimes) }
    out
  }

  /** Raises BadFrame. The file is closed then. */
  def read(input: SegmentInput): LiveFile = Using.resource(SealedFile.open(Magic, input))(_.head(read))

  private def read(in: ByteBuffer): LiveFile = {
    val end = DirectoryEnd(in.getLong, in.getLong, in.getLong, in.getInt, in.getLong)
    val (openWindows, endOffset) = (in.getLong, in.getLong)
    val times = new Array[Byte](in.getInt)
    in.get(times)
    val keyFiles = Vector.fill(in.getInt)(KeyFileOf(DirectoryName(in.getLong, in.getLong), Seal(in.getInt, in.getInt)))
    val parts = Vector.fill(in.getInt) {
      val bits = SealedFile.longs(in)
      LivePart(bits, in.getInt, SealedFile.longs(in))
    }
    val live = parts.map(_.liveCount.toLong).sum
    if (live != openWindows || parts.isEmpty) throw new BadFrame(s"a key directory of $openWindows windows has $live live rows")
    LiveFile(end, openWindows, endOffset, Option.when(times.nonEmpty)(new String(times, UTF_8)), keyFiles, parts)
  }
}
