package cecstore.tests

import java.io.{ByteArrayOutputStream, FileNotFoundException, IOException, RandomAccessFile}
import java.net.URI
import java.nio.channels.FileChannel
import java.nio.file.{Files, Path => LocalPath, Paths, StandardCopyOption, StandardOpenOption}
import java.util.UUID
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/**
 * `planned:///…`: an object store over local files that creates conditionally, notes each call, and fails as planned.
 *
 * `fs.planned.calls` names a file that gets a line for each call: `create <name>`. `fs.planned.plan` names one with
 * `<call> <number> <how> <token>`: the call of that number in this process fails ("raise"), or the process dies before it or
 * after it ("kill", "kill-after"), or it is done and fails all the same ("lost"). The file is removed when it strikes.
 *
 * `planned://looks/…` looks whether an object is there and then puts it; `planned://ignores/…` passes over the condition.
 */
class PlannedObjects extends FileSystem {
  private var root = URI.create("planned:///")
  override def initialize(name: URI, conf: Configuration): Unit = {
    super.initialize(name, conf)
    Option(name.getAuthority).foreach(authority => root = URI.create(s"planned://$authority/"))
  }
  override def getScheme: String = "planned"
  override def getUri: URI = root
  override def getWorkingDirectory: Path = new Path(root)
  override def setWorkingDirectory(path: Path): Unit = ()
  private def local(path: Path): LocalPath = Paths.get(path.toUri.getPath)

  /** What proves the store goes neither by plan nor by number. */
  private def call[A](name: String, path: Path)(work: => A): A = if (path.getName.startsWith("probe-")) work else {
    Option(getConf.get("fs.planned.calls")).foreach(file =>
      Files.writeString(Paths.get(file), s"$name $path\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND))
    Option(getConf.get("fs.planned.plan")).map(Paths.get(_)).flatMap(PlannedObjects.how(_, name)) match {
      case None => work
      case Some("raise") => throw new IOException("as planned")
      case Some("kill") => PlannedObjects.die()
      case Some("kill-after") => work; PlannedObjects.die()
      case Some("lost") => work; throw new IOException("as planned, though it is done")
      case Some(other) => throw new IllegalArgumentException(other)
    }
  }

  override def hasPathCapability(path: Path, capability: String): Boolean =
    capability == PlannedObjects.Conditional || super.hasPathCapability(path, capability)

  override def createFile(path: Path): Builder = new Builder(path)

  final class Builder(path: Path) extends FSDataOutputStreamBuilder[FSDataOutputStream, Builder](this, path) {
    override def getThisBuilder: Builder = this
    override def build(): FSDataOutputStream = {
      if (!getMandatoryKeys.contains(PlannedObjects.Conditional)) throw new IOException(s"$path: created without a condition")
      new FSDataOutputStream(new Upload(path), null)
    }
  }

  private final class Upload(path: Path) extends ByteArrayOutputStream with Abortable with StreamCapabilities {
    private var isOpen = true
    override def hasCapability(name: String): Boolean = name == StreamCapabilities.ABORTABLE_STREAM
    override def abort(): Abortable.AbortableResult = { isOpen = false; null }
    override def close(): Unit = if (isOpen) {
      isOpen = false
      call("create", path) {
        Files.createDirectories(local(path).getParent)
        val draft = local(path).getParent.resolve(s".${UUID.randomUUID()}")
        Files.write(draft, toByteArray)
        val isThere = Files.exists(local(path))
        if (root.getAuthority == "ignores" || root.getAuthority == "looks" && !isThere) {
          Using.resource(FileChannel.open(draft, StandardOpenOption.WRITE))(_.force(true))
          // The last writer's bytes stay, as on such a server: a copy would fail where another is between its two steps.
          Files.move(draft, local(path), StandardCopyOption.ATOMIC_MOVE)
        } else try Files.createLink(local(path), draft) catch {
          case _: java.nio.file.FileAlreadyExistsException => throw new PathIOException(path.toString, "412 precondition failed")
        } finally Files.delete(draft)
      }
    }
  }

  override def open(path: Path, buffer: Int): FSDataInputStream = call("read", path) {
    if (!Files.isRegularFile(local(path))) throw new FileNotFoundException(path.toString)
    new FSDataInputStream(new PlannedInput(local(path)))
  }

  override def getFileStatus(path: Path): FileStatus = call("status", path)(statusOf(path))

  private def statusOf(path: Path): FileStatus = {
    val file = local(path)
    if (!Files.exists(file)) throw new FileNotFoundException(path.toString)
    val isFolder = Files.isDirectory(file)
    new FileStatus(if (isFolder) 0 else Files.size(file), isFolder, 1, 1 << 20, 0, makeQualified(path))
  }

  override def listStatus(path: Path): Array[FileStatus] = call("list", path) {
    val names = local(path).toFile.list()
    if (names == null) throw new FileNotFoundException(path.toString)
    names.filterNot(_.startsWith(".")).map(name => statusOf(new Path(path, name)))
  }

  override def delete(path: Path, recursive: Boolean): Boolean = call("delete", path)(Files.deleteIfExists(local(path)))

  override def create(path: Path, permission: FsPermission, overwrite: Boolean, buffer: Int, replication: Short, block: Long,
      progress: Progressable): FSDataOutputStream = throw new UnsupportedOperationException("create without a condition")
  override def append(path: Path, buffer: Int, progress: Progressable): FSDataOutputStream = throw new UnsupportedOperationException("append")
  override def rename(from: Path, to: Path): Boolean = throw new UnsupportedOperationException("rename")
  override def mkdirs(path: Path, permission: FsPermission): Boolean = throw new UnsupportedOperationException("mkdirs")
}

object PlannedObjects {
  private val Conditional = "fs.option.create.conditional.overwrite"
  private var planned = ""
  private var count = -1

  /** Whether this is the call that the plan means. */
  private def how(plan: LocalPath, call: String): Option[String] = synchronized {
    val text = try Files.readString(plan) catch { case _: java.nio.file.NoSuchFileException => "" }
    text.split(" ") match {
      case Array(name, number, what, _) if name == call =>
        if (text != planned) { planned = text; count = -1 }
        count += 1
        if (count != number.toInt) None else { Files.deleteIfExists(plan); Some(what) }
      case _ => None
    }
  }

  private def die(): Nothing = {
    Runtime.getRuntime.halt(9)
    throw new AssertionError("not reached")
  }
}

private final class PlannedInput(file: LocalPath) extends FSInputStream {
  private val in = new RandomAccessFile(file.toFile, "r")
  override def seek(at: Long): Unit = in.seek(at)
  override def getPos: Long = in.getFilePointer
  override def seekToNewSource(at: Long): Boolean = false
  override def read(): Int = in.read()
  override def read(bytes: Array[Byte], from: Int, length: Int): Int = in.read(bytes, from, length)
  override def close(): Unit = in.close()
}
