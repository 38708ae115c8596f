package org.apache.spark.sql.cecstore.state

import java.io.IOException
import java.util.concurrent.atomic.AtomicLong
import scala.util.Using
import scala.util.control.NonFatal
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.{BadFrame, Format, Rows}
import org.apache.spark.sql.cecstore.keys.{KeyRun, RowsTable}
import org.apache.spark.sql.cecstore.log.{Base, FrameAt, KeyFiles, LoggedBytes, LoggedInputs, SegmentFolder, SegmentInput, StateLog}

/**
 * The key directories of one store: with one, a load opens an index and reads the frames behind it, and rows come out of the log when
 * they are asked for. They are derived from the log, in Spark's maintenance, and a load that cannot use one reads the log.
 *
 * Task threads set the volatile fields. The lock keeps two runs of maintenance apart.
 *
 * @param isOrdered whether a column family needs its keys in order
 */
private[cecstore] final class KeyDirectories(folder: SegmentFolder, files: KeyFiles, store: String, isOrdered: Int => Boolean) extends Logging {
  import KeyDirectories._

  @volatile private var newest: Base = null
  @volatile private var openWindows = 0L
  @volatile private var time: Option[RowTime] = None
  /** Offset up to which the newest directory counts that this process knows of. */
  @volatile private var describedUpto = 0L

  def committed(base: Base, windows: Long, grows: Boolean): Unit = { newest = if (grows) base else null; openWindows = windows }
  /** Rows are asked for by this time: directories tell which of them can be due. */
  def asked(by: RowTime): Unit = if (!time.contains(by)) time = Some(by)

  /** The state at the end of this frame, and how many records were read for it; None where no directory leads there. */
  def load(log: StateLog, last: FrameAt, memory: RowMemory): Option[(LiveState, Long)] =
    if (last.header.openWindows < KeyRun.keysMin) None
    else names.iterator.filter(_.seq <= last.header.seq).take(Tried).flatMap(name => tried(log, name, last, memory)).nextOption()

  private def names: Seq[DirectoryName] = files.names().flatMap(DirectoryName.of).sortBy(-_.seq)

  private def tried(log: StateLog, name: DirectoryName, last: FrameAt, memory: RowMemory): Option[(LiveState, Long)] =
    try Using.resource(files.open(name.text))(load(log, _, last, memory)) catch {
      case e @ (_: CecLogException | _: IOException | _: BadFrame) =>
        refused.incrementAndGet()
        logWarning(s"cec: ${folder.location}: the key directory ${name.text} is not used, the log is read instead: ${e.getMessage}")
        None
    }

  private def load(log: StateLog, file: SegmentInput, last: FrameAt, memory: RowMemory): Option[(LiveState, Long)] = {
    val header = file.read(0, KeyDirectory.HeaderBytes)
    val headBytes = KeyDirectory.headBytes(header)
    val directory = KeyDirectory.decoded(header, file.read(KeyDirectory.HeaderBytes, headBytes))
    log.since(directory.end.seq, last)(directory.end.isAt).map { frames =>
      val inputs = new LoggedInputs(folder)
      val (rows, lazily) = memory.placing(rowsOf(log, directory, inputs, memory))
      val state = new LiveState(isOrdered, 0, memory)
      val runs = directory.runs.zip(directory.slotsAt(headBytes)).map { case (run, at) =>
        run.family -> memory.placing(runOf(run, file, at, state.rows, memory))
      }
      val bringAll = () => if (fills) LoggedFill.bring(lazily.reverse)
      state.beginWith(DirectoryState(directory.openWindows, directory.endOffset, rows, runs, directory.timesOf), inputs, bringAll)
      CatchUp.follow(state, frames, s"the state of $store by its key directory")(_ => ())
      describedUpto = math.max(describedUpto, directory.endOffset)
      used.incrementAndGet()
      (state, frames.map(_.header.recordCount.toLong).sum)
    }
  }

  /** The rows of each frame, of which those are read at once that cannot be read in parts. */
  private def rowsOf(log: StateLog, directory: KeyDirectory, inputs: LoggedInputs, memory: RowMemory): (Seq[Rows], Seq[LoggedBytes]) = {
    val made = directory.frames.zipWithIndex.map { case (frame, i) =>
      val id = RowsTable.NewestLoadedId - directory.frames.size + 1 + i
      val (rows, bytes) = if (frame.place.isInBlocks && frame.rows.count > 0) lazily(id, frame, inputs, memory) else (read(log, id, frame), None)
      rows.families = frame.families
      rows.leastTimes = frame.leastTimes
      rows.timedRows = frame.timedRows
      (rows, bytes)
    }
    (made.map(_._1), made.flatMap(_._2))
  }

  private def lazily(id: Int, frame: DirectoryFrame, inputs: LoggedInputs, memory: RowMemory): (Rows, Option[LoggedBytes]) = {
    val (bytes, room) = LoggedBytes.in(memory.space(), inputs, frame.place, frame.rows)
    val rows = Rows.lazily(id, frame.rows, frame.live, bytes, room.extent)
    rows.place = frame.place
    (rows, Some(bytes))
  }

  private def read(log: StateLog, id: Int, frame: DirectoryFrame): Rows = {
    val rows = if (frame.rows.count == 0) new Rows(id, 0, 0, 0) else { // a body that is not in blocks
      val reader = log.reader(frame.place.segment)
      reader.rows(reader.batchAt(frame.place.byte).getOrElse(throw reader.damaged(frame.place.byte, "no frame begins here")), id)
    }
    rows.firstOffset = frame.rows.firstOffset
    rows.setLive(frame.live)
    rows
  }

  private def runOf(run: DirectoryRun, file: SegmentInput, at: Long, table: RowsTable, memory: RowMemory): KeyRun = {
    val crc = new java.util.zip.CRC32C
    val bytes = run.layout.bytes
    val pieces = KeyRun.pieces(bytes) { (from, length) =>
      val read = file.read(at + from, length)
      crc.update(read)
      read
    }
    val made = KeyRun.of(table, run.entries, run.layout, pieces, memory.space())
    val sealed_ = file.read(at + bytes, KeyDirectory.CrcBytes)
    if (sealed_.length < KeyDirectory.CrcBytes || Format.littleEndian(sealed_).getInt(0) != crc.getValue.toInt) {
      made.letGo()
      throw new BadFrame("an index of a key directory fails its checksum")
    }
    made
  }

  /** Write a directory of the newest version, if as much has changed since the last one, or was taken back, that it is worth it. */
  def maintain(): Unit = synchronized {
    val base = newest
    val windows = openWindows
    if (base != null && windows >= KeyRun.keysMin && math.abs(base.nextOffset - describedUpto) >= windows / ChangedPart) try write(base) catch {
      case NonFatal(e) => logWarning(s"cec: ${folder.location}: no key directory is written this time, the next maintenance tries again: $e", e)
    }
  }

  private def write(base: Base): Unit = Using.resource(new StateLog(folder)) { log =>
    val last = log.find(base.version, Some(base.uniqueId))
    val memory = RowMemory(0)
    val state = load(log, last, memory).map(_._1).getOrElse(StateLoader.load(log, last, isOrdered, store, memory))
    try {
      val name = DirectoryName(last.segment.id, last.header.seq)
      files.create(name.text, KeyDirectory.encoded(last, state.described(time)))
      logInfo(s"cec: ${folder.location}: wrote the key directory ${name.text} of version ${base.version}")
      written.incrementAndGet()
      forget(log)
    } finally state.letGo()
    describedUpto = base.nextOffset
  }

  /** The one before stays: Spark may take back the version of the newest. */
  private def forget(log: StateLog): Unit = {
    val (kept, old) = names.splitAt(Kept)
    (old ++ kept.filterNot(name => log.ids.contains(name.segment))).foreach(name => files.delete(name.text))
  }
}

private[cecstore] object KeyDirectories {
  /** In this process: directories written, loads by one, and directories that loads could not use. */
  val written, used, refused = new AtomicLong
  /** Whether rows are brought in the background; tests switch it off. */
  @volatile private[cecstore] var fills = true
  private val Tried, Kept = 2
  /** One in so many keys must have changed: a directory takes ten to twelve bytes a key. */
  private val ChangedPart = 8
}

/** The name of a directory's file: the segment and the number of the frame at whose end it stands. */
private final case class DirectoryName(segment: Long, seq: Long) {
  def text: String = f"$segment%020d-$seq%020d.keys"
}

private object DirectoryName {
  private val Name = """(\d{20})-(\d{20})\.keys""".r

  def of(text: String): Option[DirectoryName] = text match {
    case Name(segment, seq) => for (id <- segment.toLongOption; number <- seq.toLongOption) yield DirectoryName(id, number)
    case _ => None
  }
}

/** Brings the rows of states that were loaded by a directory, one frame after the other, while tasks go on. */
private object LoggedFill extends Logging {
  private lazy val thread = java.util.concurrent.Executors.newSingleThreadExecutor { work =>
    val made = new Thread(work, "cec-rows")
    made.setDaemon(true)
    made
  }

  /** Nothing here keeps a state that is no longer used. */
  def bring(newestFirst: Seq[LoggedBytes]): Unit = {
    val frames = newestFirst.map(new java.lang.ref.WeakReference(_))
    thread.execute(() => try frames.iterator.flatMap(frame => Option(frame.get)).forall(_.bringAll()) catch {
      case e: CecLogException => logWarning(s"cec: rows of a state could not be read: ${e.getMessage}")
    })
  }
}
