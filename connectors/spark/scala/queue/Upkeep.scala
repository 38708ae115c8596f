package org.apache.spark.sql.cecstore.queue

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8
import scala.annotation.tailrec
import scala.util.control.NonFatal
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.CecLogException

/**
 * What keeps a queue small: trimming as its retention says, deleting what nobody reads, and merging. docs/format.md §11.
 * Any process may do it beside the writers.
 */
private[cecstore] final class Upkeep(log: ReferenceLog, clockUs: () => Long, merger: Merger) extends Logging {
  import log.store
  /** Commits whose removed objects are deleted. */
  private var swept = 0L
  /** The commit before which the others are deleted. */
  private var floor = 0L

  /** What a writer does for the queue, every so many commits. What fails is logged: it is for the next one to do. */
  def nowAndThen(before: QueueState, after: QueueState): QueueState =
    if (before.number / Upkeep.Every == after.number / Upkeep.Every) after
    else try {
      val now = merge(trim(after))
      if (now.floor > floor) floor = Sweeping.commits(log, now).getOrElse(floor)
      now
    } catch {
      case NonFatal(e) => logWarning(s"cec: ${store.url} is not kept small: $e"); after
    }

  private def trim(state: QueueState): QueueState = {
    // Looked at anew for each try: whoever has registered since comes first.
    val now = log.add(log.refresh(state))(Trims.after(store, _, clockUs()))
    swept = Sweeping.gone(log, now, swept)
    now
  }

  /** Put small neighbours together, as many as come to what one look may read; all by one commit. */
  private def merge(state: QueueState): QueueState = {
    val all = Merges.of(state)
    val before = all.scanLeft(0L)((sum, piece) => sum + piece.map(_.bytes).sum)
    val pieces = all.zip(before).takeWhile { case (_, bytes) => bytes < merger.bytesMax }.map(_._1)
    val beganUs = clockUs()
    if (pieces.isEmpty) state else replace(state, pieces.zip(merger.all(pieces)), beganUs)
  }

  private def replace(state: QueueState, made: Seq[(IndexedSeq[Segment], Segment)], beganUs: Long): QueueState = {
    val now = log.add(state) { before =>
      Sweeping.requireYoung(store, made.map(_._2.file), math.abs(clockUs() - beganUs))
      // Somebody else may have merged or trimmed some of them.
      val there = made.filter { case (segments, _) => before.hasAll(segments) }
      val rows = there.flatMap { case (segments, into) => segments.map(_.copy(removed = true)) :+ into }
      Option.when(rows.nonEmpty)(
        before.next(Operation.merge, rows.toIndexedSeq, clockUs(), before.commit.settings, before.commit.starts))
    }
    store.delete(made.map(_._2).filterNot(into => now.hasAll(Seq(into))).map(_.file))
    now
  }
}

/** Who makes one segment of several. */
private[cecstore] trait Merger {
  /** How much it may be given at a time. */
  def bytesMax: Long
  /** Makes one object of each of these, and returns what a commit says of them, in their order. */
  def all(pieces: Seq[IndexedSeq[Segment]]): Seq[Segment]
}

private[cecstore] object Upkeep {
  /** Commits, between two looks. */
  private val Every = 64L
}

/** Objects that no commit names any more are deleted after a grace period. docs/format.md §11. */
private[cecstore] object Sweeping {
  /** How long an object stays that no commit names, or names no more: for readers that began before, and tasks at work. */
  val GraceUs = 86400000000L
  /** A writer that has taken longer by any clock of its own asks the store how old its objects are. */
  private val DoubtUs = 3600000000L

  /** The store's time, in microseconds since 1970: that of an object made for it. Clocks of machines that write differ. */
  private def storeNowUs(store: Store): Long = {
    val name = Names.probe()
    store.create(name, Iterator(name.getBytes(UTF_8)))
    try store.modifiedUs(name) finally store.delete(Seq(name))
  }

  /**
   * See that no clean-up has taken these objects for rubbish, before a commit names them. The store is asked only where
   * they may have been there for long: `elapsedUs`, by the clocks of those who wrote them. Raises CecLogException.
   */
  def requireYoung(store: Store, files: Seq[String], elapsedUs: Long): Unit = if (elapsedUs > DoubtUs && files.nonEmpty) {
    val advice = "what is not committed within a day may have been deleted as rubbish: run it again"
    val oldestUs = try files.map(store.modifiedUs).min catch {
      case e: FileNotFoundException => throw new CecLogException(s"${e.getMessage}; $advice", e, Map("path" -> store.url))
    }
    if (storeNowUs(store) - oldestUs > GraceUs - DoubtUs) throw new CecLogException(
      s"${store.url}: the tasks of this batch have written a day ago by the store's clock, and $advice",
      named = Map("path" -> store.url))
  }

  /**
   * Delete the commits before the last one that says all there is, but for commit 0 and those whose inline frames count,
   * or counted after that one: once that one is older than the grace period. Returns its number; none as long as it is not.
   */
  def commits(log: ReferenceLog, state: QueueState): Option[Long] =
    Option.when(state.floor > 0 && log.madeUs(state.floor) <= storeNowUs(log.store) - GraceUs) {
      // Without it, what it would say did not fit into a frame.
      if (log.kept(state.floor, 0).exists(_.since.nonEmpty)) {
        val named = (state.live.iterator.map(_.segment.file) ++ state.gone.iterator.map(_.segment.file)).toSet
        log.store.delete(log.numbersBelow(state.floor).map(Names.commit).filterNot(named))
      }
      state.floor
    }

  /**
   * Delete what merges and trims behind commit `after` took away a grace period ago. Returns the last commit whose
   * objects are all deleted. A state that was opened by a commit that says all does not know what was taken away before.
   */
  def gone(log: ReferenceLog, state: QueueState, after: Long): Long = {
    val byCommit = state.gone.filter(_.removedAt > after).groupBy(_.removedAt)
    // A file may hold several segments, of which some still count. Commits go when they are old.
    val live = state.live.map(_.segment.file).toSet
    def isNeeded(file: String) = live(file) || file.startsWith(Names.LogFolder + "/")
    val olderThanUs = if (byCommit.isEmpty) 0L else storeNowUs(log.store) - GraceUs
    @tailrec def sweep(numbers: List[Long], swept: Long): Long = numbers match {
      case number :: rest if log.madeUs(number) <= olderThanUs =>
        log.store.delete(byCommit(number).map(_.segment.file).distinct.filterNot(isNeeded))
        sweep(rest, number)
      case _ => swept
    }
    sweep(byCommit.keys.toList.sorted, after)
  }
}
