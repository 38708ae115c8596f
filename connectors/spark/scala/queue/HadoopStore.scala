package org.apache.spark.sql.cecstore.queue

import java.io.{EOFException, FileNotFoundException, IOException, InterruptedIOException}
import java.nio.file.FileAlreadyExistsException
import java.security.{MessageDigest, SecureRandom}
import java.util.concurrent.{Callable, CyclicBarrier, Executors}
import scala.jdk.CollectionConverters._
import scala.util.Using
import scala.util.control.NonFatal
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataInputStream, FSDataOutputStream, FileContext, FileStatus, FileSystem, Options, Path}
import org.apache.hadoop.util.functional.FutureIO
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.Interrupts
import org.apache.spark.sql.cecstore.log.HadoopFolder

/** Any Hadoop file system that can make an object only where there is none. */
private[cecstore] final class HadoopStore(fs: FileSystem, root: Path, creation: Creation, needsProof: Boolean)
    extends Store with Racing with Logging {
  override val url: String = root.toString.stripSuffix("/")
  private def at(name: String): Path = new Path(root, Store.checked(name))

  override def racing: Option[Racing] = Option.when(needsProof)(this)

  override def server: String = {
    val (conf, uri) = (fs.getConf, fs.getUri)
    val endpoint = if (uri.getScheme != "s3a") None
      else Option(conf.get(s"fs.s3a.bucket.${uri.getHost}.endpoint")).orElse(Option(conf.get("fs.s3a.endpoint")))
    (uri.toString +: endpoint.toSeq).mkString(" ")
  }

  override def race(name: String, bodies: Seq[Array[Byte]]): Int = {
    val path = at(name)
    val together = new CyclicBarrier(bodies.size)
    val pool = Executors.newFixedThreadPool(bodies.size)
    def isMade(body: Array[Byte]): Boolean = {
      val publish = try Some(creation.written(fs, path, Iterator(body))) catch {
        case e: IOException => logDebug(s"cec: $path: $e"); None
      }
      together.await()
      try publish.fold(false) { send => send(); true } catch {
        case e: IOException => logDebug(s"cec: $path: $e"); false
      }
    }
    val tasks = bodies.map(body => (() => isMade(body)): Callable[Boolean])
    try pool.invokeAll(tasks.asJava).asScala.count(_.get()) finally pool.shutdownNow()
  }

  override def create(name: String, parts: Iterator[Array[Byte]]): Unit = {
    val path = at(name)
    val tally = new Tally
    val publish = try creation.written(fs, path, parts.map { part => tally.add(part); part }) catch {
      case e: org.apache.hadoop.fs.FileAlreadyExistsException => throw taken(path, e)
    }
    try publish() catch {
      case e: IOException if Interrupts.isOne(e) => throw Interrupts.passed(e)
      case e: IOException => settle(path, tally, e)
    }
  }

  /** Whether an object that was sent, and of which the store has said no good, is there. */
  private def settle(path: Path, sent: Tally, failure: IOException): Unit = {
    val found = try Some(tallyOf(path)) catch {
      case _: FileNotFoundException => None
      case e: IOException if Interrupts.isOne(e) => throw Interrupts.passed(e)
      case e: IOException =>
        failure.addSuppressed(e)
        throw new CecLogException(
          s"$path: it is not known whether this object was made ($failure); look for it, or try again", failure,
          Map("path" -> path.toString))
    }
    found match {
      case Some(there) if there.isSameAs(sent) =>
        logInfo(s"cec: $path: it was made, though its store said: $failure")
      case Some(_) => throw taken(path, failure)
      case None => throw new NotMade(path.toString, failure)
    }
  }

  private def taken(path: Path, cause: Throwable): FileAlreadyExistsException = {
    val error = new FileAlreadyExistsException(path.toString)
    error.initCause(cause)
    error
  }

  private def tallyOf(path: Path): Tally = Using.resource(fs.open(path)) { in =>
    val tally = new Tally
    val buffer = new Array[Byte](1 << 16)
    Iterator.continually(in.read(buffer)).takeWhile(_ >= 0).foreach(tally.add(buffer, _))
    tally
  }

  override def read(name: String, byte: Long, size: Long): Array[Byte] = {
    val path = at(name)
    if (size < 0) Using.resource(fs.open(path)) { in =>
      if (byte > 0) in.seek(byte)
      in.readAllBytes()
    } else try Using.resource(ranged(path, byte + size)) { in =>
      val bytes = new Array[Byte](Math.toIntExact(size))
      in.readFully(byte, bytes)
      bytes
    } catch {
      case e: EOFException => // the object ends before
        val there = this.size(name)
        if (there >= byte + size) throw e
        if (there <= byte) Array.emptyByteArray else read(name, byte, there - byte)
    }
  }

  /** Told how far it is to read, an object store is asked for this range and nothing else. */
  private def ranged(path: Path, end: Long): FSDataInputStream = FutureIO.awaitFuture(fs.openFile(path)
    .opt(Options.OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY, "random")
    .optLong(Options.OpenFileOptions.FS_OPTION_OPENFILE_LENGTH, end).build())

  override def size(name: String): Long = {
    val status = fs.getFileStatus(at(name))
    if (!status.isFile) throw new FileNotFoundException(s"${status.getPath}: no such object")
    status.getLen
  }

  override def modifiedUs(name: String): Long = fs.getFileStatus(at(name)).getModificationTime * 1000

  override def list(folder: String): Seq[Entry] = {
    val path = if (folder.isEmpty) root else at(folder)
    val found = try fs.listStatus(path) catch { case _: FileNotFoundException => Array.empty[FileStatus] }
    found.toSeq.filter(each => Store.isName(each.getPath.getName) && each.getPath != path)
      .map(each => Entry(each.getPath.getName, if (each.isFile) each.getLen else -1)).sortBy(_.name)
  }

  override def delete(names: Seq[String]): Unit = names.foreach(name => fs.delete(at(name), false))
}

/**
 * How many bytes, and a digest of them: objects are compared by it. Not by a CRC-32C: whatever ends in its own, as headers do
 * that differ in nothing but a random number, has the same as all others that do.
 */
private final class Tally {
  private val digest = MessageDigest.getInstance("SHA-256")
  private var bytes = 0L
  def add(part: Array[Byte]): Unit = add(part, part.length)
  def add(part: Array[Byte], length: Int): Unit = { digest.update(part, 0, length); bytes += length }
  /** Ends both. */
  def isSameAs(other: Tally): Boolean = bytes == other.bytes && MessageDigest.isEqual(digest.digest(), other.digest.digest())
}

/** A way to make an object only where there is none. */
private[queue] sealed trait Creation {
  /** Write the bytes; nothing is seen under the path's name before what this returns is called. */
  def written(fs: FileSystem, path: Path, parts: Iterator[Array[Byte]]): () => Unit

  /** `open` and fill a file, which is abandoned where that fails. */
  protected def filled(open: => FSDataOutputStream, parts: Iterator[Array[Byte]]): FSDataOutputStream = {
    val out = open
    try { parts.foreach(out.write(_)); out } catch {
      case e: Throwable =>
        try HadoopFolder.abandon(out) catch { case NonFatal(again) => e.addSuppressed(again) }
        throw e
    }
  }

  protected def opened(fs: FileSystem, path: Path, must: Option[String] = None): FSDataOutputStream = {
    val builder = fs.createFile(path)
    builder.overwrite(false)
    builder.recursive()
    must.foreach(builder.must(_, true))
    builder.build().asInstanceOf[FSDataOutputStream] // Java says nothing of the type
  }
}

/** Object stores: the store looks whether the name is free at the end of the upload. */
private[queue] object Conditionally extends Creation {
  override def written(fs: FileSystem, path: Path, parts: Iterator[Array[Byte]]): () => Unit = {
    val out = filled(opened(fs, path, Some(Store.Conditional)), parts)
    () => {
      out.close()
      // An upload that an interrupt has broken off may end without an error.
      if (Thread.currentThread.isInterrupted) throw new InterruptedIOException("interrupted")
    }
  }
}

/** HDFS: a file is filled under a hidden name and renamed, which fails where the name is taken. */
private[queue] final class ByRename(root: Path, conf: Configuration) extends Creation {
  private lazy val context = FileContext.getFileContext(root.toUri, conf)

  override def written(fs: FileSystem, path: Path, parts: Iterator[Array[Byte]]): () => Unit = {
    val hidden = new Path(path.getParent, f".${path.getName}.${ByRename.random.nextLong()}%016x.tmp")
    def removed(e: Throwable): Throwable = {
      try fs.delete(hidden, false) catch { case NonFatal(again) => e.addSuppressed(again) }
      e
    }
    try {
      val out = filled(opened(fs, hidden), parts)
      try out.hsync() finally out.close()
    } catch { case e: Throwable => throw removed(e) }
    () => try context.rename(hidden, path, Options.Rename.NONE) catch {
      case e: IOException => throw removed(e)
    }
  }
}

private object ByRename {
  private val random = new SecureRandom
}

/** Anywhere, where nobody else writes. */
private[queue] object ByOneWriter extends Creation {
  override def written(fs: FileSystem, path: Path, parts: Iterator[Array[Byte]]): () => Unit = {
    val out = filled(opened(fs, path), parts)
    () => out.close()
  }
}
