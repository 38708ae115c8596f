package org.apache.spark.sql.cecstore.local

import java.io.{File, IOException, RandomAccessFile}
import java.lang.ref.Cleaner
import java.nio.MappedByteBuffer
import java.nio.channels.{ClosedByInterruptException, FileChannel}
import java.nio.file.{Files, Path, StandardOpenOption}
import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}
import scala.annotation.tailrec
import scala.collection.mutable.ArrayBuffer
import org.apache.arrow.memory.util.MemoryUtil
import org.apache.spark.{SparkConf, SparkEnv}
import org.apache.spark.unsafe.Platform
import org.apache.spark.util.Utils

/**
 * Files in this machine's local folders, for bytes that are derived from a log and do not have to be in the heap. Each is
 * mapped once, read-only, and stays mapped while the process lives: an address that was given out can always be read, by
 * a thread that comes late as well, which then reads what others have put there since. A file is removed from its
 * folder as soon as it is open, so that nothing is left behind by a process that is killed.
 *
 * Bytes are written through the file and read through the mapping. A disk that is full is thus an [[IOException]], where a
 * write through the mapping would end the process.
 *
 * @param folders where the files are made, in turn
 * @param fileBytes their size, which they take up only as far as they are written; for what is larger, that twice, four times, ...
 * @param open how a file is opened to be written
 */
private[cecstore] final class LocalSpace(
    folders: => Seq[File], fileBytes: Long, open: File => RandomAccessFile = new RandomAccessFile(_, "rw")) {
  private val files = ArrayBuffer.empty[SpaceFile]
  private val turn = new AtomicInteger
  private val used, written = new AtomicLong

  /** Bytes that extents take. */
  def usedBytes: Long = used.get
  /** Bytes that were ever written. */
  def writtenBytes: Long = written.get

  /**
   * Write these bytes one after the other, each from an address that is a multiple of eight; returns the extent and the addresses.
   * Raises an IOException that says what to do, and then takes up no room.
   *
   * @param pieces arrays of bytes, ints or longs, and how many bytes of each
   */
  def write(pieces: Seq[(AnyRef, Long)]): (Extent, Seq[Long]) = {
    val starts = pieces.scanLeft(0L)((at, piece) => LocalSpace.aligned(at + piece._2))
    val (extent, address) = write(starts.last) { out =>
      pieces.zip(starts).foreach { case ((array, bytes), start) => out.skipTo(start); out.add(array, bytes) }
    }
    (extent, starts.init.map(address + _))
  }

  /**
   * Write at most so many bytes, as `fill` adds them; returns the extent and the address of the first. Raises an IOException as above.
   */
  def write(bytes: Long)(fill: WriteBuffer => Unit): (Extent, Long) = {
    val whole = LocalSpace.aligned(bytes)
    val (file, at) = room(whole)
    try {
      val out = new WriteBuffer((array, length, place) => file.write(at + place, array, length))
      fill(out)
      out.flush()
    } catch { case e: Throwable =>
      file.free(at, whole)
      throw (e match { case e: IOException => failed(e); case other => other })
    }
    written.addAndGet(whole)
    (taken(file, at, whole), file.address + at)
  }

  /** Room for so many bytes that are written later, in any order. Raises an IOException as above. */
  def reserve(bytes: Long): LocalRoom = {
    val whole = LocalSpace.aligned(bytes)
    val (file, at) = room(whole)
    new LocalRoom(taken(file, at, whole), file.address + at, (place, array, length) => {
      try file.write(at + place, array, length) catch { case e: IOException => throw failed(e) }
      written.addAndGet(length)
    })
  }

  private def taken(file: SpaceFile, at: Long, bytes: Long): Extent = {
    used.addAndGet(bytes)
    new Extent(() => { file.free(at, bytes); used.addAndGet(-bytes) })
  }

  private def room(bytes: Long): (SpaceFile, Long) = synchronized {
    files.iterator.map(file => file -> file.take(bytes)).find(_._2 >= 0).getOrElse {
      val file = newFile(sizeFor(bytes))
      files += file
      file -> file.take(bytes)
    }
  }

  /** Larger ones in steps: what grows bit by bit then fits into what was there before. Room that is not written takes none. */
  private def sizeFor(bytes: Long): Long = {
    if (bytes > Int.MaxValue) throw failed(new IOException(s"$bytes bytes in one piece, where ${Int.MaxValue} can be mapped (use more partitions)"))
    Iterator.iterate(fileBytes)(_ * 2).find(_ >= bytes).get.min(Int.MaxValue.toLong & ~7L).max(bytes)
  }

  private def newFile(bytes: Long): SpaceFile = {
    val candidates = try folders catch { case e: IOException => throw failed(e) }
    @tailrec def inTurn(left: Int): SpaceFile = {
      val folder = candidates(turn.getAndIncrement() % candidates.size)
      val made = try Right(new SpaceFile(folder, bytes, open)) catch { case e: IOException => Left(e) }
      made match {
        case Right(file) => file
        case Left(e) if left == 1 => throw failed(e)
        case _ => inTurn(left - 1)
      }
    }
    inTurn(candidates.size)
  }

  private def failed(e: IOException) = new IOException(
    s"what a state has cannot be kept in a local file: $e. The log has it all: make room in Spark's local folders (spark.local.dir), " +
      "or have more rows kept in the heap (spark.sql.streaming.stateStore.cec.memoryBytes), and start the query again", e)
}

private[cecstore] object LocalSpace {
  /** For what nobody has let go of, as of a state that a failed task has left. */
  private[cecstore] val cleaner: Cleaner = Cleaner.create()
  private val FileBytes = 256L << 20

  /** That of this process, in Spark's local folders. */
  lazy val ofProcess: LocalSpace = new LocalSpace(sparkFolders, FileBytes)

  private lazy val sparkFolders: Seq[File] = {
    val conf = Option(SparkEnv.get).map(_.conf).getOrElse(new SparkConf)
    Utils.getOrCreateLocalRootDirs(conf).toSeq.map(new File(_))
  }

  private[local] def aligned(bytes: Long): Long = (bytes + 7) & ~7L
}

/** Room in a local file that one or more holders have. It is free once all have let go of it, or are gone. */
private[cecstore] final class Extent(free: () => Unit) {
  private val holders = new AtomicInteger(1)
  // What it runs must not hold this object.
  private val cleanable = { val action = free; LocalSpace.cleaner.register(this, () => action()) }

  def retain(): Unit = holders.incrementAndGet()
  def release(): Unit = if (holders.decrementAndGet() == 0) cleanable.clean()
}

/**
 * Room that is written piece by piece.
 *
 * @param address of its first byte; what was not written reads as anything
 * @param write_ takes where in the room the bytes belong, an array, and how many bytes of it
 */
private[cecstore] final class LocalRoom(val extent: Extent, val address: Long, write_ : (Long, Array[Byte], Int) => Unit) {
  /** Raises an IOException that says what to do. */
  def write(place: Long, bytes: Array[Byte], length: Int): Unit = write_(place, bytes, length)
}

/** One file, and which parts of it are free. */
private final class SpaceFile(folder: File, bytes: Long, open: File => RandomAccessFile) {
  private val path = File.createTempFile("cec-rows-", ".local", folder).toPath
  private val access = try open(path.toFile) catch { case e: Throwable => Files.deleteIfExists(path); throw e }
  private val mapping: MappedByteBuffer = try {
    access.setLength(bytes)
    SpaceFile.mapped(path, bytes)
  } catch { case e: Throwable => access.close(); throw e } finally Files.deleteIfExists(path)
  val address: Long = MemoryUtil.getByteBufferAddress(mapping)
  private val free_ = new java.util.TreeMap[Long, Long]
  free_.put(0L, bytes)

  /** Where so many bytes are from now on taken; below zero where they do not fit. */
  def take(bytes: Long): Long = synchronized {
    val spans = free_.entrySet.iterator
    while (spans.hasNext) {
      val span = spans.next()
      val (at, room) = (span.getKey, span.getValue)
      if (room >= bytes) {
        spans.remove()
        if (room > bytes) free_.put(at + bytes, room - bytes)
        return at
      }
    }
    -1
  }

  def free(at: Long, bytes: Long): Unit = synchronized {
    val (before, after) = (free_.lowerEntry(at), free_.higherEntry(at))
    val start = if (before != null && before.getKey + before.getValue == at) before.getKey.longValue else at
    val end = if (after != null && after.getKey == at + bytes) { free_.remove(after.getKey); after.getKey + after.getValue } else at + bytes
    if (bytes > 0) free_.put(start, end - start)
  }

  def write(at: Long, bytes: Array[Byte], length: Int): Unit = synchronized {
    access.seek(at)
    LocalFiles.write(access, bytes, length)
  }
}

private object SpaceFile {
  /** An interrupt closes a channel: then another one is taken, and the interrupt is left for whoever waits next. */
  @tailrec def mapped(path: Path, bytes: Long, wasInterrupted: Boolean = false): MappedByteBuffer = {
    val isInterrupted = Thread.interrupted() || wasInterrupted
    val mapping = try {
      val channel = FileChannel.open(path, StandardOpenOption.READ)
      try channel.map(FileChannel.MapMode.READ_ONLY, 0, bytes) finally channel.close()
    } catch { case _: ClosedByInterruptException => null }
    if (mapping == null) mapped(path, bytes, wasInterrupted = true)
    else { if (isInterrupted) Thread.currentThread.interrupt(); mapping }
  }
}

/**
 * Small pieces go to the file together: a system call for each would take longer than the bytes.
 *
 * @param write takes an array, how many bytes of it, and where in the extent they belong
 */
private[cecstore] final class WriteBuffer(write: (Array[Byte], Int, Long) => Unit) {
  private val buffer = new Array[Byte](WriteBuffer.Bytes)
  private var filled = 0
  /** Where in the extent the buffer begins. */
  private var begins = 0L

  /** Fill up with zeros, fewer than eight. */
  def skipTo(place: Long): Unit = add(WriteBuffer.Zeros, place - begins - filled)

  def add(array: AnyRef, bytes: Long): Unit = array match {
    case whole: Array[Byte] if bytes >= buffer.length => flush(); write(whole, bytes.toInt, begins); begins += bytes
    case whole: Array[Byte] => copy(whole, Platform.BYTE_ARRAY_OFFSET, bytes)
    case ints: Array[Int] => copy(ints, Platform.INT_ARRAY_OFFSET, bytes)
    case longs: Array[Long] => copy(longs, Platform.LONG_ARRAY_OFFSET, bytes)
    case null => require(bytes == 0, s"$bytes bytes of nothing")
  }

  /** The lower bytes of a number, of which the others are 0: so many, at most eight. */
  def addNumber(number: Long, bytes: Int): Unit = {
    if (filled + 8 > buffer.length) flush()
    Platform.putLong(buffer, Platform.BYTE_ARRAY_OFFSET + filled.toLong, number)
    filled += bytes
  }

  private def copy(array: AnyRef, offset: Long, bytes: Long): Unit = {
    var done = 0L
    while (done < bytes) {
      if (filled == buffer.length) flush()
      val next = math.min(bytes - done, (buffer.length - filled).toLong)
      Platform.copyMemory(array, offset + done, buffer, Platform.BYTE_ARRAY_OFFSET + filled.toLong, next)
      filled += next.toInt
      done += next
    }
  }

  def flush(): Unit = { write(buffer, filled, begins); begins += filled; filled = 0 }
}

private object WriteBuffer {
  private val Bytes = 1 << 16
  private val Zeros = new Array[Byte](8)
}
