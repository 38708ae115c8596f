package org.apache.spark.sql.cecstore.standby

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileContext, Path}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.sparks.CheckpointFiles

/**
 * The batches of another driver, for one source of a query that follows it: it has the same sources in the same order,
 * and its checkpoint was copied from the other's, so that both count batches alike.
 *
 * @param primary the other's checkpoint
 * @param ownSource the folder that Spark names to the source: `<checkpoint>/sources/<number>`
 */
private[cecstore] final class Following(primary: String, ownSource: String, session: SparkSession, conf: Configuration) {
  private val source = new Path(ownSource).getName.toInt
  private val own = new Path(new Path(ownSource).getParent.getParent, "offsets")
  private val context = contextOf(own)
  private val theirs = contextOf(new Path(primary)).makeQualified(new Path(primary))
  private val theirOffsets = new Path(theirs, "offsets")
  private lazy val log = CheckpointFiles.offsets(session, theirOffsets.toString)
  private var batch = -1L

  private def contextOf(path: Path): FileContext =
    if (path.toUri.getScheme == null) FileContext.getFileContext(conf)
    else FileContext.getFileContext(path.toUri, conf)

  /**
   * Where the other driver ends the batch that is next here. Waits until it has begun that; `None` once this process
   * has taken its checkpoint over, and it never will.
   */
  def end(): Option[String] = {
    toNext()
    var looks = 0
    while (true) {
      // Before the look: whoever is fenced by then begins nothing after it.
      val isOver = Tenures.of(theirs).isDefined
      val found = log.get(batch)
      if (found.nonEmpty) return Some(found.get.offsets(source).map(_.json).getOrElse("{}"))
      if (isOver) return None
      looks += 1
      if (looks % Following.LooksBetweenListings == 0) requireKept()
      Thread.sleep(Following.PauseMs)
    }
    None
  }

  /** The batch after the last one in this query's own log. */
  private def toNext(): Unit = {
    if (batch < 0) batch = numbers(context, own).maxOption.getOrElse(-1L) + 1
    while (context.util.exists(new Path(own, batch.toString))) batch += 1
  }

  private def numbers(from: FileContext, folder: Path): Seq[Long] =
    if (!from.util.exists(folder)) Nil
    else from.util.listStatus(folder).toSeq.map(_.getPath.getName).filter(_.matches("\\d+")).map(_.toLong)

  private def requireKept(): Unit = {
    val there = numbers(contextOf(theirs), theirOffsets)
    if (there.nonEmpty && there.min > batch) throw new CecLogException(
      s"$theirOffsets: batch $batch is no longer kept, the first is ${there.min}: this standby was away for too long; " +
        "make it anew, with a checkpoint that is not there yet",
      named = Map("path" -> theirOffsets.toString, "batch" -> batch.toString))
  }
}

private object Following {
  private val PauseMs = 10L
  private val LooksBetweenListings = 100
}
