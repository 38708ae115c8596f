package org.apache.spark.sql.cecstore.log

import java.io.{FileNotFoundException, IOException, RandomAccessFile}
import java.nio.file.{Files, Path => LocalPath, StandardCopyOption}
import java.util.UUID
import scala.util.Using
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.spark.sql.cecstore.local.LocalFiles

/** Files beside the segments of a log that are derived from it: nothing is lost with them. */
private[cecstore] trait DerivedFiles {
  /** Of all files there; none where there is no folder yet. */
  def names(): Seq[String]
  /** Raises FileNotFoundException. */
  def open(name: String): SegmentInput
  /** Make the file, or make it anew, with these bytes, which are not synced. What a process that is gone has left unfinished goes. */
  def create(name: String, bytes: Iterator[Array[Byte]]): Unit
  def delete(name: String): Unit
}

/** The name of a file of a key directory: the segment and the number of the last frame of which it speaks. docs/format.md §16. */
private[cecstore] final case class DirectoryName(segment: Long, seq: Long) {
  def keys: String = text(DirectoryName.Keys)
  def live: String = text(DirectoryName.Live)
  private def text(suffix: String): String = f"$segment%020d-$seq%020d.$suffix"
}

private[cecstore] object DirectoryName {
  /** Suffixes of files of keys, and of those that say which rows are live. */
  val Keys = "keys"
  val Live = "live"
  private val Name = """(\d{20})-(\d{20})\.([a-z]+)""".r

  def of(text: String, suffix: String): Option[DirectoryName] = text match {
    case Name(segment, seq, `suffix`) => for (id <- segment.toLongOption; number <- seq.toLongOption) yield DirectoryName(id, number)
    case _ => None
  }
}

private object DerivedFiles {
  /** Of a file that is being written; a reader never sees it under its own name. */
  def partOf(name: String): String = s".$name-${UUID.randomUUID}$PartSuffix"
  def isPart(name: String): Boolean = name.startsWith(".") && name.endsWith(PartSuffix)
  private val PartSuffix = ".part"
}

private[log] final class LocalDerivedFiles(path: LocalPath) extends DerivedFiles {
  override def names(): Seq[String] = Option(path.toFile.list()).toSeq.flatten
  override def open(name: String): SegmentInput = new LocalInput(path.resolve(name).toString)
  override def delete(name: String): Unit = Files.deleteIfExists(path.resolve(name))

  override def create(name: String, bytes: Iterator[Array[Byte]]): Unit = {
    names().filter(DerivedFiles.isPart).foreach(delete)
    val part = path.resolve(DerivedFiles.partOf(name))
    LocalFiles.make(part)
    try {
      Using.resource(new RandomAccessFile(part.toFile, "rw"))(LocalFiles.write(_, bytes, sync = false))
      Files.move(part, path.resolve(name), StandardCopyOption.ATOMIC_MOVE)
    } finally Files.deleteIfExists(part)
  }
}

private[log] final class HadoopDerivedFiles(fs: FileSystem, path: Path) extends DerivedFiles {
  override def names(): Seq[String] =
    try fs.listStatus(path).toSeq.map(_.getPath.getName) catch { case _: FileNotFoundException => Nil }
  override def open(name: String): SegmentInput = new HadoopInput(fs, fs.makeQualified(new Path(path, name)))
  override def delete(name: String): Unit = fs.delete(new Path(path, name), false)

  override def create(name: String, bytes: Iterator[Array[Byte]]): Unit = {
    names().filter(DerivedFiles.isPart).foreach(delete)
    val part = new Path(path, DerivedFiles.partOf(name))
    try {
      Using.resource(fs.create(part, false))(out => bytes.foreach(out.write(_)))
      delete(name) // a rename replaces nothing
      if (!fs.rename(part, new Path(path, name))) throw new IOException(s"$path: $name could not be given its name")
    } finally fs.delete(part, false)
  }
}
