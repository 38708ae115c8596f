package cecstore.tests

import java.net.URI
import java.nio.file.Files
import java.nio.file.attribute.PosixFilePermissions
import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.permission.FsPermission

/**
 * Hadoop's local files without the processes that it starts where its native library is missing: a `chmod` for each file that
 * is made, two of `readlink` for each that is renamed, which is much of what a short batch takes.
 */
object LocalFiles {

  /** From here on all of this process that goes by these settings. */
  def install(conf: Configuration): Unit = {
    forgetUnused(conf)
    conf.set("fs.file.impl", classOf[OfFileSystem].getName)
    conf.set("fs.AbstractFileSystem.file.impl", classOf[OfFileContext].getName)
    // The one that is open is for everybody, whatever their settings are.
    FileSystem.closeAll()
    FileSystem.get(URI.create("file:///"), conf)
    ()
  }

  /**
   * Defaults of what no test has. Spark sends all settings to each stateful operator in each batch, and Hadoop compresses where
   * each one comes from by itself, which is a tenth of what a short batch takes.
   */
  private def forgetUnused(conf: Configuration): Unit =
    conf.iterator.asScala.map(_.getKey).filter(name => name.startsWith("yarn.") || name.startsWith("mapreduce.")).toSeq.foreach(conf.unset)

  class OfFileSystem extends LocalFileSystem(new Raw)

  class OfFileContext(uri: URI, conf: Configuration) extends ChecksumFs(new RawOfFileContext(uri, conf))

  private class RawOfFileContext(uri: URI, conf: Configuration) extends DelegateToFileSystem(uri, new Raw, conf, "file", false) {
    override def getUriDefaultPort: Int = -1
    override def isValidName(name: String): Boolean = true
  }

  private class Raw extends RawLocalFileSystem {
    override def getFileLinkStatus(path: Path): FileStatus =
      if (Files.isSymbolicLink(pathToFile(path).toPath)) super.getFileLinkStatus(path) else getFileStatus(path)

    override def setPermission(path: Path, permission: FsPermission): Unit = {
      val rights = Seq(permission.getUserAction, permission.getGroupAction, permission.getOtherAction).map(_.SYMBOL).mkString
      Files.setPosixFilePermissions(pathToFile(path).toPath, PosixFilePermissions.fromString(rights))
      ()
    }
  }
}
