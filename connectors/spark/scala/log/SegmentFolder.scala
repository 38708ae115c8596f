package org.apache.spark.sql.cecstore.log

import java.io.{Closeable, FileNotFoundException, IOException, RandomAccessFile}
import java.nio.channels.FileChannel
import java.nio.file.{Files, Path => LocalPath, Paths, StandardOpenOption}
import java.util.EnumSet
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Abortable, FSDataInputStream, FSDataOutputStream, FileSystem, Path, StreamCapabilities}
import org.apache.hadoop.hdfs.client.{HdfsDataInputStream, HdfsDataOutputStream}
import org.apache.hadoop.hdfs.client.HdfsDataOutputStream.SyncFlag
import org.apache.spark.internal.Logging

/**
 * The directory of one state log: only its implementations touch a file system. Task threads and
 * the maintenance thread call it at once; implementations keep nothing that changes.
 */
private[cecstore] trait SegmentFolder {
  def location: String
  /** Ids of the segments that exist, ascending; empty where there is no directory yet. */
  def list(): Array[Long]
  /** Raises FileNotFoundException. */
  def open(id: Long): SegmentInput
  /** Make the segment exclusively, hold these bytes, and return once they are durable if `sync`. */
  def create(id: Long, bytes: Array[Array[Byte]], sync: Boolean): SegmentOutput
  def delete(id: Long): Unit
  def pathOf(id: Long): String = s"$location/${SegmentFolder.name(id)}"
}

private[cecstore] trait SegmentInput extends Closeable {
  def size: Long
  /** `length` bytes from `from` on; fewer at the end of the file. */
  def read(from: Long, length: Int): Array[Byte]
}

/** A segment that its writer goes on with. */
private[cecstore] trait SegmentOutput extends Closeable {
  /** False where the file system cannot append: the segment is complete. */
  def grows: Boolean
  def append(at: Long, bytes: Array[Array[Byte]], sync: Boolean): Unit
}

private[cecstore] object SegmentFolder {
  def name(id: Long): String = f"$id%020d.seg"
  private val Name = """(\d{20})\.seg""".r

  def idOf(name: String): Option[Long] = name match {
    case Name(digits) => digits.toLongOption
    case _ => None
  }

  def apply(path: Path, conf: Configuration): SegmentFolder = {
    val fs = path.getFileSystem(conf)
    if (fs.getUri.getScheme == "file") new LocalFolder(Paths.get(fs.makeQualified(path).toUri.getPath))
    else new HadoopFolder(fs, path)
  }
}

/** Local files, through calls that an interrupt of the task does not break off half-way. */
private[cecstore] final class LocalFolder(path: LocalPath) extends SegmentFolder {
  override def location: String = path.toString

  override def list(): Array[Long] = {
    val names = path.toFile.list()
    if (names == null) Array.empty else names.flatMap(SegmentFolder.idOf).sorted
  }

  override def open(id: Long): SegmentInput = new SegmentInput {
    private val file = new RandomAccessFile(pathOf(id), "r")
    override def size: Long = file.length
    override def read(from: Long, length: Int): Array[Byte] = {
      file.seek(from)
      val bytes = new Array[Byte](math.max(0L, math.min(length.toLong, file.length - from)).toInt)
      file.readFully(bytes)
      bytes
    }
    override def close(): Unit = file.close()
  }

  override def create(id: Long, bytes: Array[Array[Byte]], sync: Boolean): SegmentOutput = {
    val isNew = !Files.isDirectory(path)
    Files.createDirectories(path)
    Files.createFile(Paths.get(pathOf(id)))
    val output = new LocalOutput(pathOf(id))
    output.append(0, bytes, sync)
    if (sync) {
      syncDirectory(path)
      if (isNew) syncDirectory(path.getParent)
    }
    output
  }

  private def syncDirectory(directory: LocalPath): Unit = {
    val channel = FileChannel.open(directory, StandardOpenOption.READ)
    try channel.force(true) finally channel.close()
  }

  override def delete(id: Long): Unit = Files.deleteIfExists(Paths.get(pathOf(id)))

  /** Holds no file between commits: an executor may have thousands of stores. */
  private final class LocalOutput(file: String) extends SegmentOutput {
    override def grows: Boolean = true
    override def append(at: Long, bytes: Array[Array[Byte]], sync: Boolean): Unit = {
      val out = new RandomAccessFile(file, "rw")
      try {
        if (out.length != at) throw new IOException(s"$file has ${out.length} bytes where $at were written")
        out.seek(at)
        bytes.foreach(out.write(_))
        if (sync) out.getFD.sync()
      } finally out.close()
    }
    override def close(): Unit = ()
  }
}

/** Any Hadoop file system. Where its streams can be synced, segments grow; elsewhere each is one object. */
private[cecstore] final class HadoopFolder(fs: FileSystem, path: Path) extends SegmentFolder with Logging {
  override def location: String = path.toString

  override def list(): Array[Long] =
    try fs.listStatus(path).flatMap(status => SegmentFolder.idOf(status.getPath.getName)).sorted
    catch { case _: FileNotFoundException => Array.empty }

  override def open(id: Long): SegmentInput = new SegmentInput {
    private val file = new Path(pathOf(id))
    private val in: FSDataInputStream = fs.open(file)
    // A file that is still being written is longer than its directory entry says.
    override val size: Long = in match {
      case hdfs: HdfsDataInputStream => hdfs.getVisibleLength
      case _ => fs.getFileStatus(file).getLen
    }
    override def read(from: Long, length: Int): Array[Byte] = {
      val bytes = new Array[Byte](math.max(0L, math.min(length.toLong, size - from)).toInt)
      in.readFully(from, bytes)
      bytes
    }
    override def close(): Unit = in.close()
  }

  override def create(id: Long, bytes: Array[Array[Byte]], sync: Boolean): SegmentOutput = {
    val out = fs.create(new Path(pathOf(id)), false)
    try {
      bytes.foreach(out.write(_))
      val canGrow = out.hasCapability(StreamCapabilities.HSYNC)
      if (canGrow) flush(out, sync) else out.close()
      new HadoopOutput(out, canGrow)
    } catch { case e: Throwable => giveUp(out); throw e }
  }

  override def delete(id: Long): Unit = fs.delete(new Path(pathOf(id)), false)

  /** Do not publish half an object; where the file system cannot help it, its frames are not whole. */
  private def giveUp(out: FSDataOutputStream): Unit = out.getWrappedStream match {
    case stream: Abortable if out.hasCapability(StreamCapabilities.ABORTABLE_STREAM) => stream.abort()
    case _ => try out.close() catch { case e: IOException => logWarning(s"cec: $location: closing a segment given up", e) }
  }

  private def flush(out: FSDataOutputStream, sync: Boolean): Unit = out match {
    case hdfs: HdfsDataOutputStream if sync => hdfs.hsync(EnumSet.of(SyncFlag.UPDATE_LENGTH))
    case _ => if (sync) out.hsync() else out.hflush()
  }

  private final class HadoopOutput(out: FSDataOutputStream, override val grows: Boolean) extends SegmentOutput {
    override def append(at: Long, bytes: Array[Array[Byte]], sync: Boolean): Unit = {
      if (out.getPos != at) throw new IOException(s"$path: ${out.getPos} bytes where $at were written")
      try { bytes.foreach(out.write(_)); flush(out, sync) } catch { case e: Throwable => giveUp(out); throw e }
    }
    override def close(): Unit = if (grows) out.close()
  }
}
