package org.apache.spark.sql.cecstore.testing

import java.io._
import java.net.URI
import java.nio.file.attribute.BasicFileAttributes
import java.nio.file.{Files, FileAlreadyExistsException => Exists, NoSuchFileException}
import java.util.UUID
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/** A Hadoop file system over a local folder that can do what the remote ones can do, and no more. */
abstract class NarrowFiles(scheme: String) extends FileSystem {
  private val root = URI.create(s"$scheme:///")

  override def getScheme: String = scheme
  override def getUri: URI = root
  override def getWorkingDirectory: Path = new Path(root)
  override def setWorkingDirectory(path: Path): Unit = ()
  protected def local(path: Path): File = new File(path.toUri.getPath)

  override def rename(from: Path, to: Path): Boolean = throw new UnsupportedOperationException("rename")
  override def append(path: Path, buffer: Int, progress: Progressable): FSDataOutputStream =
    throw new UnsupportedOperationException("append")
  override def mkdirs(path: Path, permission: FsPermission): Boolean = true

  override def open(path: Path, buffer: Int): FSDataInputStream = {
    NarrowFiles.breakOff()
    new FSDataInputStream(new LocalInput(local(path)))
  }

  override def getFileStatus(path: Path): FileStatus = {
    // At once: a file that is deleted between two questions is no file of no bytes.
    val found = try Files.readAttributes(local(path).toPath, classOf[BasicFileAttributes])
      catch { case _: NoSuchFileException => throw new FileNotFoundException(path.toString) }
    new FileStatus(found.size, found.isDirectory, 1, 1 << 20, found.lastModifiedTime.toMillis, makeQualified(path))
  }

  override def listStatus(path: Path): Array[FileStatus] = {
    NarrowFiles.breakOff()
    val names = local(path).list()
    if (names == null) throw new FileNotFoundException(path.toString)
    names.filterNot(_.startsWith(".")).map(new Path(path, _))
      .flatMap(p => try Some(getFileStatus(p)) catch { case _: FileNotFoundException => None })
  }

  override def delete(path: Path, recursive: Boolean): Boolean = {
    if (NarrowFiles.isSegment(path)) NarrowFiles.deleted.incrementAndGet()
    local(path).delete()
  }

  override def create(path: Path, permission: FsPermission, overwrite: Boolean, buffer: Int,
      replication: Short, block: Long, progress: Progressable): FSDataOutputStream = {
    Check.that(s"$path is written over", !overwrite)
    if (local(path).exists) throw new FileAlreadyExistsException(path.toString)
    local(path).getParentFile.mkdirs()
    new FSDataOutputStream(output(path), null)
  }

  protected def output(path: Path): OutputStream
}

object NarrowFiles {
  val (created, merged, deleted) = (new AtomicInteger, new AtomicInteger, new AtomicInteger)

  def isSegment(path: Path): Boolean = path.getName.endsWith(".seg")

  def published(path: Path): Unit = if (isSegment(path)) {
    created.incrementAndGet()
    if (path.getName.stripSuffix(".seg").toLong % 2 == 1) merged.incrementAndGet()
  }

  /** Remote file systems give up when the task is interrupted. */
  def breakOff(): Unit =
    if (Thread.currentThread.isInterrupted) throw new InterruptedIOException("the task is interrupted")

  def register(conf: Configuration): Unit = {
    conf.set("fs.objects.impl", classOf[ObjectFiles].getName)
    conf.set("fs.gated.impl", classOf[GatedFiles].getName)
    conf.set("fs.flaky.impl", classOf[FlakyFiles].getName)
    conf.set("fs.synced.impl", classOf[SyncedFiles].getName)
    conf.set("fs.leased.impl", classOf[LeasedFiles].getName)
  }

  def counts: Map[String, Any] =
    Map("created" -> created.get, "merged" -> merged.get, "deleted" -> deleted.get)
}

final class LocalInput(file: File) extends FSInputStream {
  private val in = new RandomAccessFile(file, "r")
  override def seek(at: Long): Unit = in.seek(at)
  override def getPos: Long = in.getFilePointer
  override def seekToNewSource(at: Long): Boolean = false
  override def read(): Int = in.read()
  override def read(bytes: Array[Byte], from: Int, length: Int): Int = {
    NarrowFiles.breakOff()
    in.read(bytes, from, length)
  }
  override def close(): Unit = in.close()
}

/** As an object store: an object is there, whole, once its stream is closed; none is ever changed. */
abstract class ObjectStore(scheme: String) extends NarrowFiles(scheme) {
  override protected def output(path: Path): OutputStream = new ByteArrayOutputStream {
    private var isOpen = true
    override def close(): Unit = if (isOpen) {
      NarrowFiles.breakOff()
      isOpen = false
      val (file, draft) = (local(path).toPath, local(new Path(path.getParent, s".${UUID.randomUUID()}")).toPath)
      Files.write(draft, toByteArray)
      try Files.createLink(file, draft)
      catch { case _: Exists => throw new FileAlreadyExistsException(path.toString) }
      finally Files.delete(draft)
      NarrowFiles.published(path)
    }
  }
}

final class ObjectFiles extends ObjectStore("objects")

/** As HDFS: streams can be synced, and a power cut takes what was not. */
class SyncedFiles(scheme: String) extends NarrowFiles(scheme) {
  def this() = this("synced")
  override protected def output(path: Path): OutputStream = new SyncedOutput(local(path), path)
}

/** Also as HDFS: what a dead writer left open is short until its lease is recovered, which takes a while. */
final class LeasedFiles extends SyncedFiles("leased") with LeaseRecoverable {
  private def writers(path: Path) = SyncedFiles.outputs.keySet.asScala.filter(_.file == local(path))
  private def isAbandoned(path: Path): Boolean = writers(path).exists(o => o.isDead && !LeasedFiles.recovered.contains(o.file))

  override def getFileStatus(path: Path): FileStatus = {
    val found = super.getFileStatus(path)
    if (!isAbandoned(path)) found
    else new FileStatus(LeasedFiles.ShortBytes, false, 1, 1 << 20, found.getModificationTime, found.getPath)
  }

  override def recoverLease(path: Path): Boolean = {
    LeasedFiles.asked.incrementAndGet()
    LeasedFiles.recovered.add(local(path))
    false // not yet: ask again
  }

  override def isFileClosed(path: Path): Boolean = writers(path).forall(o => !o.isOpen || LeasedFiles.recovered.contains(o.file))
}

object LeasedFiles {
  val ShortBytes = 200L
  val asked = new AtomicInteger
  val recovered: java.util.Set[File] = ConcurrentHashMap.newKeySet[File]()
}

final class SyncedOutput(val file: File, path: Path) extends OutputStream with Syncable with StreamCapabilities {
  private val out = new RandomAccessFile(file, "rw")
  private val buffer = new ByteArrayOutputStream
  var isOpen = true
  var synced = 0L
  @volatile var isDead = false
  NarrowFiles.published(path)
  SyncedFiles.outputs.put(this, file)

  override def write(byte: Int): Unit = buffer.write(byte)
  override def write(bytes: Array[Byte], from: Int, length: Int): Unit = buffer.write(bytes, from, length)
  override def hasCapability(name: String): Boolean =
    name == StreamCapabilities.HSYNC || name == StreamCapabilities.HFLUSH

  override def hflush(): Unit = {
    NarrowFiles.breakOff()
    if (isDead || !isOpen) throw new IOException(s"$path: no longer open")
    out.write(buffer.toByteArray)
    buffer.reset()
  }

  override def hsync(): Unit = {
    hflush()
    synced = out.length
  }

  override def close(): Unit = if (isOpen) {
    try if (!isDead) hflush() finally {
      isOpen = false
      out.close()
      SyncedFiles.open.decrementAndGet()
    }
  }
  SyncedFiles.open.incrementAndGet()
}

object SyncedFiles {
  val outputs = new ConcurrentHashMap[SyncedOutput, File]
  val open = new AtomicInteger

  /** All files below a folder keep what was synced, and any part of what stands behind it. */
  def powerCut(folder: File, random: Random): Unit =
    for (output <- outputs.keySet.asScala.toVector if output.file.toPath.startsWith(folder.toPath)) {
      output.isDead = true
      output.close()
      outputs.remove(output)
      if (output.file.exists) {
        val file = new RandomAccessFile(output.file, "rw")
        val rest = (file.length - output.synced).toInt
        file.setLength(output.synced + random.nextInt(rest + 1))
        file.close()
      }
    }
}
