package org.apache.spark.sql.cecstore.log

import java.util.Random
import org.apache.spark.sql.cecstore.format.{Body, Format, FrameHeader, RunningCrc, SegmentHeader, StoredBody}

/**
 * A version as it goes into the log: its bodies with their numbers of records, one at least, and what its last header
 * says.
 */
private[cecstore] final case class Commit(
    version: Long, bodies: Iterator[(StoredBody, Int)], extentRecords: Long, openWindows: Long, timestampUs: Long)

/**
 * Appends commits to segments of its own. docs/format.md §9. After a failed write or sync the segment is never
 * touched again: the next commit begins another, on the last version that succeeded. Only the thread of the
 * task that owns the instance calls it; another may [[Writing.run]] what it has encoded, while it does something else.
 *
 * @param isLastToCount whether a commit has to stand behind all that are in the directory: checkpoint format V1
 * @param ordinalSeen the highest ordinal in the directory when the base was loaded
 */
private[cecstore] final class SegmentWriter(
    folder: SegmentFolder, segmentBytes: Long, isSynced: Boolean, isLastToCount: Boolean,
    ordinalSeen: Long, random: Random, clockUs: () => Long) {
  import Format._

  private var ordinal = ordinalSeen
  private var output: SegmentOutput = null
  private var header: SegmentHeader = null
  /** Bytes of the segment, those about to be written included. */
  private var bytes = 0L
  private var syncedBytes = 0L
  private var runningCrc = 0
  /** The version that ends the segment. */
  private var last: Base = null

  /** False once a file system turned out to publish whole objects only. */
  var grows = true

  /** Begin the write of a version on top of `base`, where the one before is durable. */
  def append(base: Base, commit: Commit): Writing = {
    val highest = if (isLastToCount) folder.list().lastOption else None
    val isHighest = output != null && highest.forall(_ <= StateLog.mergedId(header.segmentId))
    val goesOn = isHighest && (last eq base) && bytes < segmentBytes && output.hold()
    val before = if (goesOn) bytes else 0L
    val head = if (goesOn) Seq.empty else {
      close()
      ordinal = math.max(ordinal, highest.fold(0L)(_ >>> 32))
      begin(base)
    }
    val growing = if (goesOn) Some(output) else None
    output = null // until it has succeeded
    new Writing(base, commit, growing, before, head)
  }

  /** A version on its way into the log. */
  final class Writing private[SegmentWriter] (
      base: Base, commit: Commit, growing: Option[SegmentOutput], before: Long, head: Seq[Array[Byte]]) {
    private var end_ = base
    private var parts = head.iterator ++ commit.bodies.flatMap { case (body, records) =>
      val (made, frame) = frameOf(end_, commit, body, records, isLast = !commit.bodies.hasNext)
      end_ = made
      frame
    }

    /** Have all of it in memory, so that [[end]] is known before it is written. */
    def encode(): Unit = parts = parts.toVector.iterator

    /** Make it durable. Another thread may do so, for which who goes on with this writer waits. */
    def run(): Unit = {
      output = growing match {
        case Some(grown) => grown.append(before, parts, isSynced); grown
        case None => folder.create(header.segmentId, parts, isSynced)
      }
      grows = output.grows
      if (isSynced) syncedBytes = bytes
      last = end_
    }

    /** Where the version ends, once it is encoded or written. */
    def end: Base = end_
    def writtenBytes: Long = bytes - before
  }

  private def begin(base: Base): Seq[Array[Byte]] = {
    ordinal += 1
    val id = ordinal << 32 | (random.nextInt() & 0x7fffffffL) << 1
    val logId = if (base.isEmpty) { val fresh = new Array[Byte](16); random.nextBytes(fresh); fresh } else base.logId
    header = SegmentHeader(
      logId, id, random.nextLong(), base.nextSeq, base.segment, base.end, base.salt, base.runningCrc, clockUs())
    runningCrc = 0
    bytes = 0
    syncedBytes = 0
    val schema = Body.schemaMessage
    added(header.encoded, Array.emptyByteArray) ++
      added(FrameHeader(Schema, CodecNone, 0, RecordStream, runningCrc, base.nextSeq, base.nextOffset, base.segment, base.byte,
        HeaderBytes, 0, header.salt, Long.MaxValue, Long.MinValue, 0, base.version, 0, 0, schema.length, schema.length,
        Format.crc32c(schema, schema.length)).encoded, schema)
  }

  private def frameOf(before: Base, commit: Commit, body: StoredBody, records: Int, isLast: Boolean): (Base, Seq[Array[Byte]]) = {
    val (low, high) = if (records == 0) (Long.MaxValue, Long.MinValue) else (commit.timestampUs, commit.timestampUs)
    val byte = bytes
    val flags: Short = if (isLast) Counted else 0
    val frame = added(FrameHeader(Batch, body.codec, flags, RecordStream, runningCrc, before.nextSeq, before.nextOffset,
      before.segment, before.byte, HeaderBytes, syncedBytes, header.salt, low, high, if (isLast) commit.extentRecords else 0, commit.version,
      records, if (isLast) commit.openWindows.toInt else 0, body.bytes.length, body.rawBytes,
      Format.crc32c(body.bytes, body.bytes.length)).encoded, body.bytes)
    val end = Base(commit.version, header.logId, header.segmentId, header.salt, before.nextSeq, byte, bytes,
      runningCrc, before.nextOffset + records)
    (end, frame)
  }

  private def added(head: Array[Byte], body: Array[Byte]): Seq[Array[Byte]] = {
    runningCrc = RunningCrc.extended(runningCrc, head)
    bytes += head.length + body.length
    Seq(head, body)
  }

  /** Let go of the segment; the next commit begins another. */
  def close(): Unit = {
    val output_ = output
    output = null
    if (output_ != null) output_.close()
  }
}
