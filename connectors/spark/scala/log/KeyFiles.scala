package org.apache.spark.sql.cecstore.log

import java.io.{FileNotFoundException, IOException, RandomAccessFile}
import java.nio.file.{Files, Path => LocalPath, StandardCopyOption}
import java.util.UUID
import scala.util.Using
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.spark.sql.cecstore.local.LocalFiles

/** Files of keys beside the segments of a log: derived from it, and nothing is lost with them. */
private[cecstore] trait KeyFiles {
  /** Their names; none where there is no folder yet. */
  def names(): Seq[String]
  /** Raises FileNotFoundException. */
  def open(name: String): SegmentInput
  /** Make the file with these bytes, which are not synced. What a process that is gone has left unfinished goes. */
  def create(name: String, bytes: Iterator[Array[Byte]]): Unit
  def delete(name: String): Unit
}

private[cecstore] object KeyFiles {
  val Suffix = ".keys"
  /** Of a file that is being written; a reader never sees it under its own name. */
  private[log] def partOf(name: String): String = s".$name-${UUID.randomUUID}$PartSuffix"
  private[log] def isPart(name: String): Boolean = name.startsWith(".") && name.endsWith(PartSuffix)
  private val PartSuffix = ".keys-part"
}

private[log] final class LocalKeyFiles(path: LocalPath) extends KeyFiles {
  private def all: Seq[String] = Option(path.toFile.list()).toSeq.flatten
  override def names(): Seq[String] = all.filter(_.endsWith(KeyFiles.Suffix))
  override def open(name: String): SegmentInput = new LocalInput(path.resolve(name).toString)
  override def delete(name: String): Unit = Files.deleteIfExists(path.resolve(name))

  override def create(name: String, bytes: Iterator[Array[Byte]]): Unit = {
    all.filter(KeyFiles.isPart).foreach(delete)
    val part = path.resolve(KeyFiles.partOf(name))
    LocalFiles.make(part)
    try {
      Using.resource(new RandomAccessFile(part.toFile, "rw"))(LocalFiles.write(_, bytes, sync = false))
      Files.move(part, path.resolve(name), StandardCopyOption.ATOMIC_MOVE)
    } finally Files.deleteIfExists(part)
  }
}

private[log] final class HadoopKeyFiles(fs: FileSystem, path: Path) extends KeyFiles {
  private def all: Seq[String] =
    try fs.listStatus(path).toSeq.map(_.getPath.getName) catch { case _: FileNotFoundException => Nil }
  override def names(): Seq[String] = all.filter(_.endsWith(KeyFiles.Suffix))
  override def open(name: String): SegmentInput = new HadoopInput(fs, fs.makeQualified(new Path(path, name)))
  override def delete(name: String): Unit = fs.delete(new Path(path, name), false)

  override def create(name: String, bytes: Iterator[Array[Byte]]): Unit = {
    all.filter(KeyFiles.isPart).foreach(delete)
    val part = new Path(path, KeyFiles.partOf(name))
    try {
      Using.resource(fs.create(part, false))(out => bytes.foreach(out.write(_)))
      if (!fs.rename(part, new Path(path, name))) throw new IOException(s"$path: $name could not be given its name")
    } finally fs.delete(part, false)
  }
}
