package org.apache.spark.sql.cecstore.standby

import java.util.concurrent.ConcurrentHashMap
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileContext, Path}
import org.apache.spark.sql.cecstore.CecLogException

/** Another driver has taken this one's query over. */
final class FencedDriver(checkpoint: String, what: String)
    extends CecLogException(s"$checkpoint: $what", named = Map("checkpoint" -> checkpoint)) {
  override def getCondition: String = "CEC_FENCED"
}

/** A driver's time with a checkpoint (docs/format.md §14): over once the next tenure is there, or its own is not. */
private[cecstore] final case class Tenure(checkpoint: Path, lease: String, number: Long) {
  private def at(which: Long): Path = new Path(checkpoint, f"leases/$lease/$which%020d")

  def isOver(context: FileContext): Boolean =
    context.util.exists(at(number + 1)) || !context.util.exists(at(number))

  def require(context: FileContext): Unit = if (isOver(context)) throw new FencedDriver(
    checkpoint.toString, s"another driver has taken this query over (its lease has a tenure above $number): nothing more is " +
      "written here; end this application, or start it again as a standby")
}

/** The tenures that this process has entered, by their checkpoints. */
private[cecstore] object Tenures {
  private val entered = new ConcurrentHashMap[Path, Tenure]
  private val Unfinished = "\\.\\.?\\d+\\..*\\.tmp(\\.crc)?".r

  /**
   * Write this checkpoint from here on, and nobody of an earlier tenure.
   *
   * Spark writes each file of offsets/ and commits/ under a hidden name and renames it. A driver looks at its tenure
   * between these two. So one that began such a file before this tenure was there loses it here, and one that begins
   * later finds the tenure: wherever it was stopped, its rename fails.
   *
   * @param number of a tenure that is in the checkpoint already
   */
  def enter(checkpoint: String, lease: String, number: Long, conf: Configuration): Unit = {
    val given = new Path(checkpoint)
    val context = contextOf(given, conf)
    val tenure = Tenure(context.makeQualified(given), lease, number)
    tenure.require(context)
    discardUnfinished(context, tenure.checkpoint)
    entered.put(tenure.checkpoint, tenure)
  }

  /**
   * Of a checkpoint below the place whose tenure was entered: what a driver of an earlier one was about to rename.
   * Raises FencedDriver where that tenure is over: then it is what the next driver is about to rename.
   */
  def discardUnfinished(checkpoint: String, conf: Configuration): Unit = {
    require(checkpoint, conf)
    val given = new Path(checkpoint)
    discardUnfinished(contextOf(given, conf), given)
  }

  private def discardUnfinished(context: FileContext, checkpoint: Path): Unit =
    Seq("offsets", "commits").map(new Path(checkpoint, _)).filter(context.util.exists(_)).foreach { folder =>
      context.util.listStatus(folder).map(_.getPath).filter(path => Unfinished.matches(path.getName))
        .foreach(path => context.delete(path, false))
    }

  private def contextOf(given: Path, conf: Configuration): FileContext =
    if (given.toUri.getScheme == null) FileContext.getFileContext(conf) else FileContext.getFileContext(given.toUri, conf)

  /** Raises FencedDriver where another driver has taken over what this process has entered: the checkpoint, or what it is in. */
  def require(checkpoint: String, conf: Configuration): Unit = if (!entered.isEmpty) {
    val given = new Path(checkpoint)
    val context = contextOf(given, conf)
    of(context.makeQualified(given)).foreach(_.require(context))
  }

  /** That of the checkpoint which a path is in, where this process has entered one. */
  def of(path: Path): Option[Tenure] =
    if (entered.isEmpty) None
    else Iterator.iterate(path)(_.getParent).takeWhile(_ != null).map(entered.get(_)).find(_ != null)
}
