package org.apache.spark.sql.cecstore.testing

import java.io.RandomAccessFile
import java.nio.file.{Files, Path}
import java.util.Random
import java.util.concurrent.atomic.AtomicInteger

import scala.util.Using

import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.{Blocks, Format, Rows, RowsSummary}
import org.apache.spark.sql.cecstore.keys.{HashedRun, HashIndex, KeyIndex, KeyRun, OrderedIndex}
import org.apache.spark.sql.cecstore.log.{Base, DerivedFiles, FrameAt, LoggedBytes, Maintenance, SegmentFolder, SegmentInput, SegmentOutput, SegmentWriter, StateLog}
import org.apache.spark.sql.cecstore.state.{ExtentTarget, Instance, KeyDirectories, LivePart, LiveRows, LiveState, LiveStretch, LoadRate, RowMemory, RowTime, SortedKeys, StateLoader, Zones}

/** Key directories: what a load does with one, and with one that is damaged or does not lead there. */
object DirectoryRules {
  import Setting.refused

  val rules: Seq[(String, Setting => Unit)] = Seq(
    "a load by a key directory reads no row before it is asked for" -> lazily,
    "rows of any lengths come out of the log as they were put" -> lengths,
    "no damaged byte of a key directory is believed" -> damaged,
    "a key directory of another attempt is not used" -> lineages,
    "keys of another log are not believed" -> otherKeys,
    "a key directory says which rows can be due" -> times,
    "a version of several frames has a key directory" -> severalFrames,
    "frames have the live rows of their part of a version, and no later times" -> frames,
    "no key directory goes on from one that is damaged" -> goesOnFromNone,
    "a key directory of which a file is gone is passed over, and one is made anew" -> gone,
    "a key directory of a lineage that was gone back to is kept" -> goneBack,
    "a key directory that cannot be read once is used the next time, and an interrupt passes" -> once,
    "a row that cannot be read fails its batch by name, and the state is loaded anew" -> unreadable,
    "two key directories are kept, and none of a segment that is gone" -> kept,
    "keys in order that the heap has no room for are read from the rows" -> unsorted,
    "a key directory is due where a segment of the last one goes" -> segmentsGo,
    "a segment that is forgotten takes its key directories with it" -> forgotten,
    "a recovery time bounds what lies behind a key directory, and the extent no more" -> recoveryTime,
    "keys in order come out of sorted runs, and no row is read" -> inOrder,
    "a family that is in order later has its keys read from the rows" -> inOrderLater,
    "no damaged byte of a sorted run is believed" -> damagedRuns,
    "no segment stays open once the rows of a state were brought, nor where they could not be" -> closed,
    "a load passes over the keys once for all families that the heap has room for" -> onePass,
    "a load that is checked fails where a key directory says otherwise than the log" -> checkedLoads)

  private val Keys = 3000
  private val Versions = 12

  private def withSettings[A](what: => A): A = {
    val (block, min, least, keys) = (Blocks.blockBytes, KeyRun.keysMin, HashedRun.leastBytes, KeyDirectories.keysMin)
    Blocks.blockBytes = 256
    HashedRun.leastBytes = 5000
    KeyRun.keysMin = 100
    KeyDirectories.keysMin = 100
    KeyDirectories.fills = false
    try what finally { Blocks.blockBytes = block; KeyRun.keysMin = min; KeyDirectories.keysMin = keys; HashedRun.leastBytes = least; KeyDirectories.fills = true }
  }

  private def key(n: Int): Array[Byte] = Format.littleEndian(new Array[Byte](12)).putInt(n).putLong(4, n * 1000L).array
  /** Of one length, or of lengths from nothing to some hundred bytes. */
  private def value(n: Int, version: Long, ragged: Boolean): Array[Byte] = {
    val bytes = new Array[Byte](if (ragged) (n * 31 + version.toInt * 7) % 400 else 24)
    new Random(n * 1000L + version).nextBytes(bytes)
    bytes
  }

  /** A log of twelve versions, in which each key was put, some twice, and every fifth is gone. */
  private final class Written(val folder: Path, ragged: Boolean, firstKey: Int = 0, segmentBytes: Long = 1L << 24) {
    private val random = new Random(5)
    val segments: SegmentFolder = Logs.onDisk(folder)
    private val writer = new SegmentWriter(segments, segmentBytes, false, false, 0, random, () => 5000000L)
    val instance = new Instance(StateLoader.empty(_ => false), Base.empty(0), writer, ExtentTarget(2.0, None, None), 1000, 1, () => 5000000L, 0, 0)
    var model = Map.empty[Int, Array[Byte]]

    def version(change: LiveState => Unit): Unit = {
      instance.begin()
      change(instance.state)
      instance.commit(instance.base.version + 1)
    }

    def put(state: LiveState, n: Int, version: Long): Unit = {
      val (k, v) = (key(firstKey + n), value(n, version, ragged))
      state.put(1, k, 0, k.length, v, 0, v.length)
      model += n -> v
    }

    def remove(state: LiveState, n: Int): Unit = { state.remove(1, key(firstKey + n), 0, 12); model -= n }

    def next(number: Int): Unit = version { state =>
      (0 until Keys by Versions).foreach(n => put(state, n + number % Versions, number))
      (0 until 40).foreach(_ => put(state, random.nextInt(Keys), number))
      (0 until Keys by 60).foreach(n => remove(state, n + number % 60))
    }
    (1 to Versions).foreach(next)

    def directories(areChecked: Boolean = false): KeyDirectories = new KeyDirectories(segments, segments.derivedFiles.get, "test", areChecked)

    /** A directory of the newest version. */
    def describe(using: KeyDirectories = directories()): Unit = {
      using.committed(instance.base, instance.state, grows = true, ExtentTarget(2.0, None, None))
      using.maintain()
    }

    def load(using: KeyDirectories = directories(), base: Base = instance.base): Option[LiveState] = Using.resource(new StateLog(segments)) { log =>
      using.load(log, log.find(base.version, Some(base.uniqueId)), RowMemory(0)).map(_._1)
    }

    def check(what: String, state: LiveState): Unit = {
      Check.equal(s"$what: keys", state.keyCount(1), model.size)
      (0 until Keys).foreach { n =>
        val reference = state.find(1, key(n), 0, 12)
        val found = if (reference == KeyIndex.Absent) None else Some(state.rowsOf(reference).value(reference.toInt).toSeq)
        Check.equal(s"$what: key $n", found, model.get(n).map(_.toSeq))
      }
    }
  }

  /** Of one kind, `keys` or `live`. */
  private def filesOf(folder: Path, kind: String): Seq[Path] = {
    val files = Files.list(folder)
    try files.toArray.toSeq.map(_.asInstanceOf[Path]).filter(_.toString.endsWith(s".$kind")).sorted finally files.close()
  }

  private def lazily(setting: Setting): Unit = withSettings {
    val log = new Written(Files.createDirectory(setting.folder.resolve("log")), ragged = false)
    Check.that("it is loaded without a directory", log.load().isEmpty)
    log.describe()
    log.next(Versions + 1)
    val before = LoggedBytes.blocksRead.get
    val state = log.load().get
    Check.equal("blocks read by the load", LoggedBytes.blocksRead.get - before, 0L)
    val found = state.find(1, key(700), 0, 12)
    state.rowsOf(found).value(found.toInt)
    val forOne = LoggedBytes.blocksRead.get - before
    Check.that(s"$forOne blocks read for a key and its value", forOne >= 1 && forOne <= 12)
    log.check("all", state)
    state.begin()
    log.model.keys.foreach(n => state.put(1, key(n), 0, 12, value(n, 99, ragged = false), 0, 24))
    state.rollback()
    log.check("taken back", state)
  }

  /** Also with keys that look alike. */
  private def lengths(setting: Setting): Unit = for (bits <- Seq(-1, ModelRun.FourBits)) withSettings {
    val before = HashIndex.hashBits
    HashIndex.hashBits = bits
    try lengths(Files.createDirectory(setting.folder.resolve(s"log$bits"))) finally HashIndex.hashBits = before
  }

  private def lengths(folder: Path): Unit = {
    val log = new Written(folder, ragged = true)
    log.describe()
    (1 to 3).foreach(n => log.next(Versions + n))
    log.check("some versions later", log.load().get)
    log.describe()
    log.next(Versions + 4)
    log.check("by a directory that was made by a directory", log.load().get)
    Check.equal("directories", filesOf(log.folder, "live").size, 2)
    Check.equal("files of keys", filesOf(log.folder, "keys").size, 2)
  }

  /** A log with two key directories, one version apart. */
  private def describedTwice(setting: Setting): Written = {
    val log = new Written(Files.createDirectory(setting.folder.resolve("log")), ragged = true)
    log.describe()
    log.next(Versions + 1)
    log.describe()
    log
  }

  private def damaged(setting: Setting): Unit = withSettings {
    val log = describedTwice(setting)
    // The one before is whole, and would be used.
    filesOf(log.folder, "live").init.foreach(Files.delete)
    Seq("live", "keys").foreach(kind => filesOf(log.folder, kind).foreach(damaged(log, _)))
    log.check("whole again", log.load().get)
  }

  private def damaged(log: Written, file: Path): Unit = {
    val whole = Files.readAllBytes(file)
    val random = new Random(9)
    val places = (0 until 200) ++ Seq.fill(150)(random.nextInt(whole.length)) ++ (whole.length - 20 until whole.length)
    places.foreach { at =>
      val bytes = whole.clone
      bytes(at) = (bytes(at) ^ 1 << random.nextInt(8)).toByte
      Files.write(file, bytes)
      Check.that(s"a directory with a damaged byte $at of ${whole.length} is used", log.load().isEmpty)
    }
    Seq(0, 10, 24, 500, whole.length - 1).foreach { length =>
      Files.write(file, whole.take(length))
      Check.that(s"a directory cut to $length bytes is used", log.load().isEmpty)
    }
    Files.write(file, whole)
  }

  private def lineages(setting: Setting): Unit = withSettings {
    val log = new Written(Files.createDirectory(setting.folder.resolve("log")), ragged = false)
    val model = log.model
    log.version(state => (0 until 900).foreach(n => log.put(state, n, 77)))
    log.describe()
    Check.that("the version is taken back", log.instance.moveTo(Versions.toLong, Some(log.instance.beforeBase.get.uniqueId)))
    log.model = model
    log.version(state => (300 until 1500).foreach(n => log.put(state, n, 78)))
    Check.that("a directory of an attempt that was given up is used", log.load().isEmpty)
    log.describe()
    log.check("by its own directory", log.load().get)
  }

  /** Of frames with as many rows, in a segment of the same number. */
  private def otherKeys(setting: Setting): Unit = withSettings {
    val Seq(log, other) = Seq(0, 100_000).map { first =>
      val written = new Written(Files.createDirectory(setting.folder.resolve(s"log$first")), ragged = false, first)
      written.describe()
      written
    }
    val (Seq(keys), Seq(others)) = (filesOf(log.folder, "keys"), filesOf(other.folder, "keys"))
    Check.equal("the names", others.getFileName, keys.getFileName)
    Files.write(keys, Files.readAllBytes(others))
    Check.that("a directory with the keys of another log is used", log.load().isEmpty)
  }

  /** A time in the value's first eight bytes. */
  private object FirstBytes extends RowTime {
    override def name: String = "the first bytes"
    override def of(in: Rows, row: Int): Long =
      org.apache.spark.unsafe.Platform.getLong(in.valueBase, in.valueOffset(row)) & 0xffffL
  }

  private object OtherBytes extends RowTime {
    override def name: String = "other bytes"
    override def of(in: Rows, row: Int): Long = FirstBytes.of(in, row) ^ 0xffffL
  }

  private def times(setting: Setting): Unit = withSettings {
    val log = new Written(Files.createDirectory(setting.folder.resolve("log")), ragged = false)
    val directories = log.directories()
    log.instance.state.notAfter(FirstBytes, 0, () => ())
    log.describe(directories)
    def due(state: LiveState, time: RowTime, bound: Long): (Int, Int) = {
      var examined = 0
      val found = state.notAfter(time, bound, () => examined += 1).size
      (found, examined)
    }
    def wanted(of: Long => Long, bound: Long): Int =
      log.model.values.count(bytes => of(Format.littleEndian(bytes).getLong & 0xffffL) <= bound)
    for (n <- 0 to 2; (time, of) <- Seq[(RowTime, Long => Long)]((FirstBytes, us => us), (OtherBytes, us => us ^ 0xffffL))) {
      val state = log.load().get
      val before = LoggedBytes.blocksRead.get
      Check.equal(s"rows due before the least time", due(state, time, -1)._1, 0)
      val read = LoggedBytes.blocksRead.get - before
      Check.that(s"$read blocks read for a scan by ${time.name}, $n versions later", if (time == FirstBytes) read == 0 else read > 100)
      Seq(100L, 5000L, 40000L, Zones.Never).foreach(bound => Check.equal(s"rows due at $bound", due(state, time, bound)._1, wanted(of, bound)))
      log.next(Versions + 1 + n)
    }
  }

  /** Frames of a version that was made here have its rows in common, and their zones do not begin where its zones do. */
  private def severalFrames(setting: Setting): Unit = withSettings {
    val bodyBytes = Instance.bodyBytes
    Instance.bodyBytes = 12_000
    try times(setting) finally Instance.bodyBytes = bodyBytes
  }

  private def frames(setting: Setting): Unit = for (seed <- 0 until 100) {
    val random = new Random(seed)
    val counts = Seq.fill(1 + random.nextInt(4))(random.nextInt(1500))
    val times = Array.fill(counts.sum)(random.nextInt(1_000_000).toLong)
    val live = Array.fill(counts.sum)(random.nextInt(3) > 0)
    def starts(sizes: Seq[Int]): Seq[Int] = sizes.scanLeft(0)(_ + _)
    val parts = counts.zip(starts(counts)).map { case (count, start) =>
      val timed = random.nextInt(count + 1)
      val bits = new java.util.BitSet
      (0 until count).filter(row => live(start + row)).foreach(bits.set)
      val least = (0 until timed).grouped(Zones.Size).map(_.map(row => times(start + row)).min).toArray
      LiveStretch(7000L + start, count, LivePart(bits.toLongArray, timed, least))
    }
    val cuts = counts.map { count => Seq.fill(random.nextInt(5))(random.nextInt(count + 1)).appended(0).appended(count).sorted }
    val ofFrames = cuts.zip(starts(counts)).flatMap { case (of, start) => of.zip(of.tail).map { case (from, until) => (start + from, until - from) } }
    val found = LiveRows(0, 0, None, parts).ofFrames(ofFrames.map { case (from, count) => RowsSummary(count, 7000L + from, 0, 0, 0, 0, 0) })
    found.zip(ofFrames).foreach { case (part, (from, count)) =>
      val bits = java.util.BitSet.valueOf(part.bits)
      (0 until count).foreach { row =>
        Check.equal(s"seed $seed: whether row ${from + row} is live", bits.get(row), live(from + row))
        if (row < part.timedRows) Check.that("a zone has a later time than its row", part.leastTimes(row / Zones.Size) <= times(from + row))
      }
    }
  }

  private def goesOnFromNone(setting: Setting): Unit = withSettings {
    val log = new Written(Files.createDirectory(setting.folder.resolve("log")), ragged = true)
    log.describe()
    val keys = filesOf(log.folder, "keys").head
    val whole = Files.readAllBytes(keys)
    whole(100) = (whole(100) ^ 1).toByte
    Files.write(keys, whole)
    val directories = log.directories()
    Check.that("a damaged directory is used", log.load(directories).isEmpty)
    log.next(Versions + 1)
    log.describe(directories)
    Check.that("the damaged file stays", !Files.exists(keys))
    log.check("by one that was made anew", log.load(directories).get)
    Check.equal("files of keys", filesOf(log.folder, "keys").size, 1)
  }

  private def gone(setting: Setting): Unit = withSettings {
    val log = describedTwice(setting)
    val (directories, refused) = (log.directories(), KeyDirectories.refused.get)
    Files.delete(filesOf(log.folder, "keys").head)
    Check.that("a directory without keys is used", log.load(directories).isEmpty)
    log.next(Versions + 2)
    log.describe(directories)
    log.check("by one that was made anew", log.load(directories).get)
    Check.equal("damaged directories", KeyDirectories.refused.get - refused, 0L)
    Check.equal("files", Seq("live", "keys").map(filesOf(log.folder, _).size), Seq(2, 2))
  }

  /** Of the lineage that was left there are directories with higher numbers. */
  private def goneBack(setting: Setting): Unit = withSettings {
    val log = new Written(Files.createDirectory(setting.folder.resolve("log")), ragged = false)
    val directories = log.directories()
    log.describe(directories)
    (1 to 3).foreach(more => log.next(Versions + more))
    log.describe(directories)
    Using.resource(new StateLog(log.segments)) { stateLog =>
      val frame = stateLog.find(5, None)
      val writer = new SegmentWriter(log.segments, 1L << 24, false, false, stateLog.highestOrdinal, new Random(8), () => 6000000L)
      val state = StateLoader.load(stateLog, frame, _ => false, "test", RowMemory.Default)
      val instance = new Instance(state, Base.at(frame), writer, ExtentTarget(2.0, None, None), 1000, 1, () => 6000000L, 0, 0)
      instance.begin()
      (0 until Keys by 3).foreach(n => state.put(1, key(n), 0, 12, value(n, 99, ragged = false), 0, 24))
      instance.commit(6)
      directories.committed(instance.base, state, grows = true, ExtentTarget(2.0, None, None))
      directories.maintain()
      Check.that("the new lineage has no directory", log.load(directories, instance.base).nonEmpty)
      log.check("that which was left", log.load(directories).get)
      writer.close()
    }
  }

  private def once(setting: Setting): Unit = withSettings {
    val log = new Written(Files.createDirectory(setting.folder.resolve("log")), ragged = false)
    log.describe()
    var failing = Option.empty[() => Throwable]
    val sometimes = new ThroughFiles(log.segments.derivedFiles.get) {
      override def open(name: String): SegmentInput = { failing.foreach(error => throw error()); super.open(name) }
    }
    val directories = new KeyDirectories(log.segments, sometimes, "test")
    failing = Some(() => new java.io.IOException("503 Slow Down"))
    Check.that("it is used although it cannot be read", log.load(directories).isEmpty)
    for (interrupt <- Seq(new java.io.InterruptedIOException, new java.nio.channels.ClosedByInterruptException)) {
      failing = Some(() => interrupt)
      Check.equal("what a task that is ended sees", refused(log.load(directories)), interrupt)
    }
    failing = None
    log.check("the next time", log.load(directories).get)
  }

  private def unreadable(setting: Setting): Unit = withSettings {
    val log = new Written(Files.createDirectory(setting.folder.resolve("log")), ragged = false)
    log.describe()
    val state = log.load().get
    val instance = new Instance(state, log.instance.base, null, ExtentTarget(2.0, None, None), 1000, 1, () => 0L, 0, 0)
    instance.begin()
    val file = LoadingRules.segments(log.folder).head
    val whole = Files.readAllBytes(file)
    val cut = new RandomAccessFile(file.toFile, "rw")
    cut.write(new Array[Byte](whole.length - 200))
    cut.close()
    val error = refused((0 until Keys).foreach(n => state.put(1, key(n), 0, 12, key(n), 0, 12)))
    Check.that(s"$error", error.isInstanceOf[CecLogException] && error.getMessage.contains(file.getFileName.toString) && error.getMessage.contains("byte "))
    Check.that("it is of no use any more", instance.isLost && state.isBroken)
    val commit = refused(instance.commit(99))
    Check.that(s"$commit", commit.getMessage.contains("has to be run again"))
    instance.rollback(instance.generation)
    Check.that("it is found at no version", !instance.moveTo(Versions.toLong, None))
    Files.write(file, whole)
    log.check("loaded anew", log.load().get)
  }

  /** The log's folder, of which segments are counted that are open, and in which a thread may be let read no more. */
  private final class Watched(folder: SegmentFolder) extends ThroughFolder(folder) {
    val opened = new AtomicInteger
    @volatile var refuses = Option.empty[String]

    override def open(id: Long): SegmentInput = {
      val input = super.open(id)
      opened.incrementAndGet()
      new ThroughInput(input) {
        override def read(from: Long, length: Int): Array[Byte] =
          if (refuses.contains(Thread.currentThread.getName)) throw new java.io.IOException("503 Slow Down") else super.read(from, length)
        override def close(): Unit = { opened.decrementAndGet(); super.close() }
      }
    }
  }

  private def closed(setting: Setting): Unit = withSettings {
    val log = new Written(Files.createDirectory(setting.folder.resolve("log")), ragged = false)
    log.describe()
    KeyDirectories.fills = true
    for (refuses <- Seq(None, Some("cec-rows"))) {
      val watched = new Watched(log.segments)
      val state = log.load(new KeyDirectories(watched, log.segments.derivedFiles.get, "test")).get
      state.find(1, key(700), 0, 12)
      Check.that("a segment is open that a task has asked for a row", watched.opened.get > 0)
      watched.refuses = refuses
      state.bringRows()
      val deadline = System.nanoTime() + 20000000000L
      while (watched.opened.get > 0 && System.nanoTime() < deadline) Thread.sleep(5)
      Check.equal(s"segments that stay open, where $refuses cannot read", watched.opened.get, 0)
      watched.refuses = None
      log.check("all the same", state)
    }
  }

  private def onePass(setting: Setting): Unit = withSettings {
    val log = new Written(Files.createDirectory(setting.folder.resolve("log")), ragged = false)
    log.version(state => (2 to 9).foreach(family => (0 until 20 * family).foreach(n => state.put(family, key(n), 0, 12, key(n), 0, 12))))
    log.describe()
    var keyBytes = 0L
    val counted = new ThroughFiles(log.segments.derivedFiles.get) {
      override def open(name: String): SegmentInput = new ThroughInput(super.open(name)) {
        override def read(from: Long, length: Int): Array[Byte] = {
          val bytes = super.read(from, length)
          if (name.endsWith(".keys")) keyBytes += bytes.length
          bytes
        }
      }
    }
    def loaded(leastBytes: Int): Double = {
      HashedRun.leastBytes = leastBytes
      keyBytes = 0
      val state = log.load(new KeyDirectories(log.segments, counted, "test")).get
      log.check(s"with $leastBytes bytes", state)
      for (family <- 2 to 9; n <- 0 until 20 * family + 5) {
        val reference = state.find(family, key(n), 0, 12)
        Check.equal("a key of another family", reference != KeyIndex.Absent, n < 20 * family)
        if (n < 20 * family) Check.equal("its value", state.rowsOf(reference).value(reference.toInt).toSeq, key(n).toSeq)
      }
      keyBytes.toDouble / filesOf(log.folder, "keys").map(Files.size).sum
    }
    val (once, often) = (loaded(1 << 20), loaded(200))
    Check.that(s"key files are read $once times", once < 2.5)
    Check.that(s"key files are read $often times, with little room", often > 20)
  }

  private def kept(setting: Setting): Unit = withSettings {
    val log = new Written(Files.createDirectory(setting.folder.resolve("log")), ragged = false)
    val directories = log.directories()
    (1 to 5).foreach { n =>
      log.describe(directories)
      Check.equal("directories", filesOf(log.folder, "live").size, math.min(n, 2))
      (1 to 3).foreach(more => log.next(n * 3 + more))
    }
    val part = Files.write(log.folder.resolve(".some-name.part"), Array[Byte](1))
    val gone = Seq("live", "keys").map(kind => log.folder.resolve(f"${77L << 32}%020d-${1 << 20}%020d.$kind"))
    gone.foreach(Files.write(_, Array[Byte](1)))
    log.check("by the newest that leads there", log.load(directories).get)
    log.describe(directories)
    Check.that("that of a segment which is gone stays", !gone.exists(Files.exists(_)))
    Check.that("what a process has left unfinished stays", !Files.exists(part))
  }

  /** A log whose keys are kept in order, and its directory, in blocks of few rows and in several runs. */
  private def writtenInOrder(setting: Setting): Written = {
    val log = new Written(Files.createDirectory(setting.folder.resolve("log")), ragged = false)
    log.version(state => state.order(1))
    log.describe()
    log
  }

  private def withSmallRuns[A](what: => A): A = withSettings {
    val (bytes, rows) = (SortedKeys.unsortedBytesMax, SortedKeys.blockRowsMax)
    SortedKeys.unsortedBytesMax = 20_000
    SortedKeys.blockRowsMax = 50
    try what finally { SortedKeys.unsortedBytesMax = bytes; SortedKeys.blockRowsMax = rows }
  }

  private def keysOf(state: LiveState): Seq[Seq[Byte]] =
    state.live(1, _.references).map(reference => state.rowsOf(reference).key(reference.toInt).toSeq).toSeq

  private def sorted(log: Written): Seq[Seq[Byte]] = log.model.keys.toSeq.map(key).sorted(Ordering.comparatorToOrdering(KeyIndex.Unsigned)).map(_.toSeq)

  private def inOrder(setting: Setting): Unit = withSmallRuns {
    val log = writtenInOrder(setting)
    val before = LoggedBytes.blocksRead.get
    val state = log.load().get
    Check.that("it is in order", state.inOrder == Set(1))
    Check.equal("blocks read by the load", LoggedBytes.blocksRead.get - before, 0L)
    Check.that("its first keys", state.live(1, _.asInstanceOf[OrderedIndex].between(null, key(20))).nonEmpty)
    val ofFirst = LoggedBytes.blocksRead.get - before
    Check.that(s"$ofFirst blocks read for some keys", ofFirst >= 1 && ofFirst <= 60)
    Check.equal("all keys", keysOf(state), sorted(log))
    log.check("all", state)
    for (n <- 1 to 4) { // on the way there are directories that are made by directories
      log.next(Versions + n)
      val later = log.load().get
      Check.equal(s"$n versions later", keysOf(later), sorted(log))
      log.check(s"$n versions later", later)
      log.describe()
    }
  }

  /** Its newest key file has sorted runs, and the one before has none. */
  private def inOrderLater(setting: Setting): Unit = withSmallRuns {
    val log = new Written(Files.createDirectory(setting.folder.resolve("log")), ragged = false)
    log.describe()
    log.version(state => state.order(1))
    log.next(Versions + 2)
    log.describe()
    val refused = KeyDirectories.refused.get
    val state = log.load().get
    Check.equal("directories that could not be used", KeyDirectories.refused.get - refused, 0L)
    Check.that("it is in no order", state.inOrder.isEmpty)
    state.order(1)
    Check.equal("all keys", keysOf(state), sorted(log))
    log.check("all", state)
  }

  private def damagedRuns(setting: Setting): Unit = withSmallRuns {
    val log = writtenInOrder(setting)
    val file = filesOf(log.folder, "keys").head
    val whole = Files.readAllBytes(file)
    val random = new Random(7)
    Seq.fill(400)(random.nextInt(whole.length)).foreach { at =>
      val bytes = whole.clone
      bytes(at) = (bytes(at) ^ 1 << random.nextInt(8)).toByte
      Files.write(file, bytes)
      // Of hashes nothing is asked where all keys are in order.
      log.load().foreach(state => Check.equal(s"all keys, with a damaged byte $at of ${whole.length}", keysOf(state), sorted(log)))
    }
    Files.write(file, whole)
    log.check("whole again", log.load().get)
  }

  /** Of more keys than the heap may have, none is in order, and the load reads them. */
  private def unsorted(setting: Setting): Unit = withSmallRuns {
    val before = SortedKeys.storedBytesMax
    SortedKeys.storedBytesMax = 4000
    val log = try writtenInOrder(setting) finally SortedKeys.storedBytesMax = before
    val state = log.load().get
    Check.that("it is in no order", state.inOrder.isEmpty)
    state.order(1)
    Check.equal("all keys", keysOf(state), sorted(log))
  }

  /** Segments go while no directory is due, of which the newest one has rows in one of them. */
  private def segmentsGo(setting: Setting): Unit = withSettings {
    val log = new Written(Files.createDirectory(setting.folder.resolve("log")), ragged = false, segmentBytes = 32 << 10)
    val directories = log.directories()
    (1 to 6).foreach { n => log.describe(directories); log.next(Versions + n) }
    Check.that("it names several key files", filesOf(log.folder, "keys").size > 1)
    val maintenance = new Maintenance(log.segments, 32 << 10, 1, 10, -1)
    val refused = KeyDirectories.refused.get
    for (n <- 1 to 20) {
      log.next(Versions + 6 + n)
      maintenance.committed(log.instance.base, grows = true)
      directories.forgotten(maintenance.forget())
      directories.committed(log.instance.base, log.instance.state, grows = true, ExtentTarget(2.0, None, None))
      directories.maintain()
      log.check(s"after $n versions", log.load(directories).get)
    }
    Check.equal("directories that could not be used", KeyDirectories.refused.get - refused, 0L)
  }

  /** By a store that writes none any more: nobody else looks after them. */
  private def forgotten(setting: Setting): Unit = withSettings {
    val log = new Written(Files.createDirectory(setting.folder.resolve("log")), ragged = false, segmentBytes = 32 << 10)
    log.describe()
    val first = filesOf(log.folder, "live").head
    (1 to 30).foreach(n => log.next(Versions + n))
    val maintenance = new Maintenance(log.segments, 32 << 10, 1, 10, -1)
    maintenance.committed(log.instance.base, grows = true)
    maintenance.forget()
    Check.that("its segment is gone", !Files.exists(log.folder.resolve(first.getFileName.toString.take(20) + ".seg")))
    Check.equal("files of key directories", filesOf(log.folder, "live").size + filesOf(log.folder, "keys").size, 0)
    log.check("all", Using.resource(new StateLog(log.segments))(of =>
      StateLoader.load(of, of.find(log.instance.base.version, None), _ => false, "test", RowMemory(0))))
  }

  private def checkedLoads(setting: Setting): Unit = withSettings {
    val log = new Written(Files.createDirectory(setting.folder.resolve("log")), ragged = true)
    log.describe()
    log.check("checked", log.load(log.directories(areChecked = true)).get)
    swapLiveRow(filesOf(log.folder, "live").head)
    Check.that("not checked, it is believed", log.load().nonEmpty)
    val error = refused(log.load(log.directories(areChecked = true)))
    Check.that(s"$error", error.isInstanceOf[CecLogException] && error.getMessage.contains("is not what the log says"))
  }

  private def recoveryTime(setting: Setting): Unit = withSettings {
    val stores = LoadRate.stores.getAndSet(1) // other rules leave theirs open
    try {
      val (time, keys) = (ExtentTarget(2.0, None, Some(500), hasDirectories = true), 40_000_000L)
      val inTime = LoadRate.recordsIn(500)
      Check.equal("an extent that no restart reads", time.costMax(keys), 2 * keys)
      Check.equal("without directories", time.copy(hasDirectories = false).costMax(keys), (1.1 * keys).toLong)
      Check.equal("a small state", time.costMax(99), 8192L)
      Check.equal("a number of records", ExtentTarget(2.0, Some(keys * 3), None, hasDirectories = true).costMax(keys), keys * 3)
      Check.equal("without a time", time.copy(recoveryTimeMs = None).behindMax(keys), keys / 16)
      Check.equal("keys whose hashes take all of it", time.behindMax(keys), 8192L)
      Check.equal("keys whose hashes leave something", time.behindMax(inTime), inTime / 16)
      val longer = ExtentTarget(2.0, None, Some(40_000), hasDirectories = true)
      val many = LoadRate.recordsIn(40_000) * 19 / 10
      Check.equal("keys that leave a twentieth of it", longer.behindMax(many), LoadRate.recordsIn(40_000) - many / 2)
      Check.that("their hashes can be read in time", longer.unmet(many).isEmpty)
      Check.that("they themselves cannot", longer.copy(hasDirectories = false).unmet(many).nonEmpty)
      Check.that("nor can the hashes of four times as many", longer.unmet(many * 4).nonEmpty)
    } finally LoadRate.stores.set(stores)
  }

  /** Of the first frame a dead row is live, and a live one dead, with checksums that are right. */
  private def swapLiveRow(file: Path): Unit = {
    val bytes = Files.readAllBytes(file)
    val (in, words, footer) = (Format.littleEndian(bytes), 92, bytes.length - 28)
    Check.equal("key files", in.getInt(56), 1)
    val word = in.getLong(words)
    in.putLong(words, word ^ java.lang.Long.lowestOneBit(word) ^ java.lang.Long.lowestOneBit(~word))
    in.putInt(footer + 16, Format.crc32c(bytes, footer))
    in.putInt(footer + 24, Format.crc32c(java.util.Arrays.copyOfRange(bytes, footer, footer + 24), 24))
    Files.write(file, bytes)
  }
}
