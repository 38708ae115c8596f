package org.apache.spark.sql.cecstore.local

import java.io.RandomAccessFile
import java.nio.channels.FileChannel
import java.nio.file.{Files, Path, StandardOpenOption}

/** Makes local files and folders. Their modes are those that the umask leaves, as of the files that Spark makes. */
private[cecstore] object LocalFiles {
  /** A new file without a byte. Raises FileAlreadyExistsException. */
  def make(file: Path): Unit = Files.createFile(file)

  /** Make a folder and those above it, where they are absent; none that is there is changed. Returns the absent ones. */
  def makeFolder(folder: Path): Seq[Path] = {
    val absent = above(folder).takeWhile(!Files.isDirectory(_)).toVector
    Files.createDirectories(folder)
    absent
  }

  /** Put the names in a folder on disk. An interrupt may break it off, as ClosedByInterruptException. */
  def syncNames(folder: Path): Unit = {
    val channel = FileChannel.open(folder, StandardOpenOption.READ)
    try channel.force(true) finally channel.close()
  }

  /** Fill `bytes` from where the file stands. */
  def fill(file: RandomAccessFile, bytes: Array[Byte]): Unit =
    bytes.indices.by(CallBytes).foreach(at => file.readFully(bytes, at, math.min(CallBytes, bytes.length - at)))

  /** Write where the file stands, and put it on disk if `sync`; an interrupt of the task does not break it off. */
  def write(file: RandomAccessFile, parts: Iterator[Array[Byte]], sync: Boolean): Unit = {
    parts.foreach(part => write(file, part, part.length))
    if (sync) file.getFD.sync()
  }

  /** Write the first bytes of an array where the file stands. */
  def write(file: RandomAccessFile, bytes: Array[Byte], length: Int): Unit =
    (0 until length by CallBytes).foreach(at => file.write(bytes, at, math.min(CallBytes, length - at)))

  /** The JVM copies what it is given at once into memory outside of the heap: so little of it stays in the processor's cache. */
  private val CallBytes = 1 << 16

  /** The folder and all above it. */
  def above(path: Path): Iterator[Path] = Iterator.iterate(path.toAbsolutePath)(_.getParent).takeWhile(_ != null)
}
