package org.apache.spark.sql.cecstore.source

import java.io.FileNotFoundException
import java.util.Arrays
import scala.collection.mutable
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.{BadFrame, DamagedLog, EndFacts, Ends, Format, Frame, FrameHeader, Gap}
import org.apache.spark.sql.cecstore.format.{LogKind, Scan, SegmentHeader, Verdict}
import org.apache.spark.sql.cecstore.log.SegmentFolder
import org.apache.spark.sql.cecstore.queue.{DurableNote, QueueReplaced, Segment, Store}

/**
 * A log that is appended to (docs/format.md §1 to §7), read beside its writer. What it shows is vouched for, to the end of
 * whole steps. Its segment files are seen as a commit by reference would name them. For one thread.
 *
 * @param folder below the store; ends with a slash, or is empty
 */
private[cecstore] final class PlainLog(store: Store, folder: String, partition: Int) {
  private var manifest: Manifest = _
  private val completed = mutable.LongMap.empty[Segment]
  private var newest: SegmentScan = _
  refresh()

  /** Look again how far it reaches. Raises CecLogException for damage where it was acknowledged. */
  def refresh(): Unit = {
    var isRead = false
    while (!isRead) {
      val known = KnownEnd.read(store, folder)
      if (manifest != null && known.manifest.logId != manifest.logId) throw new QueueReplaced(store.url,
        s"${store.url}/$folder: another queue stands here since it was opened; start the query again")
      def isStill = known.manifest.newest == KnownEnd.readManifest(store, folder).newest
      try {
        if (newest != null) refuseOlder(known)
        if (newest == null || newest.id != known.manifest.newest) newest = scan(known.manifest, known.manifest.newest)
        newest.follow(known.noted)
        if (known.noted.isEmpty && newest.hasRecords) KnownEnd.refuseWithoutNote(store, folder, known.manifest)
        manifest = known.manifest
        completed.keysIterator.filter(_ < manifest.first).toSeq.foreach(completed.remove)
        (manifest.first until manifest.newest).foreach(id => completed.getOrElseUpdate(id, complete(known.manifest,
          id)))
        // Recovery cuts a segment off behind what is vouched for, once it has a successor.
        isRead = isStill
      } catch {
        case e: QueueReplaced => throw e
        case e: CecLogException if isStill && firstIsStill(known.manifest) => throw e
        case _: CecLogException => newest = null
      }
    }
  }

  /** Refuse a queue that has not all of the log that was seen, and as it was seen: an older copy, gone on or not. */
  private def refuseOlder(known: KnownEnd): Unit = {
    val (seen, salt) = (newest.shown.byte + newest.shown.bytes, newest.header.salt)
    // After a power cut the note may be older, and the file still has what was seen.
    def isCut = try store.size(folder + SegmentFolder.name(newest.id)) < seen catch {
      case _: FileNotFoundException => true
    }
    val isOlder = if (known.manifest.newest == newest.id) {
      known.noted.exists(note => note.salt != salt || (note.byte < seen && isCut))
    } else if (known.manifest.newest > newest.id) {
      // Where it begins behind that, all that was seen is trimmed.
      newest.id + 1 >= known.manifest.first && {
        val successor = scan(known.manifest, newest.id + 1).header
        successor.prevSalt != salt || successor.prevBytes < seen
      }
    } else true
    if (isOlder) throw new QueueReplaced(store.url, s"${store.url}/$folder: the queue was replaced by an older copy since it was " +
      "opened here; start the query again")
  }

  private def firstIsStill(known: Manifest): Boolean = KnownEnd.readManifest(store, folder).first == known.first

  private def scan(manifest: Manifest, id: Long) = new SegmentScan(store, folder + SegmentFolder.name(id), id,
    manifest.logId, partition)

  /** A segment that has a successor, which says where it ends. */
  private def complete(manifest: Manifest, id: Long): Segment = {
    val (own, successor) = (scan(manifest, id), scan(manifest, id + 1).header)
    if (own.header.salt != successor.prevSalt) throw DamagedLog(own.path, 40,
      "its salt is not the one its successor continues")
    own.upTo(successor.prevBytes)
  }

  /** The body of the SCHEMA frame. */
  def schemaMessage: Array[Byte] = newest.schemaMessage

  def logId: IndexedSeq[Byte] = manifest.logId
  /** Those with records, in order. */
  def segments: IndexedSeq[Segment] =
    ((manifest.first until manifest.newest).map(completed) :+ newest.shown).filter(_.records > 0)
  def first: Long = if (manifest.first == manifest.newest) newest.shown.firstOffset else completed(manifest.first).firstOffset
  def end: Long = newest.shown.endOffset
  /** Where whole steps end, vouched for or not. */
  def written: Long = newest.written
}

/** The headers of one segment file, from its start on. */
private[cecstore] final class SegmentScan(store: Store, file: String, val id: Long, logId: IndexedSeq[Byte],
  partition: Int) {
  import SegmentScan._

  val path: String = s"${store.url}/$file"
  private var window = Array.emptyByteArray
  private var windowAt = 0L

  val header: SegmentHeader = damagedAt(0) {
    val found = SegmentHeader.decode(read(0, Format.HeaderBytes))
    if (found.segmentId != id) throw new BadFrame(s"the file is segment ${found.segmentId}")
    if (found.logId.toIndexedSeq != logId) throw new BadFrame("the segment belongs to another queue")
    found
  }
  private val scan = new Scan(Some(header.salt), FrameHeader.decodeOfQueue, read)
  private val schema: Frame = damagedAt(Format.HeaderBytes) {
    val found = scan.frameAt(Format.HeaderBytes)
    if (found.header.kind != Format.Schema) throw new BadFrame("a segment starts with its schema")
    found
  }

  private var byte = schema.end
  private var due = schema.header.seq
  private var claimed = schema.header.durableUpto
  private var gap: Option[Gap] = None
  private val unvouched = mutable.ArrayBuffer.empty[Frame]

  /** What readers see of it. */
  var shown: Segment = Segment(partition, schema.header.firstOffset, 0, file, Format.HeaderBytes,
    schema.header.frameBytes, header.salt, Long.MaxValue, Long.MinValue, 0, header.createdUs, removed = false)

  def schemaMessage: Array[Byte] = damagedAt(Format.HeaderBytes)(scan.body(schema))

  def written: Long = unvouched.reverseIterator.map(_.header).find(!_.continues).fold(shown.endOffset)(_.endOffset)

  /** Whether there is a whole frame of records in it, vouched for or not. */
  def hasRecords: Boolean = due > schema.header.seq

  private def damagedAt[A](byte: Long)(act: => A): A = try act catch {
    case e: BadFrame => throw DamagedLog(path, byte, e)
    case _: FileNotFoundException => throw DamagedLog(path, 0, "the segment is missing")
  }

  /** All of it, up to where its successor says that it ends. */
  def upTo(end: Long): Segment = {
    readOn(end)
    judged(Some(end)) match {
      case (Verdict.Complete, _) =>
      case (_, at) if at != byte => throw DamagedLog(path, at, "a step of several frames was not finished, and yet " +
        "the segment is said to be")
      case _ => throw refusal
    }
    claimed = end
    takeVouched()
    shown = shown.copy(bytes = end - Format.HeaderBytes)
    shown
  }

  /** Of the newest segment: read on from where the last look ended. */
  def follow(noted: Option[DurableNote]): Unit = {
    noted.foreach(note => claimed = math.max(claimed, note.byte))
    noted.filter(_.salt != header.salt).foreach(_ => throw DamagedLog(path, 40,
      "another segment than was noted as durable"))
    readOn(Long.MaxValue)
    // The writer may be in the middle of this very frame: only a place that stays bad is damage.
    var attempts = 1
    while (isDamage) {
      val before = byte
      if (attempts == Attempts) throw refusal
      readOn(Long.MaxValue)
      attempts = if (byte == before) attempts + 1 else 1
    }
    takeVouched()
  }

  private def isDamage: Boolean = {
    claimed = math.max(claimed, claimedBeyond)
    Ends.isRefused(judged(None)._1)
  }

  // Where the file ends is not asked: its writer may be at work on it.
  private def judged(sealedEnd: Option[Long]): (Verdict.Value, Long) = Ends.judge(LogKind.Queue,
    EndFacts(byte, byte, claimed, sealedEnd, unfinishedStep, isNewer = gap.exists(_.isNewer)))

  private def refusal: CecLogException = DamagedLog(path, byte, gap.fold(new BadFrame("a frame beyond its end"))(_.why))

  private def unfinishedStep: Option[Long] =
    unvouched.reverseIterator.takeWhile(_.header.continues).map(_.byte).toSeq.lastOption

  private def claimedBeyond: Long = {
    val rest = store.readIfThere(file, byte).getOrElse(Array.emptyByteArray)
    scan.intactIn(rest, byte).map(_.header.durableUpto).maxOption.getOrElse(0L)
  }

  private def readOn(end: Long): Unit = {
    window = Array.emptyByteArray // the file may have grown
    gap = None
    val frames = scan.frames(byte, end, Some(due)) { frame =>
      if (!hasByte(frame.end - 1)) throw new BadFrame("body cut short")
    }
    frames.foreach {
      case found: Gap => gap = Some(found)
      case frame: Frame =>
        if (frame.header.isBatch) unvouched += frame
        due = frame.header.nextSeq
        claimed = math.max(claimed, frame.header.durableUpto)
        byte = frame.end
    }
  }

  private def takeVouched(): Unit = {
    var count = unvouched.lastIndexWhere(_.end <= claimed) + 1
    while (count > 0 && unvouched(count - 1).header.continues) count -= 1 // its step is not vouched for to the end
    unvouched.take(count).foreach { case frame @ Frame(_, head, _) =>
      shown = shown.copy(records = shown.records + head.recordCount, frames = shown.frames + 1,
        bytes = frame.end - Format.HeaderBytes, leastUs = math.min(shown.leastUs, head.minTimestampUs),
        greatestUs = math.max(shown.greatestUs, head.maxTimestampUs))
    }
    unvouched.remove(0, count)
  }

  private def hasByte(byte: Long): Boolean =
    byte < windowAt + window.length || size > byte
  private def size: Long = try store.size(file) catch { case _: FileNotFoundException => 0 }

  /** Fewer bytes at the end of the file. Where frames are large, not much is read of each. */
  private def read(byte: Long, count: Int): Array[Byte] = {
    if (byte < windowAt || byte + count > windowAt + window.length) {
      val ahead = if (byte > windowAt + window.length) LargeFrameBytes else WindowBytes
      window = store.read(file, byte, math.max(ahead, count))
      windowAt = byte
    }
    val from = (byte - windowAt).toInt
    Arrays.copyOfRange(window, from, math.min(from + count, window.length))
  }
}

private object SegmentScan {
  private val Attempts = 4
  private val WindowBytes = 64 << 10
  private val LargeFrameBytes = 4 << 10
}
