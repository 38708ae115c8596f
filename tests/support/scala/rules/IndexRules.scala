package org.apache.spark.sql.cecstore.testing

import java.io.{File, IOException, RandomAccessFile}
import java.nio.file.{Files, Path}
import java.util.Random

import scala.collection.mutable
import scala.util.Using

import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.{Format, Rows}
import org.apache.spark.sql.cecstore.keys.{HashedRun, HashIndex, HashShares, KeyIndex, KeyRun, RowsTable}
import org.apache.spark.sql.cecstore.local.{Extent, LocalSpace}
import org.apache.spark.sql.cecstore.log.{Base, SegmentWriter, StateLog}
import org.apache.spark.sql.cecstore.state.{ExtentTarget, Instance, LiveState, RowMemory, StateLoader}

/** The index of keys in no order: a table in the heap over a run in a local file. */
object IndexRules {
  val rules: Seq[(String, Setting => Unit)] = Seq(
    "an index of a table over a run has what a map has" -> (setting => random(setting, scans = false)),
    "a scan of an index gives each key once, whatever is put and merged meanwhile" -> (setting => random(setting, scans = true)),
    "more keys of the last hash than a run has spare slots are found in it" -> lastHash,
    "an index stays in the heap while the local disk is full, and goes on" -> full,
    "of rows that come newest first an index has the first one of each key" -> newestFirst,
    "an index that is made of hashes has each key" -> ofHashes,
    "a load says what to do where the local disk has no room for an index" -> fullAtLoad,
    "an index is in the heap up to memoryBytes, and above in local files, after a load too" -> limits)

  /** Leave so few bits of a hash, and so few keys in the heap. */
  private def withSettings[A](hashBits: Int, keysMin: Int)(what: => A): A = {
    val (bits, min) = (HashIndex.hashBits, KeyRun.keysMin)
    HashIndex.hashBits = hashBits
    KeyRun.keysMin = keysMin
    try what finally { HashIndex.hashBits = bits; KeyRun.keysMin = min }
  }

  private def random(setting: Setting, scans: Boolean): Unit =
    for (seed <- 0 until 40; bits <- Seq(ModelRun.FourBits, -1)) withSettings(bits, keysMin = 1 + seed % 9) {
      val local = new LocalSpace(Seq(setting.folder.toFile), 1L << 20)
      new RandomIndex(new Random(seed), local, scans).all()
    }

  /** A third of the slots is for a quarter of the hashes each: twice as many keys as are spread over them need more than the spare ones. */
  private def lastHash(setting: Setting): Unit = withSettings(0xc0000000, keysMin = 10) {
    val local = new LocalSpace(Seq(setting.folder.toFile), 1L << 20)
    val run = new RandomIndex(new Random(1), local, scans = false)
    // Of those that look alike those with the last hash are left.
    val last = (0 until 8000).filter(n => HashIndex.hash(RandomIndex.key(n), 0, 12) >>> 30 == 3)
    last.foreach(run.put)
    run.makeRoom()
    Check.that("a run was made", run.index.localBytes > last.size * 8)
    last.foreach(run.find)
  }

  private def full(setting: Setting): Unit = withSettings(-1, keysMin = 100) {
    var isFull = true
    def open(file: File): RandomAccessFile = new RandomAccessFile(file, "rw") {
      override def write(bytes: Array[Byte], from: Int, length: Int): Unit =
        if (isFull) throw new IOException("No space left on device") else super.write(bytes, from, length)
    }
    val local = new LocalSpace(Seq(setting.folder.toFile), 1L << 20, open)
    val run = new RandomIndex(new Random(1), local, scans = false)
    def makeRoom(): Unit = run.index.makeRoom(isFull = true, 8, () => local)
    (0 until 300).foreach(run.put)
    makeRoom()
    Check.equal("bytes in local files", (local.usedBytes, run.index.localBytes), (0L, 0L))
    (0 until 300).foreach(run.find)
    isFull = false
    makeRoom()
    Check.equal("bytes in local files before twice as many keys have changed", local.usedBytes, 0L)
    (0 until 700).foreach(run.put)
    makeRoom()
    Check.that("a run was made", local.usedBytes > 700 * 8)
    isFull = true
    (0 until 600).foreach(run.put)
    makeRoom()
    (0 until 700).foreach(run.find)
  }

  private def newestFirst(setting: Setting): Unit = {
    val entries = HashShares.blockEntries
    try for (seed <- 0 until 60; bits <- Seq(ModelRun.FourBits, -1)) withSettings(bits, keysMin = seed % 40) {
      HashShares.blockEntries = 1 + seed % 50
      newestFirst(new Random(seed), new LocalSpace(Seq(setting.folder.toFile), 1L << 20))
    } finally HashShares.blockEntries = entries
  }

  private def newestFirst(random: Random, local: LocalSpace): Unit = {
    val (rows, model, taken) = (new RowsTable, mutable.Map.empty[Int, Long], mutable.ArrayBuffer.empty[Long])
    val index = new HashIndex(rows, 0)
    // From two shares to as many as there can be.
    index.beginLoad(1 << (4 + random.nextInt(24)), () => local)
    val keys = 1 + random.nextInt(120)
    (0 until random.nextInt(8)).foreach { newer =>
      val part = new Rows(RowsTable.NewestLoadedId - newer, 16, 256, 256)
      val numbers = Seq.fill(random.nextInt(60))(random.nextInt(keys))
      numbers.foreach(n => part.append(Format.Check, 1, RandomIndex.key(n), 0, 12, RandomIndex.key(n), 0, 0))
      rows.put(part)
      numbers.zipWithIndex.reverse.foreach { case (n, row) =>
        val isClosed = random.nextInt(4) == 0
        index.load(RandomIndex.key(n), 0, 12, part.reference(row), isClosed)
        model.getOrElseUpdate(n, if (isClosed) KeyIndex.Absent else part.reference(row))
      }
    }
    index.endLoad(taken += _)
    val open = model.values.filter(_ != KeyIndex.Absent).toVector.sorted
    Check.equal("rows of open keys", taken.toVector.sorted, open)
    Check.equal("references", index.references.toVector.sorted, open)
    (0 until keys).foreach(n => Check.equal(s"key $n", index.find(RandomIndex.key(n), 0, 12), model.getOrElse(n, KeyIndex.Absent)))
    Check.equal("keys and bytes", (index.size, local.usedBytes), (open.size, (index.localBytes + 7) & ~7L))
    Check.equal("whether a run was made", index.localBytes > 0, open.size > KeyRun.keysMin)
  }

  /** In one part and in many, of hashes that differ and that are mostly equal; with two bits a quarter of them is the last one. */
  private def ofHashes(setting: Setting): Unit = {
    val least = HashedRun.leastBytes
    try for (seed <- 0 until 60; bits <- Seq(ModelRun.FourBits, 0xc0000000, -1)) withSettings(bits, keysMin = 0) {
      HashedRun.leastBytes = if (seed % 3 == 0) least else 64 + seed * seed
      ofHashes(new Random(seed), new LocalSpace(Seq(setting.folder.toFile), 1L << 20))
    } finally HashedRun.leastBytes = least
  }

  private def ofHashes(random: Random, local: LocalSpace): Unit = {
    val (rows, keys) = (new RowsTable, 1 + random.nextInt(2000))
    val entries = (0 until keys).grouped(1 + random.nextInt(keys)).zipWithIndex.flatMap { case (some, i) =>
      val part = new Rows(RowsTable.NewestLoadedId - i, 16, 256, 256)
      some.foreach(n => part.append(Format.Check, 1, RandomIndex.key(n), 0, 12, RandomIndex.key(n), 0, 0))
      rows.put(part)
      some.zipWithIndex.map { case (n, row) => n -> part.reference(row) }
    }.toMap
    val run = new HashedRun(rows, keys, 0)
    val shuffled = new scala.util.Random(random).shuffle(entries.toSeq)
    val index = new HashIndex(rows, 0)
    index.beginWith(run.written(local)(() => shuffled.foreach { case (n, reference) =>
      run.add(HashIndex.hash(RandomIndex.key(n), 0, 12), reference)
    }))
    Check.equal("references", index.references.toVector.sorted, entries.values.toVector.sorted)
    (0 until keys + 50).foreach(n => Check.equal(s"key $n", index.find(RandomIndex.key(n), 0, 12), entries.getOrElse(n, KeyIndex.Absent)))
    Check.equal("bytes", local.usedBytes, (index.localBytes + 7) & ~7L)
  }

  /** There is room in the heap for the rows, and none for an index beside them. */
  private def fullAtLoad(setting: Setting): Unit = withSettings(-1, keysMin = 500) {
    def open(file: File): RandomAccessFile = new RandomAccessFile(file, "rw") {
      override def write(bytes: Array[Byte], from: Int, length: Int): Unit = throw new IOException("No space left on device")
    }
    val local = new LocalSpace(Seq(setting.folder.toFile), 1L << 20, open)
    val log = Files.createDirectory(setting.folder.resolve("log"))
    written(log, StateLoader.empty(_ => false, RowMemory(Long.MaxValue, () => local)))
    val error = try { loaded(log, RowMemory(390000, () => local)); throw new Wrong("it was loaded") } catch { case e: CecLogException => e.getMessage }
    Check.that(error, error.contains("No space left on device") && error.contains("spark.local.dir"))
    Check.equal("bytes in local files", local.usedBytes, 0L)
    Check.equal("keys", loaded(log, RowMemory(Long.MaxValue, () => local)).openWindows, 20000L)
  }

  private def limits(setting: Setting): Unit = withSettings(-1, keysMin = 500) {
    val local = new LocalSpace(Seq(setting.folder.toFile), 16L << 20)
    val (none, all) = (RowMemory(0, () => local), RowMemory(Long.MaxValue, () => local))
    val log = Files.createDirectory(setting.folder.resolve("log"))
    val inHeap = written(log, StateLoader.empty(_ => false, all)).state.memoryBytes
    Check.that(s"$inHeap bytes in the heap", inHeap > 20000 * 28)
    Check.equal("bytes in local files, with room in the heap", local.usedBytes, 0L)
    log.toFile.listFiles.foreach(_.delete())
    val state = written(log, StateLoader.empty(_ => false, none)).state
    Check.that(s"${state.memoryBytes} bytes in the heap", state.memoryBytes < inHeap / 3)
    val reloaded = loaded(log, none)
    Check.equal("keys", reloaded.openWindows, 20000L)
    Check.that(s"${reloaded.memoryBytes} bytes in the heap after a load", reloaded.memoryBytes < 20000 * 3)
    Check.that(s"${reloaded.localBytes} bytes in local files", reloaded.localBytes > 20000 * (16 + 8))
    Check.that("keys are found", (0L until 20000L).forall { n =>
      val key = Format.littleEndian(new Array[Byte](8)).putLong(n).array
      reloaded.find(1, key, 0, 8) != KeyIndex.Absent
    })
  }

  /** Twenty versions of a thousand keys each. */
  private def written(log: Path, state: LiveState): Instance = {
    val clock = () => 5000000L
    val writer = new SegmentWriter(Logs.onDisk(log), 1L << 24, false, false, 0, new Random(1), clock)
    val instance = new Instance(state, Base.empty(0), writer, ExtentTarget(2.0, None, None), 1000, 1, clock, 0, 0)
    val key = new Array[Byte](8)
    (0 until 20).foreach { version =>
      instance.begin()
      (0 until 1000).foreach { n =>
        Format.littleEndian(key).putLong(version * 1000L + n)
        state.put(1, key, 0, 8, key, 0, 8)
      }
      instance.commit(version + 1L)
    }
    instance.begin()
    instance
  }

  private def loaded(log: Path, memory: RowMemory): LiveState = Using.resource(new StateLog(Logs.onDisk(log))) { found =>
    StateLoader.load(found, found.find(20, None), _ => false, "test", memory)
  }
}

/** Random calls of an index and of a map; rows that no key has any more are dropped, as those of old versions are. */
private final class RandomIndex(random: Random, local: LocalSpace, scans: Boolean) {
  import RandomIndex.key

  private val rows = new RowsTable
  val index = new HashIndex(rows, 0)
  private val model = mutable.Map.empty[Int, Long]
  private var part = newPart(1)
  /** Room that is written over whatever was given back before. */
  private var noise = Seq.empty[Extent]

  private def newPart(id: Int): Rows = {
    val part = new Rows(id, 16, 256, 256)
    rows.put(part)
    part
  }

  private def row(n: Int): Long = {
    if (part.count >= 40) part = newPart(part.id + 1)
    part.reference(part.append(Format.Check, 1, key(n), 0, 12, key(n), 0, 0))
  }

  def all(): Unit = {
    val keys = 20 + random.nextInt(150)
    (1 to 60).foreach { _ =>
      (0 until random.nextInt(40)).foreach(_ => change(random.nextInt(keys)))
      if (scans) scan(keys)
      if (random.nextInt(3) == 0) makeRoom()
      checkAll(keys)
      dropOld()
    }
    if (!scans) Check.equal("bytes of runs", local.usedBytes - noiseBytes, (index.localBytes + 7) & ~7L)
    (0 until keys).foreach(delete)
    makeRoom()
    Check.equal("keys", index.size, 0)
  }

  private def noiseBytes: Long = noise.size * 512L

  private def checkAll(keys: Int): Unit = {
    (0 until keys).foreach(find)
    Check.equal("keys", index.size, model.size)
    val given = index.references.toVector
    Check.equal("references", given.sorted, model.values.toVector.sorted)
  }

  def find(n: Int): Unit = Check.equal(s"key $n", index.find(key(n), 0, 12), model.getOrElse(n, KeyIndex.Absent))

  def put(n: Int): Unit = {
    val reference = row(n)
    Check.equal(s"what key $n had", index.swap(key(n), 0, 12, reference), model.getOrElse(n, KeyIndex.Absent))
    model(n) = reference
  }

  private def delete(n: Int): Unit = { index.delete(key(n), 0, 12); model.remove(n) }

  private def change(n: Int): Unit = random.nextInt(8) match {
    case 0 => delete(n)
    case 1 if model.contains(n) => index.deleteHeld(key(n), 0, 12, model.remove(n).get)
    case 2 if model.contains(n) =>
      val reference = row(n)
      index.move(key(n), 0, 12, model(n), reference)
      model(n) = reference
    case 3 =>
      val reference = row(n)
      val had = index.put(key(n), 0, 12, reference, replace = false)
      Check.equal(s"what key $n had", had, model.getOrElse(n, KeyIndex.Absent))
      model.getOrElseUpdate(n, reference)
    case _ => put(n)
  }

  def makeRoom(): Unit = {
    index.makeRoom(isFull = true, 8, () => local)
    noise.foreach(_.release())
    noise = Seq.fill(1 + random.nextInt(3)) { local.write(Seq(Array.fill[Byte](512)(-1) -> 512L))._1 }
  }

  /** Keys that are there all the while are given, none twice; those put or removed meanwhile may be. */
  private def scan(keys: Int): Unit = {
    val before = model.keySet.toSet
    val given = mutable.Set.empty[Int]
    val removed = mutable.Set.empty[Int]
    val references = index.references
    while (references.hasNext) {
      val reference = references.next()
      val n = Format.littleEndian(rows.of(reference).key(reference.toInt)).getInt
      Check.that(s"key $n is given twice", given.add(n))
      (0 until random.nextInt(4)).foreach { _ =>
        val other = random.nextInt(keys)
        if (random.nextInt(4) == 0) { if (model.contains(other)) removed += other; delete(other) }
        else if (!removed(other)) put(other)
      }
      if (random.nextInt(40) == 0) makeRoom()
    }
    val missing = before -- removed -- given
    Check.that(s"keys are not given: $missing", missing.isEmpty)
  }

  private def dropOld(): Unit = {
    val oldest = if (model.isEmpty) part.id else model.values.map(reference => (reference >>> 32).toInt).min
    rows.dropBelow(oldest)
  }
}

private object RandomIndex {
  def key(n: Int): Array[Byte] = Format.littleEndian(new Array[Byte](12)).putInt(n).array
}
