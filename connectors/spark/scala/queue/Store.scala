package org.apache.spark.sql.cecstore.queue

import java.io.{FileNotFoundException, IOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{FileAlreadyExistsException, Paths}
import java.security.MessageDigest
import java.util.concurrent.ConcurrentHashMap
import scala.util.control.NonFatal
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.Interrupts
import org.apache.spark.sql.cecstore.log.Mounts

/** What a folder lists: an object and its bytes, or a folder with -1 in their place. */
private[cecstore] final case class Entry(name: String, size: Long) {
  def isFolder: Boolean = size < 0
}

/** The object was not made: the same bytes may be created again. */
private[cecstore] final class NotMade(path: String, cause: Throwable) extends CecLogException(
      s"$path: not made: ${cause.getMessage}", cause, Map("path" -> path), "CEC_NOT_MADE")

/**
 * Objects under one URL, each made once and whole, as `cec_store/storage/stores/store.py` has it. Names are relative
 * and slash-separated. Calls may be made by any threads at the same time.
 */
private[cecstore] trait Store {
  /** Where it is, without credentials; of local files their path. */
  def url: String

  /** The folder of local files; none elsewhere. */
  def localRoot: Option[java.nio.file.Path] = None

  /** How its creates are proven; none where they need no proof: local files, and a store with one writer alone. */
  def racing: Option[Racing] = None

  /**
   * A new object of these bytes, durable on return. They are taken as they come and not kept. Where the store has made
   * the object and fails to say so, its bytes are compared: callers put a random number into every object.
   *
   * Raises java.nio.file.FileAlreadyExistsException where the name is taken (what is there was not changed), NotMade
   * where nothing is there, and CecLogException where nobody can say.
   */
  def create(name: String, parts: Iterator[Array[Byte]]): Unit

  /**
   * Up to `size` bytes from `byte` (all: -1); fewer only where the object ends. Raises FileNotFoundException.
   */
  def read(name: String, byte: Long = 0, size: Long = -1): Array[Byte]

  /** The same; none where there is no such object. */
  final def readIfThere(name: String, byte: Long = 0, size: Long = -1): Option[Array[Byte]] =
    try Some(read(name, byte, size)) catch { case _: FileNotFoundException => None }

  /** Bytes of an object. Raises FileNotFoundException. */
  def size(name: String): Long

  /** When an object was made, by the store's clock, in microseconds since 1970. Raises FileNotFoundException. */
  def modifiedUs(name: String): Long

  /** Objects and folders right in this folder (the root: ""), sorted by name; empty where there is no such folder. */
  def list(folder: String): Seq[Entry]

  /** Those that are not there are no error. */
  def delete(names: Seq[String]): Unit
}

private[cecstore] object Store {
  private val Name = """[A-Za-z0-9][A-Za-z0-9._-]{0,126}""".r
  /** Named in full: a Hadoop before 3.4.2 has no constant of it. */
  private[queue] val Conditional = "fs.option.create.conditional.overwrite"

  /**
   * The store of a path. Local files are linked, HDFS renames without overwriting, object stores create conditionally.
   *
   * @param singleWriter take a file system that offers none of these; two writers at once may then lose rows
   * @param reading take it as well; should something be written all the same, the creates are proven
   */
  def at(path: Path, conf: Configuration, singleWriter: Boolean = false, reading: Boolean = false): Store = {
    val fs = path.getFileSystem(conf)
    val root = qualified(path, conf)
    fs.getUri.getScheme match {
      case "file" => new LocalStore(java.nio.file.Paths.get(root.toUri.getPath))
      case "hdfs" => new HadoopStore(fs, root, new ByRename(root, conf), !singleWriter)
      case _ if isConditional(fs, root) => new HadoopStore(fs, root, Conditionally, !singleWriter)
      case _ if singleWriter || reading => new HadoopStore(fs, root, ByOneWriter, needsProof = false)
      case scheme => throw new CecLogException(s"$root: $scheme:// offers no way to make an object only where there " +
        s"is none ($Conditional), so writers could overwrite each other: use another; with one writer only, and " +
        "never two, set the option singleWriter=true", named = Map("path" -> root.toString))
    }
  }

  /** With scheme and host, and from the root on: a relative path is from this process's folder on. */
  def qualified(path: Path, conf: Configuration): Path = path.getFileSystem(conf).makeQualified(path)

  private def isConditional(fs: FileSystem, root: Path): Boolean = fs.hasPathCapability(root, Conditional)

  /** Whether this can be one part of a name. */
  def isName(part: String): Boolean = Name.matches(part) && !part.endsWith(".")

  private[queue] def checked(name: String): String = {
    require(name.split("/", -1).forall(isName), s"not a name of this store: '$name'")
    name
  }
}

/** A server whose exclusive creates have to be proven. */
private[cecstore] trait Racing {
  /** Its scheme, address and bucket, without credentials. Makes no request. */
  def server: String

  /**
   * Create one object with each of these bodies at the same moment, each once. Returns how many were told that they had
   * made it; no answer counts as no.
   */
  def race(name: String, bodies: Seq[Array[Byte]]): Int
}

/**
 * Proof that a store gives a name once, however many writers ask for it at the same moment; as
 * cec_store/storage/stores/proving.py has it. Some servers take the condition of a create and pass over it; others look
 * first and put afterwards, so that writers who come together all succeed. Only a race shows the second kind.
 */
private[cecstore] object StoreProof extends Logging {
  private val Rounds = 12
  private val Racers = 8
  private val ValidS = 7 * 86400L
  /** Servers that this process knows. */
  private val proven = ConcurrentHashMap.newKeySet[String]()

  /**
   * See that two writers cannot both make an object. That costs `Rounds` times `Racers` creates and a delete for each, once
   * a week for each server, bucket and user: the result is kept in the user's cache, and costs no request afterwards.
   * Local files may be on a mount that keeps less than a disk, which is said once. Raises CecLogException where two
   * creates of one name have succeeded.
   */
  def require(store: Store): Unit = {
    store.localRoot.foreach(Mounts.warnOf)
    store.racing.foreach(proveOnce(store, _))
  }

  private def proveOnce(store: Store, racing: Racing): Unit = {
    val server = racing.server
    if (!proven.contains(server)) {
      if (!isRemembered(server)) {
        race(store, racing, server)
        remember(server)
      }
      proven.add(server)
    }
  }

  private def race(store: Store, racing: Racing, server: String): Unit = {
    val names = Seq.fill(Rounds)(Names.probe())
    try names.foreach { name =>
      val winners = racing.race(name, (1 to Racers).map(number => s"$number $name".getBytes(UTF_8)))
      if (winners > 1) throw new CecLogException(s"${store.url}: this store cannot make an object only where there is none " +
        s"($server let $winners of $Racers writers make one object): use another; with one writer only, and never two, " +
        "set the option singleWriter=true", named = Map("path" -> store.url, "server" -> server))
      // What went wrong is then said by name: a store that is busy may have lost all.
      if (winners == 0) try store.create(name, Iterator(name.getBytes(UTF_8))) catch {
        case e: FileAlreadyExistsException => logDebug(s"cec: $name: made by a create that had no answer: $e")
      }
    } finally try store.delete(names) catch {
      case e: IOException if Interrupts.isOne(e) => throw e
      case NonFatal(e) => logWarning(s"cec: ${store.url}: objects named probe-….tmp stay: $e")
    }
  }

  private def isRemembered(server: String): Boolean = try {
    val nowS = System.currentTimeMillis / 1000
    proofs.list("").map(_.name).exists(name => name.startsWith(key(server)) && isValid(name, nowS))
  } catch { case e: IOException => logDebug(s"cec: no proofs are read: $e"); false }

  private def remember(server: String): Unit = try {
    val nowS = System.currentTimeMillis / 1000
    proofs.delete(proofs.list("").map(_.name).filterNot(isValid(_, nowS)))
    proofs.create(s"${key(server)}-$nowS", Iterator(server.getBytes(UTF_8)))
  } catch {
    case e: FileAlreadyExistsException => logDebug(s"cec: another process has proven it in the same second: $e")
    case NonFatal(e) => logWarning(s"cec: $server is proven again by each process, as that cannot be kept: $e")
  }

  private def isValid(name: String, nowS: Long): Boolean =
    name.split('-').lastOption.flatMap(_.toLongOption).exists(madeS => 0 <= nowS - madeS && nowS - madeS < ValidS)

  private def proofs: LocalStore = {
    val told = Option(System.getenv("XDG_CACHE_HOME")).filter(Paths.get(_).isAbsolute).map(Paths.get(_))
    val base = told.getOrElse(Paths.get(System.getProperty("user.home"), ".cache"))
    new LocalStore(base.resolve("cec-store").resolve("stores"))
  }

  private def key(server: String): String = MessageDigest.getInstance("SHA-256").digest(server.getBytes(UTF_8))
    .take(16).map(byte => f"$byte%02x").mkString
}
