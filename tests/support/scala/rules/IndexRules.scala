package org.apache.spark.sql.cecstore.testing

import java.io.{File, IOException, RandomAccessFile}
import java.nio.file.Files
import java.util.Random

import scala.collection.mutable

import org.apache.spark.sql.cecstore.format.{Format, Rows}
import org.apache.spark.sql.cecstore.keys.{HashIndex, KeyIndex, KeyRun, RowsTable}
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

  private def limits(setting: Setting): Unit = withSettings(-1, keysMin = 500) {
    val local = new LocalSpace(Seq(setting.folder.toFile), 16L << 20)
    val (none, all) = (RowMemory(0, () => local), RowMemory(Long.MaxValue, () => local))
    val log = Files.createDirectory(setting.folder.resolve("log"))
    val clock = () => 5000000L
    def written(state: LiveState): Instance = {
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
    val inHeap = written(StateLoader.empty(_ => false, all)).state.memoryBytes
    Check.that(s"$inHeap bytes in the heap", inHeap > 20000 * 28)
    Check.equal("bytes in local files, with room in the heap", local.usedBytes, 0L)
    log.toFile.listFiles.foreach(_.delete())
    val state = written(StateLoader.empty(_ => false, none)).state
    Check.that(s"${state.memoryBytes} bytes in the heap", state.memoryBytes < inHeap / 3)
    val found = new StateLog(Logs.onDisk(log))
    try {
      val loaded = StateLoader.load(found, found.find(20, None), _ => false, "test", none)
      Check.equal("keys", loaded.openWindows, 20000L)
      Check.that(s"${loaded.memoryBytes} bytes in the heap after a load", loaded.memoryBytes < 20000 * 3)
      Check.that(s"${loaded.localBytes} bytes in local files", loaded.localBytes > 20000 * (16 + 8))
      Check.that("keys are found", (0L until 20000L).forall { n =>
        val key = Format.littleEndian(new Array[Byte](8)).putLong(n).array
        loaded.find(1, key, 0, 8) != KeyIndex.Absent
      })
    } finally found.close()
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
