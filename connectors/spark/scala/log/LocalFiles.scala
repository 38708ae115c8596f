package org.apache.spark.sql.cecstore.log

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

  /** The folder and all above it. */
  def above(path: Path): Iterator[Path] = Iterator.iterate(path.toAbsolutePath)(_.getParent).takeWhile(_ != null)
}
