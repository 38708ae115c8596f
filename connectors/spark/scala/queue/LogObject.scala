package org.apache.spark.sql.cecstore.queue

import org.apache.spark.sql.cecstore.format._
import scala.util.{Try, Using}
import scala.util.control.NonFatal

/** Rows of a partition that one object holds, as a commit says it: docs/format.md §11 explains each number. */
private[cecstore] final case class Segment(
    partition: Int, firstOffset: Long, records: Long, file: String, byte: Long, bytes: Long, salt: Long,
    leastUs: Long, greatestUs: Long, frames: Int, writtenUs: Long, removed: Boolean) {
  def endOffset: Long = firstOffset + records

  /** Whether the commit that adds it, as it is stored, holds its frames: docs/format.md §11, inline. */
  def isOwn: Boolean = file.isEmpty
}

/**
 * What a queue is after one commit, besides its segments.
 *
 * @param query, batch who commits and which of its batches; without a query there is no batch
 * @param starts, ends oldest and next offset of each partition
 * @param queries the last batch of every streaming query that ever committed
 * @param consumed by `log_id` in hexadecimal: what the batch took in of other queues, next offsets
 * @param schema of a commit that makes a queue: its record schema as in a SCHEMA frame
 */
private[cecstore] final case class Commit(
    operation: Byte, query: Option[String], batch: Long, starts: Array[Long], ends: Array[Long],
    queries: Map[String, Long], consumed: Map[String, Array[Long]], settings: Map[String, String],
    schema: Option[Array[Byte]]) {
  /** Whether this batch of this query is in the queue already. */
  def has(query: String, batch: Long): Boolean = queries.get(query).exists(_ >= batch)
}

private[cecstore] object Operation {
  val (make, append, merge, trim, set): (Byte, Byte, Byte, Byte, Byte) = (1, 2, 3, 4, 5)
}

/**
 * Segments that came and went since an earlier commit, those of the commit that says it included. `base`: number and
 * salt of the earlier one; none: these are all that count.
 */
private[cecstore] final case class Since(base: Option[(Long, Long)], segments: IndexedSeq[Segment])

/**
 * An object of `log/`: a commit with its segments.
 *
 * @param salt random in each commit, so that no two are equal by chance
 * @param previous number and salt of the commit that it goes on from: the one before, or that of `since`
 */
private[cecstore] final case class LogObject(
    number: Long, logId: IndexedSeq[Byte], commit: Commit, segments: IndexedSeq[Segment], createdUs: Long,
    salt: Long = 0, previous: Option[(Long, Long)] = None, since: Option[Since] = None) {

  /** What came since an earlier commit as one commit, where this says it; else this. */
  def atOnce: LogObject = since.fold(this)(s => copy(segments = s.segments, previous = s.base, since = None))

  def encode(): Seq[Array[Byte]] = {
    val (before, saltBefore) = previous.getOrElse((Format.NoSegment, 0L))
    val head = SegmentHeader(logId.toArray, number, salt, 0, before, 0, saltBefore, 0, createdUs).encoded
    val chain = RunningCrc.extended(0, head)
    val first = frame(Format.RecordStream, CommitBody.encode(commit, segments), segments.size, chain)
    val second = for (s <- since.toSeq; raw <- CommitBody.encode(s).toSeq; part <-
      frame(Format.SinceStream, raw, s.segments.size, RunningCrc.extended(chain, first.head))) yield part
    head +: (first ++ second)
  }

  /** The header and the stored body of a COMMIT frame. */
  private def frame(stream: Int, raw: Array[Byte], rows: Int, chain: Int): Seq[Array[Byte]] = {
    val body = Using.resource(new BodyEncoder(LogObject.CompressionLevel))(_.whole(raw, rows))
    val stored = body.bytes
    val header = FrameHeader(Format.Commit, body.codec, 0, stream, chain, 0, 0, Format.NoSegment, 0, Format.HeaderBytes, 0,
      salt, Long.MaxValue, Long.MinValue, 0, 0, rows, 0, stored.length, body.rawBytes, Format.crc32c(stored, stored.length))
    Seq(header.encoded, stored)
  }
}

private[cecstore] object LogObject {
  private val CompressionLevel = 3

  /**
   * Back from bytes that were read from `path`. Raises CecLogException where they are not those of this commit, or where
   * a later format wrote them.
   *
   * @param withSince without it what came since an earlier commit is proven by its checksum alone, and left out: who
   *   follows has it from the commits before
   */
  def decode(bytes: Array[Byte], path: String, number: Long, withSince: Boolean = true): LogObject = try {
    val found = SegmentHeader.decode(bytes)
    if (found.segmentId != number) throw new BadFrame(s"the object is number ${found.segmentId}")
    val scan = Scan.of(bytes, Some(found.salt), FrameHeader.decodeOfCommit)
    val (first, body) = commitAt(scan, Format.HeaderBytes, RunningCrc.extended(0, bytes), Format.RecordStream)
    val (commit, stored) = CommitBody.decode(Body.inflated(first.header, body))
    val frames = bytes.length - inlineBytes(stored)
    val second = Option.when(first.end < frames)(commitAt(scan, first.end, first.chain, Format.SinceStream))
    // An object that is cut by as many bytes as `since` has must not pass for one without it.
    val isCut = second.isEmpty && Try(scan.body(scan.frameAt(first.end))).isSuccess
    if (isCut || second.fold(first)(_._1).end != frames) throw new BadFrame("it does not end where its inline frames do")
    def placed(rows: IndexedSeq[Segment]) = rows.map { s =>
      if (s.isOwn) s.copy(file = Names.commit(number), byte = frames + s.byte) else s
    }
    val since = second.filter(_ => withSince).map { case (frame, body) =>
      CommitBody.decodeSince(Body.inflated(frame.header, body), number, commit.ends.length)
    }
    if (since.exists(s => inlineBytes(s.segments) != bytes.length - frames)) {
      throw new BadFrame("inline frames that came since an earlier commit, and not with this")
    }
    // Only frames of an operator may be without records.
    val isOfRows = !commit.settings.contains(QueueState.Writer)
    if (isOfRows && (stored ++ since.toSeq.flatMap(_.segments)).exists(_.records == 0)) {
      throw new BadFrame("a segment that cannot be")
    }
    val previous = Option.when(found.prevSegment != Format.NoSegment)((found.prevSegment, found.prevSalt))
    LogObject(number, found.logId.toIndexedSeq, commit, placed(stored), found.createdUs, found.salt, previous,
      since.map(s => s.copy(segments = placed(s.segments))))
  } catch {
    case e: BadFrame => throw DamagedLog(path, 0, e)
    case NonFatal(e) => throw DamagedLog(path, Format.HeaderBytes, s"a commit that says what cannot be: $e")
  }

  /** The bytes of inline frames, which follow one another. Raises BadFrame where they do not, or cannot be. */
  private def inlineBytes(segments: IndexedSeq[Segment]): Long = segments.filter(_.isOwn).foldLeft(0L) { (at, segment) =>
    if (segment.removed || segment.bytes <= 0) throw new BadFrame("inline frames that cannot be")
    if (segment.byte != at) throw new BadFrame("inline frames that do not follow one another")
    Math.addExact(at, segment.bytes)
  }

  /** The COMMIT frame of this stream at a byte, and its body as it is stored, both proven. */
  private def commitAt(scan: Scan, byte: Long, chain: Int, stream: Int): (Frame, Array[Byte]) = {
    val frame = scan.frameAt(byte)
    val header = frame.header
    if (header.chainCrc != chain) throw new BadFrame("its chain CRC is not that of what stands before it")
    if (header.streamId != stream) throw new BadFrame(s"a frame of stream ${header.streamId}, where one of $stream is due")
    (frame, scan.body(frame))
  }
}
