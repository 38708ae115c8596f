package org.apache.spark.sql.cecstore.log

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, Paths}
import java.util.concurrent.ConcurrentHashMap
import scala.util.Try
import scala.util.matching.Regex
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.local.LocalFiles

/** A line of the list of mounts; its options are those of the file system, with commas. */
private[cecstore] final case class Mount(kind: String, source: String, point: String, options: String) {
  import Mounts._

  /** True for a network file system, as far as its kind tells. */
  def isRemote: Boolean = Remote.findPrefixOf(kind).nonEmpty

  /** What may happen to acknowledged rows here; none where nothing is known of it. */
  def risk: Option[String] =
    if (kind == "overlay" && options.split(',').exists(o => o == "volatile" || o == "fsync=volatile")) Some(Volatile)
    else if (isRemote || kind == "tmpfs" || kind == "ramfs") {
      Known.collectFirst { case (kinds, said) if kinds.r.findPrefixOf(kind).nonEmpty => said }
    } else None

  override def toString: String = s"$kind ($source at $point)"
}

/** The mount that a path is on, by the list of mounts, and what is known of it; as cec_store/storage/mounts.py has it. */
private[cecstore] object Mounts extends Logging {
  private val List = Paths.get("/proc/self/mountinfo")
  private[log] val Remote: Regex = ("nfs|cifs|smb|fuse(\\.|$)|9p|afs|ceph|glusterfs|gpfs|lustre|beegfs|virtiofs" +
    "|vboxsf|drvfs|fakeowner|prl_fs|vmhgfs|ocfs2|gfs2").r
  private val Objects = "files are objects that are uploaded whole, and other machines see no locks of this one"
  private[log] val Known: Seq[(String, String)] = Seq(
    "tmpfs|ramfs" -> "it is kept in memory, and gone after a restart of the machine",
    "fuse\\.s3fs" -> ("rows that were acknowledged may turn to zeros while somebody reads beside the writer; " +
      "give the s3:// URL instead"),
    "fuse\\.rclone" -> ("what is acknowledged may be in this machine's cache alone (--vfs-cache-mode), and two " +
      "mounts of one remote let two writers in; give the URL of the store instead"),
    "fuse\\.(gcsfuse|gcsfs)" -> s"$Objects; give the gs:// URL instead",
    "fuse\\.blobfuse" -> s"$Objects; give the abfs:// URL instead",
    "fuse\\.(goofys|geesefs|mountpoint-s3|s3ql)" -> s"$Objects; give the s3:// URL instead",
    "fuse\\.sshfs" -> ("a writer on another machine is not seen, as locks are this machine's alone, and the " +
      "server decides when a sync is on its disk"),
    "fuse\\.gocryptfs" -> ("a folder that was made shortly before a power cut cannot be read after it, whatever was " +
      "synced in it; make the folder of a queue a minute before its first row, and no queue with partitions there, " +
      "which makes folders as it grows"),
    "9p|virtiofs|vboxsf|drvfs|fakeowner|prl_fs|vmhgfs" ->
      "the host shares this folder, and decides when a sync is on its disk",
    "fuse" -> "the program that serves it decides when a sync is on a disk, and what a lock is",
    "" -> "the servers of this file system decide when a sync is on a disk, and what a lock is")
  private[log] val Volatile =
    "overlay is mounted as volatile: no sync reaches the disk, and a power cut may take it all"
  /** Mounts that this process has warned of. */
  private val told = ConcurrentHashMap.newKeySet[Mount]()

  /** The mount of a path, or of where it would be; none without a list of mounts. */
  def of(path: Path): Option[Mount] = Try {
    val there = LocalFiles.above(path).find(Files.exists(_)).get
    val real = there.toRealPath()
    among(new String(Files.readAllBytes(List), UTF_8), real.toString, deviceOf(real))
  }.toOption.flatten

  /** Whether a path is on a network file system. */
  def isRemote(path: Path): Boolean = of(path).exists(_.isRemote)

  /** Say once for each mount what may happen to what is acknowledged there, by name. */
  def warnOf(path: Path): Unit = for (mount <- of(path); risk <- mount.risk if told.add(mount)) {
    logWarning(s"cec: $path is on $mount: $risk")
  }

  /** As Linux packs it into a number. */
  private def deviceOf(path: Path): String = {
    val device = Files.getAttribute(path, "unix:dev").asInstanceOf[Long]
    val major = ((device >>> 8) & 0xfff) | ((device >>> 32) & ~0xfffL)
    val minor = (device & 0xff) | ((device >>> 12) & ~0xffL)
    s"$major:${minor & 0xffffffffL}"
  }

  /**
   * The mount of a path without symbolic links in the text of mountinfo. A mount may be hidden below a later one: so
   * those of the path's own device come first.
   */
  def among(mounts: String, path: String, device: String): Option[Mount] = {
    val found = mounts.linesIterator.toSeq.map(_.split(' ')).zipWithIndex.flatMap { case (fields, number) =>
      val point = plain(fields(4))
      val kind = fields.drop(fields.indexOf("-") + 1)
      Option.when(withSlash(path).startsWith(withSlash(point))) {
        ((fields(2) == device, withSlash(point).length, number), Mount(kind(0), plain(kind(1)), point, kind.drop(2).mkString(",")))
      }
    }
    found.maxByOption(_._1).map(_._2)
  }

  private def withSlash(path: String): String = if (path.endsWith("/")) path else s"$path/"

  /** A field with its blanks, which are written there as \040. */
  private def plain(field: String): String =
    "\\\\(\\d{3})".r.replaceAllIn(field, m => Regex.quoteReplacement(Integer.parseInt(m.group(1), 8).toChar.toString))
}
