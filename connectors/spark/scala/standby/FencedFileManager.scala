package org.apache.spark.sql.cecstore.standby

import java.io.IOException
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.cecstore.sparks.CheckpointFiles

/**
 * Spark's own way to write a checkpoint, for as long as nobody has taken it over: a file gets its name only in the
 * tenure of this process. Where it has entered none it is Spark's own way and nothing else.
 */
class FencedFileManager(path: Path, conf: Configuration) extends CheckpointFiles.Manager(path, conf) {
  private def requireTenure(file: Path): Unit = Tenures.of(fc.makeQualified(file)).foreach(_.require(fc))

  /** Whoever takes over deletes what is being written: of what goes wrong by that, the reason is told. */
  private def told[T](file: Path)(work: => T): T = try work catch {
    case e: IOException =>
      try requireTenure(file) catch { case fenced: FencedDriver => fenced.addSuppressed(e); throw fenced }
      throw e
  }

  /** Spark looks before it writes, and would say no more than that somebody else writes as well. */
  override def exists(file: Path): Boolean = {
    val isThere = super.exists(file)
    if (isThere) requireTenure(file)
    isThere
  }

  override def createAtomic(file: Path, overwriteIfPossible: Boolean): CheckpointFiles.AtomicStream = {
    val hidden = told(file)(super.createAtomic(file, overwriteIfPossible))
    new CheckpointFiles.AtomicStream(hidden) {
      override def close(): Unit = told(file)(hidden.close())
      override def cancel(): Unit = hidden.cancel()
    }
  }

  override def renameTempFile(from: Path, to: Path, overwriteIfPossible: Boolean): Unit = {
    requireTenure(to)
    super.renameTempFile(from, to, overwriteIfPossible)
  }
}
