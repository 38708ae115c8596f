package org.apache.spark.sql.cecstore.log

import java.io.{FileNotFoundException, IOException}
import java.util.EnumSet
import java.util.concurrent.ConcurrentHashMap
import org.apache.hadoop.fs.{Abortable, FSDataInputStream, FSDataOutputStream, FileSystem, LeaseRecoverable, Path, StreamCapabilities}
import org.apache.hadoop.hdfs.client.{HdfsDataInputStream, HdfsDataOutputStream}
import org.apache.hadoop.hdfs.client.HdfsDataOutputStream.SyncFlag
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.CecLogException

/**
 * Any Hadoop file system. Where its streams can be synced, segments grow; elsewhere each is one object.
 *
 * @param mayEndOthers whether a file that a writer of another process has left open may be closed for it
 */
private[cecstore] final class HadoopFolder(fs: FileSystem, path: Path, mayEndOthers: Boolean) extends SegmentFolder with Logging {
  import HadoopFolder._
  override def location: String = path.toString
  private def file(id: Long): Path = fs.makeQualified(new Path(pathOf(id)))

  override def list(): Array[Long] = sizes().keys.toArray.sorted

  override def sizes(): Map[Long, Long] =
    try fs.listStatus(path).flatMap(status => SegmentFolder.idOf(status.getPath.getName).map(_ -> status.getLen)).toMap
    catch { case _: FileNotFoundException => Map.empty }

  override def open(id: Long): SegmentInput =
    try new HadoopInput(fs, file(id)) catch {
      case e: FileNotFoundException => throw e
      // HDFS cannot tell the length of a block whose writer has died.
      case e: IOException => if (settle(id)) new HadoopInput(fs, file(id)) else throw e
    }

  override def derivedFiles: Option[DerivedFiles] = Some(new HadoopDerivedFiles(fs, path))

  override def settle(id: Long): Boolean = fs match {
    case leases: LeaseRecoverable if mayEndOthers && !writing.contains(file(id)) && !leases.isFileClosed(file(id)) =>
      logInfo(s"cec: ${pathOf(id)}: still open for a writer that is gone: recovering its lease")
      val deadline = System.nanoTime() + SettleNs
      var isClosed = leases.recoverLease(file(id))
      while (!isClosed && System.nanoTime() < deadline) {
        Thread.sleep(SettlePollMs)
        isClosed = leases.isFileClosed(file(id))
      }
      if (!isClosed) throw new CecLogException(s"${pathOf(id)}: its writer is gone, and the file system has not " +
        s"closed it within ${SettleNs / 1000000000} s: try again, or see whether all of its data nodes are up",
        named = Map("path" -> pathOf(id)))
      true
    case _ => false
  }

  override def create(id: Long, bytes: Iterator[Array[Byte]], sync: Boolean): SegmentOutput = {
    val isNew = writing.add(file(id)) // from before it is there: nobody else may take it for one whose writer has gone
    try created(id, bytes, sync) catch { case e: Throwable => if (isNew) writing.remove(file(id)); throw e }
  }

  private def created(id: Long, bytes: Iterator[Array[Byte]], sync: Boolean): SegmentOutput = {
    val out = fs.create(file(id), false)
    val canGrow = try out.hasCapability(StreamCapabilities.HSYNC) catch { case e: Throwable => giveUp(out); throw e }
    try {
      bytes.foreach(out.write(_))
      if (canGrow) flush(out, sync) else out.close()
    } catch {
      case e: Throwable =>
        giveUp(out)
        // Half an object stands for nothing: least of all for those that it was to be merged of.
        if (!canGrow) try delete(id) catch { case again: IOException => e.addSuppressed(again) }
        throw e
    }
    val output = new HadoopOutput(file(id), out, canGrow)
    if (canGrow) OpenOutputs.ofProcess.touch(output) else writing.remove(file(id))
    output
  }

  override def delete(id: Long): Unit = fs.delete(file(id), false)

  /** Do not publish half an object; where the file system cannot help it, its frames are not whole. */
  private def giveUp(out: FSDataOutputStream): Unit =
    try abandon(out) catch { case e: IOException => logWarning(s"cec: $location: closing a segment given up", e) }

  private def flush(out: FSDataOutputStream, sync: Boolean): Unit = out match {
    case hdfs: HdfsDataOutputStream if sync => hdfs.hsync(EnumSet.of(SyncFlag.UPDATE_LENGTH))
    case _ => if (sync) out.hsync() else out.hflush()
  }

  /** Its own lock guards the fields: the writer's thread and whoever closes what is idle. */
  private final class HadoopOutput(file: Path, out: FSDataOutputStream, override val grows: Boolean) extends SegmentOutput with Leavable {
    private var isOpen = grows
    private var isHeld = false

    override def hold(): Boolean = synchronized { isHeld = isOpen; isOpen }

    override def append(at: Long, bytes: Iterator[Array[Byte]], sync: Boolean): Unit = {
      if (out.getPos != at) throw new IOException(s"$file: ${out.getPos} bytes where $at were written")
      try { bytes.foreach(out.write(_)); flush(out, sync) } catch { case e: Throwable => end(giveUp(out)); throw e }
      synchronized { isHeld = false }
      OpenOutputs.ofProcess.touch(this)
    }

    override def leave(): Unit = if (synchronized(!isHeld && ended())) {
      try release(out.close()) catch { case e: IOException => logWarning(s"cec: $file: closing a segment that is idle", e) }
    }

    override def close(): Unit = { OpenOutputs.ofProcess.remove(this); end(out.close()) }

    private def end(close: => Unit): Unit = if (synchronized(ended())) release(close)
    private def ended(): Boolean = { val was = isOpen; isOpen = false; was }
    private def release(close: => Unit): Unit = try close finally writing.remove(file)
  }
}

private[log] final class HadoopInput(fs: FileSystem, file: Path) extends SegmentInput {
  private val in: FSDataInputStream = fs.open(file)
  // A file that is still being written is longer than its directory entry says.
  override val size: Long = try in match {
    case hdfs: HdfsDataInputStream => hdfs.getVisibleLength
    case _ => fs.getFileStatus(file).getLen
  } catch { case e: Throwable => // nobody else knows of the stream yet
    try in.close() catch { case second: IOException => e.addSuppressed(second) }
    throw e
  }
  override def read(from: Long, length: Int): Array[Byte] = {
    val bytes = new Array[Byte](math.max(0L, math.min(length.toLong, size - from)).toInt)
    in.readFully(from, bytes)
    bytes
  }
  override def close(): Unit = in.close()
}

private[cecstore] object HadoopFolder {
  /** Segments that this process has open: nobody is dead who writes them. */
  private[cecstore] val writing = ConcurrentHashMap.newKeySet[Path]()
  /** End a stream, if possible without closing it, which may publish what it holds. */
  private[cecstore] def abandon(out: FSDataOutputStream): Unit = out.getWrappedStream match {
    case stream: Abortable if out.hasCapability(StreamCapabilities.ABORTABLE_STREAM) => stream.abort()
    case _ => out.close()
  }

  private val SettleNs = 60L * 1000 * 1000 * 1000
  private val SettlePollMs = 200L
}
