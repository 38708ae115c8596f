package org.apache.spark.sql.cecstore.state

import java.io.{FileNotFoundException, IOException}
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.{AtomicLong, AtomicReference}
import scala.collection.mutable
import scala.util.Using
import scala.util.control.NonFatal
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.{BadFrame, DamagedLog, Format, Interrupts, Rows}
import org.apache.spark.sql.cecstore.keys.{HashedRun, KeyRun, OrderedIndex, RowsTable}
import org.apache.spark.sql.cecstore.log.{Base, DerivedFiles, DirectoryName, FrameAt, LoggedBytes, LoggedInputs, SegmentFolder, StateLog}
import org.apache.spark.unsafe.Platform

/**
 * The key directories of one store: with one, a load makes its index of hashes and reads the frames behind it, and rows come out of
 * the log when they are asked for. A directory is a file of the rows that are live at the end of a version, and files of the keys
 * of its frames, which directories have in common: each one adds a file of the frames that have come since the last one.
 * They are derived from the log, in Spark's maintenance, and a load that cannot use one reads the log.
 *
 * Task threads call [[committed]] and [[load]]. The lock keeps two runs of maintenance apart.
 *
 * @param areChecked a load by one reads the log as well, and fails if that gives another state
 */
private[cecstore] final class KeyDirectories(
    folder: SegmentFolder, files: DerivedFiles, store: String, areChecked: Boolean = false) extends Logging {
  import KeyDirectories._

  /** A version that is to have a directory. */
  private val due = new AtomicReference[Due]
  /** Offset up to which the newest directory counts that this process knows of. */
  @volatile private var describedUpto = 0L
  /** The segments of the extent of that directory. */
  @volatile private var segments = Set.empty[Long]
  /** Directories that could not be used: no other one goes on from them. */
  private val bad = ConcurrentHashMap.newKeySet[DirectoryName]

  /** The version is in the log; where much has changed since the last directory, or was taken back, it is to have one. */
  def committed(base: Base, state: LiveState, grows: Boolean, target: ExtentTarget): Unit = {
    val windows = state.openWindows
    if (grows && areWorth(windows) && math.abs(base.nextOffset - describedUpto) >= target.behindMax(windows)) {
      due.set(Due(base, state.liveRows(), state.inOrder))
      describedUpto = base.nextOffset
    }
  }

  /** The state at the end of this frame, and how many records were read for it; None where no directory leads there. */
  def load(log: StateLog, last: FrameAt, memory: RowMemory): Option[(LiveState, Long)] =
    if (last.header.openWindows < keysMin) None
    else {
      val made = newestThatLeadsTo(log, last) { (live, since) =>
        val (state, extent) = Using.Manager { use =>
          val keys = keyFilesOf(live.keyFiles, use)
          val frames = framesOf(live, keys)
          (loaded(log, live, keys, frames, memory), frames.map(_.place.segment).toSet)
        }.get
        CatchUp.follow(state, since, s"the state of $store by its key directory")(_ => ())
        describedUpto = math.max(describedUpto, live.endOffset)
        segments = extent
        used.incrementAndGet()
        (state, since.map(_.header.recordCount.toLong).sum)
      }
      if (areChecked) made.foreach { case (state, _) => check(log, last, state, memory) }
      made
    }

  private def check(log: StateLog, last: FrameAt, state: LiveState, memory: RowMemory): Unit =
    StateLoader.load(log, last, _ => false, store, memory).difference(state).foreach { what =>
      throw new CecLogException(s"${folder.location}: version ${last.header.inputUpto} by its key directory is not what the log says: $what; " +
        "stop the query and delete the files that end in .live: a start then reads the log, which is whole")
    }

  private def names: Seq[DirectoryName] = files.names().flatMap(DirectoryName.of(_, DirectoryName.Live)).sortBy(-_.seq)

  /** What is made of the newest directory that leads to this frame, and of the frames behind it, oldest first. */
  private def newestThatLeadsTo[A](log: StateLog, last: FrameAt)(make: (LiveFile, Seq[FrameAt]) => A): Option[A] =
    names.iterator.filter(name => name.seq <= last.header.seq && !bad.contains(name)).take(Tried).flatMap { name =>
      try {
        val live = LiveFile.read(files.open(name.live))
        log.since(live.end.seq, last)(live.end.isAt).map(make(live, _))
      } catch {
        case e: FileNotFoundException => // who else has the store has made a newer one
          logInfo(s"cec: ${folder.location}: the key directory ${name.live} is passed over: ${e.getMessage} is gone")
          None
        case e @ (_: CecLogException | _: IOException) if Interrupts.isOne(e) => throw e
        case e @ (_: CecLogException | _: IOException | _: BadFrame) =>
          // What could not be read this time may be sound.
          if (e.isInstanceOf[BadFrame] || e.isInstanceOf[DamagedLog]) bad.add(name)
          refused.incrementAndGet()
          logWarning(s"cec: ${folder.location}: the key directory ${name.live} is not used, the log is read instead: ${e.getMessage}")
          None
      }
    }.nextOption()

  private def opened(name: DirectoryName): KeyFile = KeyFile.open(files.open(name.keys))

  private def keyFilesOf(named: Seq[KeyFileOf], use: Using.Manager): Seq[KeyFile] = named.map { of =>
    val file = use(opened(of.name))
    if (file.seal != of.seal) throw new BadFrame(s"${of.name.keys} is not the file that it names")
    file
  }

  private def loaded(log: StateLog, live: LiveFile, keys: Seq[KeyFile], frames: Seq[KeyFrame], memory: RowMemory): LiveState = {
    val inputs = new LoggedInputs(folder)
    val (rows, lazily) = memory.placing(rowsOf(log, frames.zip(live.parts), inputs, memory))
    val state = new LiveState(_ => false, 0, memory)
    val bringAll = () => if (fills) LoggedFill.bring(lazily.reverse)
    state.beginWith(live, rows, table => memory.placing(indexesOf(keys, rows, table, memory)), inputs, bringAll)
    state
  }

  /** Of the frames that the files have, those of the extent. */
  private def framesOf(live: LiveFile, keys: Seq[KeyFile]): Seq[KeyFrame] = {
    val frames = keys.flatMap(_.frames).takeRight(live.parts.size)
    val follows = frames.zip(frames.drop(1)).forall { case (a, b) => a.rows.endOffset == b.rows.firstOffset }
    if (frames.size < live.parts.size || !follows || frames.last.rows.endOffset != live.endOffset) throw new BadFrame(
      "the key files are not those of one extent")
    frames
  }

  /** The rows of each frame, of which those are read at once that cannot be read in parts. */
  private def rowsOf(log: StateLog, frames: Seq[(KeyFrame, LivePart)], inputs: LoggedInputs, memory: RowMemory): (Seq[Rows], Seq[LoggedBytes]) = {
    val made = frames.zipWithIndex.map { case ((frame, part), i) =>
      val id = RowsTable.NewestLoadedId - frames.size + 1 + i
      val (rows, bytes) = if (frame.place.isInBlocks && frame.rows.count > 0) lazily(id, frame, part, inputs, memory) else (read(log, id, frame, part, memory), None)
      rows.families = frame.families
      rows.leastTimes = part.leastTimes
      rows.timedRows = part.timedRows
      (rows, bytes)
    }
    (made.map(_._1), made.flatMap(_._2))
  }

  private def lazily(id: Int, frame: KeyFrame, part: LivePart, inputs: LoggedInputs, memory: RowMemory): (Rows, Option[LoggedBytes]) = {
    val (bytes, room) = LoggedBytes.in(memory.space(), inputs, frame.place, frame.rows)
    val rows = Rows.lazily(id, frame.rows, part.bits, bytes, room.extent)
    rows.place = frame.place
    (rows, Some(bytes))
  }

  /** What is not in blocks is read whole, and goes into a local file at once: all of it may be more than the heap. */
  private def read(log: StateLog, id: Int, frame: KeyFrame, part: LivePart, memory: RowMemory): Rows = {
    val rows = if (frame.rows.count == 0) new Rows(id, 0, 0, 0) else { // a body that is not in blocks
      val reader = log.reader(frame.place.segment)
      reader.rows(reader.batchAt(frame.place.byte).getOrElse(throw reader.damaged(frame.place.byte, "no frame begins here")), id)
    }
    rows.firstOffset = frame.rows.firstOffset
    rows.setLive(part.bits)
    if (rows.count == 0) rows
    else {
      val (extent, addresses) = memory.space().write(rows.localParts)
      rows.movedTo(extent, addresses)
    }
  }

  /** The index of each family: of sorted runs, or of the hashes of the rows that are live. */
  private def indexesOf(keys: Seq[KeyFile], rows: Seq[Rows], table: RowsTable, memory: RowMemory): FamilyKeys = {
    val sizes = familySizes(rows)
    val (sorted, hashed) = sizes.partition { case (family, _) => keys.forall(_.hasSorted(family)) }
    val inOrder = sorted.map { case (family, live) => family -> SortedKeys.index(table, family, keys, rows, live) }
    FamilyKeys(runsOf(hashed, keys, rows, table, memory), inOrder) // runs take local room: nothing may fail behind them
  }

  /** Runs of hashes: of as many families together as the heap has room for, so that a pass over the keys serves them all. */
  private def runsOf(sizes: Map[Int, Int], keys: Seq[KeyFile], rows: Seq[Rows], table: RowsTable, memory: RowMemory): Map[Int, KeyRun] = {
    val runs = mutable.Map.empty[Int, KeyRun]
    def addAll(to: Map[Int, HashedRun]): Unit = {
      val byFamily = new Array[HashedRun](to.keys.max + 1)
      to.foreach { case (family, run) => byFamily(family) = run }
      var frame = rows.size - keys.map(_.frames.size).sum
      keys.foreach(_.eachFrame { hashes => if (frame >= 0) add(rows(frame), hashes, byFamily); frame += 1 })
    }
    val bytesMax = HashedRun.heapBytes(memory.bytesMax / SlotsPart)
    try {
      var left = sizes.toSeq.sortBy(_._2)
      while (left.nonEmpty) {
        val slotBytes = left.map { case (_, entries) => HashedRun.slotBytes(table, entries) }.scanLeft(0L)(_ + _).tail
        val (some, others) = left.splitAt(math.max(1, slotBytes.count(_ <= bytesMax)))
        left = others
        val made = some.map { case (family, entries) => family -> new HashedRun(table, entries, bytesMax) }.toMap
        made.values.foreach(_.begin())
        addAll(made)
        made.foreach { case (family, run) => runs(family) = run.written(memory.space())(() => addAll(Map(family -> run))) }
      }
      runs.toMap
    } catch { case e: Throwable => runs.values.foreach(_.letGo()); throw e }
  }

  /** How many live rows each family has. */
  private def familySizes(rows: Seq[Rows]): Map[Int, Int] = {
    val sizes = new Array[Int](1 << 16)
    rows.foreach { in =>
      if (in.families == null) sizes(Format.DefaultFamily) += in.liveCount
      else {
        var row = in.nextLive(0)
        while (row < in.count) { sizes(in.family(row)) += 1; row = in.nextLive(row + 1) }
      }
    }
    sizes.indices.iterator.filter(sizes(_) > 0).map(family => family -> sizes(family)).toMap
  }

  private def add(rows: Rows, hashes: Array[Byte], byFamily: Array[HashedRun]): Unit = {
    var row = rows.nextLive(0)
    while (row < rows.count) {
      val family = rows.family(row)
      val run = if (family < byFamily.length) byFamily(family) else null
      if (run != null) run.add(Platform.getInt(hashes, Platform.BYTE_ARRAY_OFFSET + row * 4L), rows.reference(row))
      row = rows.nextLive(row + 1)
    }
  }

  /** These segments are gone: a directory whose rows stand in one of them may have to read it, so that another one is due. */
  def forgotten(gone: Set[Long]): Unit = if (segments.exists(gone)) {
    segments = Set.empty
    describedUpto = 0
  }

  /** Write the directory that is due, if one is. */
  def maintain(): Unit = synchronized(Option(due.getAndSet(null)).foreach(version => try write(version) catch {
    case NonFatal(e) =>
      describedUpto = 0
      logWarning(s"cec: ${folder.location}: no key directory is written this time, the next maintenance tries again: $e", e)
  }))

  private def write(version: Due): Unit = Using.resource(new StateLog(folder)) { log =>
    val (base, rows) = (version.base, version.rows)
    val last = log.find(base.version, Some(base.uniqueId))
    val name = DirectoryName(last.segment.id, last.header.seq)
    val (older, since) = newestThatLeadsTo(log, last)((live, since) => (withFrames(live.keyFiles), since))
      .getOrElse((Nil, log.extent(last).map(_._1).toSeq.reverse))
    files.create(name.keys, KeyFile.encoded(since.iterator.map(frame => log.reader(frame.segment.id).rows(frame, 0)), version.inOrder))
    val start = last.header.endOffset - last.header.extentRecords
    val newest = Using.resource(opened(name))(file => KeyFileOf(name, file.seal) -> file.frames)
    val all = (older :+ newest).dropWhile(_._2.lastOption.forall(_.rows.endOffset <= start))
    val ofExtent = all.flatMap(_._2).dropWhile(_.rows.endOffset <= start)
    val parts = rows.ofFrames(ofExtent.map(_.rows))
    files.create(name.live, LiveFile.encoded(LiveFile(DirectoryEnd.of(last), rows.openWindows, rows.endOffset, rows.timesOf, all.map(_._1), parts)))
    logInfo(s"cec: ${folder.location}: wrote the key directory ${name.live} of version ${base.version}")
    written.incrementAndGet()
    segments = ofExtent.map(_.place.segment).toSet
    forget(log, name)
  }

  /** Of these key files the frames. */
  private def withFrames(keyFiles: Seq[KeyFileOf]): Seq[(KeyFileOf, Seq[KeyFrame])] =
    Using.Manager(use => keyFiles.zip(keyFilesOf(keyFiles, use).map(_.frames))).get

  /**
   * The one before stays: Spark may take back the version of the newest. Those of higher numbers are of a lineage that was left, or
   * of who else has the store. Key files go with the last directory that names them.
   */
  private def forget(log: StateLog, newest: DirectoryName): Unit = {
    val (upto, above) = names.filter(name => log.ids.contains(name.segment) && !bad.contains(name)).partition(_.seq <= newest.seq)
    val kept = Seq(upto, above).flatMap(_.iterator.flatMap { name =>
      try Some(name -> LiveFile.read(files.open(name.live))) catch { case _: IOException | _: BadFrame => None }
    }.take(Kept))
    val named = kept.map(_._1.live).toSet ++ kept.flatMap(_._2.keyFiles.map(_.name.keys))
    def isOurs(file: String): Boolean = DirectoryName.of(file, DirectoryName.Live).orElse(DirectoryName.of(file, DirectoryName.Keys)).nonEmpty
    files.names().filter(file => isOurs(file) && !named(file)).foreach(files.delete)
  }
}

private[cecstore] object KeyDirectories {
  /** In this process: directories written, loads by one, and directories that loads could not use. */
  val written, used, refused = new AtomicLong
  /** Whether rows are brought in the background; tests switch it off. */
  @volatile private[cecstore] var fills = true
  /**
   * A state of fewer keys has none: a first batch after a restart touches most blocks of its rows in any case, so that reading all
   * of them one after the other takes no longer. Tests lower it.
   */
  @volatile private[cecstore] var keysMin: Int = 1 << 20
  /** Whether a state of so many keys has directories. */
  def areWorth(windows: Long): Boolean = windows >= keysMin

  /** A version that is to have a directory, its live rows, and the families whose keys are kept in order. */
  private final case class Due(base: Base, rows: LiveRows, inOrder: Set[Int])

  /** Of one lineage, and of another. */
  private val Kept = 2
  private val Tried = 2 * Kept
  /** Of the memory for rows and keys so much may be for an index in the making: as many as that are loaded side by side. */
  private val SlotsPart = 4
}

/** What a load by a directory begins with: a run of hashes, or keys in order, by family. */
private[state] final case class FamilyKeys(runs: Map[Int, KeyRun], inOrder: Map[Int, OrderedIndex])

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
    def held = frames.iterator.flatMap(frame => Option(frame.get))
    thread.execute(() => try {
      // Frames that are over bring nothing, and those behind them are wanted all the same.
      try held.foreach(_.bringAll()) finally held.take(1).foreach(_.closeInputs())
    } catch { case NonFatal(e) => logWarning(s"cec: rows of a state could not be read: ${e.getMessage}") })
  }
}
