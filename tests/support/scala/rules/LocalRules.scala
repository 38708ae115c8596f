package org.apache.spark.sql.cecstore.testing

import java.io.{File, IOException, RandomAccessFile}
import java.nio.file.{Files, Path}
import java.util.{Arrays, Random}

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.Rows
import org.apache.spark.sql.cecstore.local.{Extent, LocalSpace}
import org.apache.spark.sql.cecstore.log.{Base, SegmentWriter, StateLog}
import org.apache.spark.sql.cecstore.state.{ExtentTarget, Instance, LiveState, RowMemory, StateLoader}
import org.apache.spark.sql.cecstore.store.InstancePool
import org.apache.spark.unsafe.Platform

/** Local files for rows that the heap has no room for. */
object LocalRules {
  import Setting.{inThread, refused}

  val rules: Seq[(String, Setting => Unit)] = Seq(
    "what an address in a local file has is what was written there" -> addresses,
    "room in local files that nobody holds is used again" -> recycled,
    "nothing stands in Spark's local folders while local files are open" -> unlinked,
    "a local folder that is gone is passed over, and none at all is an error that names them" -> folders,
    "an interrupt neither fails local files nor gets lost" -> interrupted,
    "a local disk that is full fails the batch by name, and the next attempt goes on" -> full,
    "rows are in the heap up to memoryBytes, and in local files above" -> limits,
    "rows of a large version leave nothing in the heap that a local file may have" -> large,
    "a state that another one takes the place of gives back its local room and its share of the heap" -> replaced,
    "a provider that is closed gives back its local room" -> closedProvider,
    "rows that went to a local file together stay until the last of them is gone" -> together)

  private val FileBytes = 1L << 20
  private def space(folder: Path, more: Path*): LocalSpace = new LocalSpace((folder +: more).map(_.toFile), FileBytes)

  private def read(base: AnyRef, offset: Long, bytes: Long): Array[Byte] = {
    val copy = new Array[Byte](bytes.toInt)
    Platform.copyMemory(base, offset, copy, Platform.BYTE_ARRAY_OFFSET, bytes)
    copy
  }
  private def asBytes(array: AnyRef, bytes: Long): Array[Byte] =
    read(array, if (array.isInstanceOf[Array[Int]]) Platform.INT_ARRAY_OFFSET else Platform.BYTE_ARRAY_OFFSET, bytes)

  private def addresses(setting: Setting): Unit = {
    val (tried, random) = (space(setting.folder), new Random(3))
    val held = ArrayBuffer.empty[(Extent, Seq[(Long, Array[Byte])])]
    (1 to 400).foreach { _ =>
      if (held.nonEmpty && random.nextInt(3) == 0) held.remove(random.nextInt(held.size))._1.release()
      val pieces = Seq.fill(1 + random.nextInt(6))(piece(random))
      val (extent, places) = tried.write(pieces)
      Check.that("addresses are multiples of eight", places.forall(_ % 8 == 0))
      held += extent -> places.zip(pieces.map { case (array, bytes) => asBytes(array, bytes) })
      held.foreach { case (_, all) => all.foreach { case (place, bytes) =>
        Check.that("bytes", Arrays.equals(read(null, place, bytes.length), bytes))
      } }
    }
    held.foreach(_._1.release())
    Check.equal("bytes in use", tried.usedBytes, 0L)
  }

  /** Fewer bytes than the array has are written of some, and more than a buffer takes of few. */
  private def piece(random: Random): (AnyRef, Long) = {
    val size = if (random.nextInt(40) == 0) 70000 + random.nextInt(100000) else random.nextInt(300)
    if (random.nextBoolean()) {
      val bytes = new Array[Byte](size)
      random.nextBytes(bytes)
      bytes -> random.nextInt(size + 1).toLong
    } else Array.fill(size / 4)(random.nextInt()) -> (size / 4) * 4L
  }

  private def recycled(setting: Setting): Unit = {
    val opened = ArrayBuffer.empty[File]
    val tried = new LocalSpace(Seq(setting.folder.toFile), FileBytes, file => { opened += file; new RandomAccessFile(file, "rw") })
    def take(bytes: Int): Extent = tried.write(Seq(new Array[Byte](bytes) -> bytes.toLong))._1
    val parts = Seq.fill(8)(take(1 << 17))
    Check.equal("files", opened.size, 1)
    Seq(3, 5, 4, 0, 7, 1, 6, 2).foreach(parts(_).release())
    // All of it in one piece again.
    val whole = take(1 << 20)
    Check.equal("files", opened.size, 1)
    whole.retain()
    whole.release()
    Check.equal("bytes while one holder is left", tried.usedBytes, 1L << 20)
    whole.release()
    take(5 << 20).release()
    Check.equal("files, with one of its own for what is larger", opened.size, 2)
    dropped(tried)
    val deadline = System.nanoTime() + 20000000000L
    while (tried.usedBytes > 0 && System.nanoTime() < deadline) { System.gc(); Thread.sleep(20) }
    Check.equal("bytes of holders that are gone", tried.usedBytes, 0L)
  }

  private def dropped(tried: LocalSpace): Unit = {
    tried.write(Seq(new Array[Byte](100) -> 100L))
    Check.equal("bytes of a holder", tried.usedBytes, 104L)
  }

  private def unlinked(setting: Setting): Unit = {
    val tried = space(setting.folder)
    val (extent, Seq(place)) = tried.write(Seq(Array[Byte](7) -> 1L))
    Check.equal("files in the folder", setting.folder.toFile.list.length, 0)
    Check.equal("the byte", Platform.getByte(null, place), 7.toByte)
    extent.release()
  }

  private def folders(setting: Setting): Unit = {
    val (gone, here) = (setting.folder.resolve("gone"), Files.createDirectory(setting.folder.resolve("here")))
    val tried = space(gone, here)
    (1 to 4).foreach(_ => tried.write(Seq(new Array[Byte](1 << 20) -> (1L << 20))))
    val error = refused(space(gone).write(Seq(Array[Byte](1) -> 1L)))
    Check.that(s"$error", error.isInstanceOf[IOException] && error.getMessage.contains("spark.local.dir"))
  }

  private def interrupted(setting: Setting): Unit = inThread {
    val tried = space(setting.folder)
    Thread.currentThread.interrupt()
    val (_, Seq(place)) = tried.write(Seq(Array[Byte](9) -> 1L))
    Check.that("the interrupt is still there", Thread.interrupted())
    Check.equal("the byte", Platform.getByte(null, place), 9.toByte)
  }

  /** Fails to write while it is full. */
  private final class Disk {
    var isFull = false
    def open(file: File): RandomAccessFile = new RandomAccessFile(file, "rw") {
      override def write(bytes: Array[Byte], from: Int, length: Int): Unit =
        if (isFull) throw new IOException("No space left on device") else super.write(bytes, from, length)
    }
  }

  private val key = Array.fill[Byte](16)(3)
  private def put(state: LiveState, n: Int, value: Byte): Unit = {
    key(0) = n.toByte
    state.put(1, key, 0, key.length, Array.fill(50 + n)(value), 0, 50 + n)
  }
  private def content(state: LiveState): Map[Int, Seq[Byte]] = (0 until 100).flatMap { n =>
    key(0) = n.toByte
    val at = state.find(1, key, 0, key.length)
    Option.when(at != 0)(n -> state.rowsOf(at).value(at.toInt).toSeq)
  }.toMap

  private def full(setting: Setting): Unit = {
    val disk = new Disk
    val local = new LocalSpace(Seq(setting.folder.toFile), FileBytes, disk.open)
    val memory = RowMemory(0, () => local)
    val log = Files.createDirectory(setting.folder.resolve("log"))
    val clock = () => 5000000L
    val writer = new SegmentWriter(Logs.onDisk(log), 1L << 20, false, false, 0, new Random(1), clock)
    val instance = new Instance(StateLoader.empty(_ => false, memory), Base.empty(0), writer, ExtentTarget(2.0, None, None), 1000, 1, clock, 0, 0)
    def version(number: Int): Unit = { instance.begin(); (0 until 40).foreach(n => put(instance.state, n + number, number.toByte)); instance.commit(number) }
    (1 to 3).foreach(version)
    val before = content(instance.state)
    disk.isFull = true
    val error = refused(instance.begin())
    Check.that(s"$error", error.isInstanceOf[CecLogException] && error.getMessage.contains("No space left"))
    Check.equal("the state", content(instance.state), before)
    Check.that("the version before can be taken back", instance.moveTo(2, None))
    disk.isFull = false
    (3 to 6).foreach(version)
    val found = new StateLog(Logs.onDisk(log))
    try {
      val loaded = StateLoader.load(found, found.find(6, None), _ => false, "test", memory)
      Check.equal("what was loaded", content(loaded), content(instance.state))
      disk.isFull = true
      refused(StateLoader.load(found, found.find(6, None), _ => false, "test", memory))
    } finally found.close()
    Check.that("rows are in local files", local.usedBytes > 0)
  }

  /** Versions of the sizes of a real store, so that several go together; each key's values differ in length. */
  private def together(setting: Setting): Unit = {
    val (local, random) = (new LocalSpace(Seq(setting.folder.toFile), FileBytes), new Random(8))
    val state = StateLoader.empty(_ => false, RowMemory(1, () => local))
    var wanted = Map.empty[Int, Seq[Byte]]
    (1 to 120).foreach { round =>
      state.begin()
      // Those that are put seldom keep a few rows of old parts alive.
      (0 until 20).foreach { _ =>
        val n = math.min(random.nextInt(100), random.nextInt(100))
        val value = new Array[Byte](1 + random.nextInt(3000))
        random.nextBytes(value)
        key(0) = n.toByte
        state.put(1, key, 0, key.length, value, 0, value.length)
        wanted += n -> value.toSeq
      }
      state.compact()
      state.renew(ExtentTarget(2.0, Some(3000), None), Long.MaxValue)
      state.markCommitted(state.compact().map(_ => 1), 1000)
      Check.that(s"round $round", content(state) == wanted)
    }
    Check.that("rows are in local files", local.writtenBytes > (1 << 20))
    Check.that(s"${local.usedBytes} of ${local.writtenBytes} bytes in use", local.usedBytes < local.writtenBytes / 2)
  }

  /** They are moved while the version is made, and where they end only once it is over. */
  private def large(setting: Setting): Unit = {
    val local = new LocalSpace(Seq(setting.folder.toFile), FileBytes)
    val state = StateLoader.empty(_ => false, RowMemory(0, () => local))
    val partBytes = LiveState.partBytes
    LiveState.partBytes = 4000
    try {
      state.begin()
      (0 until 5000).foreach { n =>
        val bytes = Array.fill(3 + n % 7)(n.toByte)
        state.put(1, keyOf(n), 0, 4, bytes, 0, bytes.length)
      }
      state.markCommitted(state.compact().map(_ => 1), 1000)
      state.begin()
      def rows: Seq[Rows] = (0 until 5000).map(n => state.rowsOf(state.find(1, keyOf(n), 0, 4))).distinct
      state.begin()
      val bytes = rows.map(_.memoryBytes).sum
      Check.that(s"${rows.size} parts take $bytes bytes of the heap", rows.size > 5 && rows.forall(!_.isInHeap) && bytes < 5000 + rows.size * 200)
      (0 until 5000).foreach { n =>
        val at = state.find(1, keyOf(n), 0, 4)
        Check.equal(s"value $n", state.rowsOf(at).value(at.toInt).toSeq, Seq.fill(3 + n % 7)(n.toByte))
      }
      (0 until 5000).foreach(n => state.remove(1, keyOf(n), 0, 4))
      state.markCommitted(state.compact().map(_ => 1), 1000)
      state.begin()
      state.markCommitted(state.compact().map(_ => 1), 1000)
      state.begin()
      Check.equal("bytes in files once all are gone", local.usedBytes, 0L)
    } finally LiveState.partBytes = partBytes
  }

  private def keyOf(n: Int): Array[Byte] = java.nio.ByteBuffer.allocate(4).putInt(n).array

  private def replaced(setting: Setting): Unit = {
    val local = new LocalSpace(Seq(setting.folder.toFile), FileBytes)
    val segments = Logs.onDisk(Files.createDirectory(setting.folder.resolve("log")))
    val clock = () => 5000000L
    def instance(seed: Long, memory: RowMemory): Instance = {
      val writer = new SegmentWriter(segments, 1L << 20, false, false, 0, new Random(seed), clock)
      val made = new Instance(StateLoader.empty(_ => false, memory), Base.empty(0), writer, ExtentTarget(2.0, None, None), 1000, 1, clock, 0, 0)
      (1 to 3).foreach { version => made.begin(); (0 until 40).foreach(n => put(made.state, n + version, version.toByte)); made.commit(version) }
      made.state.begin()
      made
    }
    val pool = new InstancePool(segments)
    val before = RowMemory.heldBytes
    def leave(owner: Long, memory: RowMemory): Unit = {
      val (made, _) = pool.take(owner, 99, None, isUsable = true)(instance(owner, memory))
      pool.giveBack(owner, made, made.generation)
    }
    leave(1, RowMemory(0, () => local))
    Check.that("one is in local files", local.usedBytes > 0)
    leave(2, RowMemory(Long.MaxValue, () => local))
    Check.equal("bytes in local files of the one that is replaced", local.usedBytes, 0L)
    Check.that("another one is in the heap", RowMemory.heldBytes > before)
    pool.close().foreach(_.state.letGo())
    Check.that(s"${RowMemory.heldBytes - before} bytes are counted in the heap", RowMemory.heldBytes <= before)
  }

  private def closedProvider(setting: Setting): Unit = {
    val stores = setting.stores(Map("spark.sql.streaming.stateStore.cec.memoryBytes" -> "0"))
    val (before, written) = (LocalSpace.ofProcess.usedBytes, LocalSpace.ofProcess.writtenBytes)
    val provider = stores.provider(setting.family)
    (0 until 50).foldLeft(Stores.Start)((last, n) => setting.version(provider, last, n % 20 -> n % 20))
    Check.that("rows are in local files", LocalSpace.ofProcess.writtenBytes > written)
    provider.close()
    Check.that(s"${LocalSpace.ofProcess.usedBytes} bytes in use, $before before", LocalSpace.ofProcess.usedBytes <= before)
  }

  private def limits(setting: Setting): Unit = {
    val local = new LocalSpace(Seq(setting.folder.toFile), FileBytes)
    def filled(memory: RowMemory): LiveState = {
      val state = StateLoader.empty(_ => false, memory)
      (1 to 8).foreach { round =>
        state.begin()
        (0 until 100).foreach { n => key(1) = round.toByte; state.put(1, key.patch(0, Seq(n.toByte), 1), 0, 16, new Array[Byte](1000), 0, 1000) }
        state.compact()
        state.markCommitted(Seq(1), 1000)
      }
      state.begin()
      state.begin()
      state
    }
    filled(RowMemory(Long.MaxValue, () => local))
    Check.equal("bytes in files, with room in the heap", local.usedBytes, 0L)
    val small = filled(RowMemory(1, () => local))
    Check.that(s"${local.usedBytes} bytes in files, with no room in the heap", local.usedBytes > 500000)
    Check.that(s"${small.memoryBytes} bytes in the heap", small.memoryBytes < 700000)
  }
}
