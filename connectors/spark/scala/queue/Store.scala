package org.apache.spark.sql.cecstore.queue

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.spark.sql.cecstore.CecLogException

/** What a folder lists: an object and its bytes, or a folder with -1 in their place. */
private[cecstore] final case class Entry(name: String, size: Long) {
  def isFolder: Boolean = size < 0
}

/** The object was not made: the same bytes may be created again. */
private[cecstore] final class NotMade(message: String, cause: Throwable) extends CecLogException(message, cause) {
  override def getCondition: String = "CEC_NOT_MADE"
}

/**
 * Objects under one URL, each made once and whole, as `cec_store/storage/stores/store.py` has it. Names are relative
 * and slash-separated. Calls may be made by any threads at the same time.
 */
private[cecstore] trait Store {
  /** Where it is, without credentials; of local files their path. */
  def url: String

  /** The folder of local files; none elsewhere. */
  def localRoot: Option[java.nio.file.Path] = None

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

  /** Bytes of an object. Raises FileNotFoundException. */
  def size(name: String): Long

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
   */
  def at(path: Path, conf: Configuration, singleWriter: Boolean = false): Store = {
    val fs = path.getFileSystem(conf)
    val root = qualified(path, conf)
    fs.getUri.getScheme match {
      case "file" => new LocalStore(java.nio.file.Paths.get(root.toUri.getPath))
      case "hdfs" => new HadoopStore(fs, root, new ByRename(root, conf))
      case _ if isConditional(fs, root) => new HadoopStore(fs, root, Conditionally)
      case _ if singleWriter => new HadoopStore(fs, root, ByOneWriter)
      case scheme => throw new CecLogException(s"$root: $scheme:// offers no way to make an object only where there " +
        s"is none ($Conditional), so writers could overwrite each other: use another; with one writer only, and " +
        "never two, set the option singleWriter=true")
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
