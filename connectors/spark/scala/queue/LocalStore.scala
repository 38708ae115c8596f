package org.apache.spark.sql.cecstore.queue

import java.io.{File, FileNotFoundException, IOException, RandomAccessFile}
import java.nio.file.{DirectoryNotEmptyException, FileAlreadyExistsException, FileSystemException, NoSuchFileException}
import java.nio.file.{Files, Path}
import java.nio.file.LinkOption.NOFOLLOW_LINKS
import java.nio.file.attribute.BasicFileAttributes
import java.security.SecureRandom
import java.util.concurrent.{ConcurrentHashMap, TimeUnit}
import scala.jdk.CollectionConverters._
import scala.util.{Try, Using}
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.Interrupts
import org.apache.spark.sql.cecstore.local.LocalFiles
import org.apache.spark.sql.cecstore.log.Mounts

/**
 * Files, each made whole under a hidden name and then linked to its own: Hadoop's local file system
 * creates neither exclusively nor durably. Who dies in between leaves `.<name>.<random>.tmp`, which nobody lists.
 */
private[cecstore] final class LocalStore(root: Path) extends Store {
  import LocalStore._
  override val url: String = root.toString
  override def localRoot: Option[Path] = Some(root)
  private val top = root.toAbsolutePath
  private def at(name: String): Path = root.resolve(Store.checked(name))

  override def create(name: String, parts: Iterator[Array[Byte]]): Unit = {
    val path = at(name)
    // Most losers learn it here. What decides is the link.
    if (Files.exists(path)) throw new FileAlreadyExistsException(path.toString)
    val folder = path.getParent
    val made = makeDurably(folder)
    val hidden = folder.resolve(f".${path.getFileName}.${random.nextLong()}%016x.tmp")
    try {
      try { write(hidden, folder, parts); link(hidden, path) } finally Files.deleteIfExists(hidden)
    } catch {
      case e: NoHardLinks =>
        Try(made.foreach(Files.deleteIfExists(_)))
        durable.removeAll(made.asJava)
        throw e
    }
    try LocalFiles.syncNames(folder) catch {
      case e: IOException if Interrupts.isOne(e) => throw e
      case e: IOException => throw new CecLogException(s"$path: is there, but its name could not be put on disk and " +
        "may go with the power; read it again before relying on it", e, Map("path" -> path.toString))
    }
  }

  private def write(hidden: Path, folder: Path, parts: Iterator[Array[Byte]]): Unit = {
    try LocalFiles.make(hidden) catch {
      case _: NoSuchFileException => // somebody has removed the folder
        makeDurably(folder)
        LocalFiles.make(hidden)
    }
    Using.resource(new RandomAccessFile(hidden.toFile, "rw"))(LocalFiles.write(_, parts, sync = true))
  }

  private def link(hidden: Path, path: Path): Unit = try Files.createLink(path, hidden) catch {
    // A network file system that lost its reply answers its own second try so.
    case e: FileAlreadyExistsException => if (!Files.isSameFile(hidden, path)) throw e
    case e: FileSystemException if lacksLinks(e.getReason, Mounts.isRemote(path)) => throw new NoHardLinks(path, e)
  }

  /** Make a folder and put its name on disk; returns those that were absent, the deepest first. */
  private def makeDurably(folder: Path): Seq[Path] = {
    val absent = LocalFiles.makeFolder(folder)
    // Whoever has made a folder may not have put its name on disk yet.
    val ours = LocalFiles.above(folder).toVector.takeWhile(_.startsWith(top)).filterNot(durable.contains)
    (ours ++ absent).distinct.sortBy(_.getNameCount).foreach { each =>
      if (Files.isReadable(each.getParent)) LocalFiles.syncNames(each.getParent)
      if (each != folder.toAbsolutePath) durable.add(each)
    }
    absent
  }

  override def read(name: String, byte: Long, size: Long): Array[Byte] = {
    val file = existing(name)
    Using.resource(opened(file)) { in =>
      val there = math.max(0L, in.length - byte)
      val wanted = if (size < 0) there else math.min(size, there)
      val bytes = new Array[Byte](Math.toIntExact(wanted))
      in.seek(byte)
      LocalFiles.fill(in, bytes)
      bytes
    }
  }

  /** The JVM says of whatever it cannot open that it is not there, for lack of a right or of descriptors as well. */
  private def opened(file: File): RandomAccessFile = try new RandomAccessFile(file, "r") catch {
    case e: FileNotFoundException if Files.exists(file.toPath, NOFOLLOW_LINKS) => throw new FileSystemException(file.getPath, null, e.getMessage)
  }

  override def size(name: String): Long = existing(name).length

  private def existing(name: String): File = {
    val path = at(name)
    // A folder is no object, and nothing is below a file.
    if (!Files.exists(path, NOFOLLOW_LINKS) || Files.isDirectory(path, NOFOLLOW_LINKS)) {
      throw new FileNotFoundException(s"$path: no such object")
    }
    requireRegular(path)
    path.toFile
  }

  override def modifiedUs(name: String): Long =
    Files.getLastModifiedTime(existing(name).toPath, NOFOLLOW_LINKS).to(TimeUnit.MICROSECONDS)

  override def list(folder: String): Seq[Entry] = {
    val path = if (folder.isEmpty) root else at(folder)
    val files = Option(path.toFile.listFiles()).getOrElse {
      if (Files.isDirectory(path)) throw new IOException(s"$path: cannot be listed; may it be read?")
      Array.empty[File]
    }
    // A link or a FIFO is listed as the object in whose place it is: reading refuses it.
    files.toSeq.filter(file => Store.isName(file.getName)).map { file =>
      Entry(file.getName, if (Files.isDirectory(file.toPath, NOFOLLOW_LINKS)) -1 else file.length)
    }.sortBy(_.name)
  }

  override def delete(names: Seq[String]): Unit =
    names.map(at).filter { path =>
      try Files.deleteIfExists(path) catch { case _: DirectoryNotEmptyException => false }
    }.map(_.getParent).distinct.foreach(LocalFiles.syncNames)
}

private[cecstore] object LocalStore {
  private[queue] final class NoHardLinks(path: Path, cause: FileSystemException) extends CecLogException(
    s"$path: this file system has no hard links, by which a file is made once and whole; use another " +
      s"(${cause.getReason})", cause, Map("path" -> path.toString))

  private val NoLinks = Set("Operation not permitted", "Operation not supported", "Function not implemented", "Too many links")
  /** A broken disk says so as well, but not on a mount whose program may lack the call. */
  private val NoLinksRemotely = Set("Input/output error", "Numerical result out of range")

  /** The JVM hands on the words of the C library, and no number. */
  private def lacksLinks(reason: String, isRemote: Boolean): Boolean =
    NoLinks(reason) || (isRemote && NoLinksRemotely(reason))

  /** Refuse by name whatever is no regular file: a link, a FIFO, a device. One that is not there passes. */
  private[queue] def requireRegular(path: Path): Unit = {
    val kind = try Some(Files.readAttributes(path, classOf[BasicFileAttributes], NOFOLLOW_LINKS)) catch {
      case _: NoSuchFileException => None
    }
    kind.filterNot(_.isRegularFile).foreach { found =>
      val what = if (found.isSymbolicLink) "a symbolic link" else if (found.isDirectory) "a folder"
        else "a FIFO, a socket or a device"
      throw new CecLogException(s"$path: damage at byte 0: $what is in the place of a file; move it away; if the " +
        "file had been written to, restore it from a copy", named = Map("path" -> path.toString))
    }
  }

  private val random = new SecureRandom
  /** Folders whose names this process has put on disk. Those of batches are left out: there are ever more. */
  private val durable = ConcurrentHashMap.newKeySet[Path]()
}
