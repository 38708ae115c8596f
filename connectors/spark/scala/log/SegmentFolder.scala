package org.apache.spark.sql.cecstore.log

import java.io.{Closeable, File, IOException, RandomAccessFile}
import java.nio.file.{Files, Path => LocalPath, Paths}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.cecstore.local.LocalFiles

/**
 * The directory of one state log: only its implementations touch a file system. Task threads and
 * the maintenance thread call it at once; implementations keep nothing that changes.
 */
private[cecstore] trait SegmentFolder {
  def location: String
  /** The folder of local files; none elsewhere. */
  def localPath: Option[LocalPath] = None
  /** Ids of the segments that exist, ascending; empty where there is no directory yet. */
  def list(): Array[Long]
  /** The same with their bytes, as far as a listing knows. */
  def sizes(): Map[Long, Long]
  /** Raises FileNotFoundException. */
  def open(id: Long): SegmentInput
  /** Make the segment exclusively, hold these bytes, and return once they are durable if `sync`. */
  def create(id: Long, bytes: Iterator[Array[Byte]], sync: Boolean): SegmentOutput
  def delete(id: Long): Unit
  /**
   * Where the writer of a segment died with the file open, have the file system close it, so that all that it had
   * synced can be read. False if there was nothing to do.
   */
  def settle(id: Long): Boolean = false
  /** Files beside the segments that are derived from them; none where no one keeps any. */
  def derivedFiles: Option[DerivedFiles] = None
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
  /** Whether it can be appended to now; then it can until that is done. */
  def hold(): Boolean
  def append(at: Long, bytes: Iterator[Array[Byte]], sync: Boolean): Unit
}

private[cecstore] object SegmentFolder {
  def name(id: Long): String = f"$id%020d.seg"
  private val Name = """(\d{20})\.seg""".r

  def idOf(name: String): Option[Long] = name match {
    case Name(digits) => digits.toLongOption
    case _ => None
  }

  def apply(path: Path, conf: Configuration): SegmentFolder = of(path, conf, mayEndOthers = true)

  /** For who reads beside a writer of another process: a file that is open for that one stays so. */
  def ofFollower(path: Path, conf: Configuration): SegmentFolder = of(path, conf, mayEndOthers = false)

  private def of(path: Path, conf: Configuration, mayEndOthers: Boolean): SegmentFolder = {
    val fs = path.getFileSystem(conf)
    if (fs.getUri.getScheme == "file") new LocalFolder(Paths.get(fs.makeQualified(path).toUri.getPath))
    else new HadoopFolder(fs, path, mayEndOthers)
  }
}

/** Local files, through calls that an interrupt of the task does not break off half-way. */
private[cecstore] final class LocalFolder(path: LocalPath) extends SegmentFolder {
  override def location: String = path.toString
  override def localPath: Option[LocalPath] = Some(path)

  override def list(): Array[Long] = {
    val names = path.toFile.list()
    if (names == null) Array.empty else names.flatMap(SegmentFolder.idOf).sorted
  }

  override def sizes(): Map[Long, Long] = list().map(id => id -> new File(pathOf(id)).length).toMap

  override def open(id: Long): SegmentInput = new LocalInput(pathOf(id))
  override def derivedFiles: Option[DerivedFiles] = Some(new LocalDerivedFiles(path))

  override def create(id: Long, bytes: Iterator[Array[Byte]], sync: Boolean): SegmentOutput = {
    val holders = LocalFolder.made(path)
    LocalFiles.make(Paths.get(pathOf(id)))
    val output = new LocalOutput(pathOf(id))
    output.write(0, bytes, sync)
    if (sync) {
      LocalFiles.syncNames(path)
      if (!areFoldersSynced) (holders ++ LocalFolder.checkpointFolders(path)).distinct.foreach(LocalFiles.syncNames)
      areFoldersSynced = true
    }
    output
  }

  /** The names of the folders down to this one are on disk. */
  @volatile private var areFoldersSynced = false

  override def delete(id: Long): Unit = Files.deleteIfExists(Paths.get(pathOf(id)))

  /** Holds no file between commits: an executor may have thousands of stores. */
  private final class LocalOutput(file: String) extends SegmentOutput {
    override def grows: Boolean = true
    override def hold(): Boolean = true
    override def append(at: Long, bytes: Iterator[Array[Byte]], sync: Boolean): Unit = write(at, bytes, sync)

    def write(at: Long, bytes: Iterator[Array[Byte]], sync: Boolean): Unit = {
      val out = new RandomAccessFile(file, "rw")
      try {
        if (out.length != at) throw new IOException(s"$file has ${out.length} bytes where $at were written")
        out.seek(at)
        LocalFiles.write(out, bytes, sync)
      } finally out.close()
    }
    override def close(): Unit = ()
  }
}

private[log] final class LocalInput(path: String) extends SegmentInput {
  private val file = new RandomAccessFile(path, "r")
  override def size: Long = file.length
  override def read(from: Long, length: Int): Array[Byte] = {
    file.seek(from)
    val bytes = new Array[Byte](math.max(0L, math.min(length.toLong, file.length - from)).toInt)
    LocalFiles.fill(file, bytes)
    bytes
  }
  override def close(): Unit = file.close()
}

private[cecstore] object LocalFolder {
  /** `state/<operator>/<partition>/<store>` in the checkpoint's folder: Spark makes them, and syncs none. */
  private val CheckpointLevels = 5

  /** Make the folder; returns those that hold the names of the ones that were not there. */
  def made(path: LocalPath): Seq[LocalPath] = LocalFiles.makeFolder(path).map(_.getParent)

  /** The folders above, in which Spark may just have made names, as far as they may be read. */
  private[log] def checkpointFolders(path: LocalPath): Seq[LocalPath] =
    LocalFiles.above(path).slice(1, CheckpointLevels + 1).filter(Files.isReadable(_)).toVector
}
