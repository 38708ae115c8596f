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
  /** Commits whose removed objects are deleted; none before the first look. */
  private var swept = Option.empty[Long]
  /** Who opens a queue right behind a commit after which somebody should have looked does so: a truncation may not. */
  private var isNew = true
  /** The commit before which the others are deleted. */
  private var floor = 0L

  /** What a writer does for the queue, every so many commits. What fails is logged: it is for the next one to do. */
  def nowAndThen(before: QueueState, after: QueueState): QueueState = {
    val isCrossed = before.number / Upkeep.Every != after.number / Upkeep.Every
    val isDue = isCrossed || isNew && after.number > Upkeep.Every && after.number % Upkeep.Every == 1
    isNew = false
    if (isDue) keepSmall(after) else after
  }

  private def keepSmall(after: QueueState): QueueState =
    Seq[QueueState => QueueState](trim, merge, deleteCommits).foldLeft(after) { (now, step) =>
      // One that fails, as where a segment is damaged, keeps the next from nothing.
      try step(now) catch { case NonFatal(e) => logWarning(s"cec: ${store.url} is not kept small: $e"); now }
    }

  private def deleteCommits(state: QueueState): QueueState = {
    if (state.floor > floor) floor = Sweeping.commits(log, state).getOrElse(floor)
    state
  }

  private def trim(state: QueueState): QueueState = {
    // Looked at anew for each try: whoever has registered since comes first.
    val now = log.add(log.refresh(state))(Trims.after(store, _, clockUs()))
    if (swept.isEmpty) Sweeping.earlier(log, now, Upkeep.Every)
    swept = Some(Sweeping.gone(log, now, swept.getOrElse(0L)))
    now
  }

  /** Put small neighbours together, as many as come to what one look may read; all by one commit. */
  private def merge(state: QueueState): QueueState = {
    val all = Merges.of(state)
    val before = all.scanLeft(0L)((sum, piece) => sum + piece.map(_.bytes).sum)
    val pieces = all.zip(before).takeWhile { case (_, bytes) => bytes < merger.bytesMax }.map(_._1)
    val beganUs = clockUs()
    val made = if (pieces.isEmpty) Nil else pieces.zip(merger.all(pieces)).collect { case (piece, Some(into)) => piece -> into }
    if (made.size < pieces.size) logWarning(s"cec: ${store.url}: segments of ${pieces.size - made.size} merges are damaged, and stay")
    if (made.isEmpty) state else replace(state, made, beganUs)
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
  /** Makes one object of each of these, and returns what a commit says of them, in their order; none of damaged ones. */
  def all(pieces: Seq[IndexedSeq[Segment]]): Seq[Option[Segment]]
}

private[cecstore] object Upkeep {
  /** Commits, between two looks. */
  private val Every = 64L
}

/** Objects that no commit names any more are deleted after a grace period. docs/format.md §11. */
private[cecstore] object Sweeping extends Logging {
  /** Old commits that a writer deletes at a time, beside its work: four times as many as it makes. */
  private val CommitsMax = 256
  private val WalkedMax = 256L
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
   * or counted after that one: once that one is older than the grace period. Before them goes what they took away, which no
   * state behind knows. Returns its number once all before it are deleted, for which each is read: so few at a time.
   */
  def commits(log: ReferenceLog, state: QueueState, most: Int = CommitsMax): Option[Long] =
    if (state.floor == 0 || log.madeUs(state.floor) > storeNowUs(log.store) - GraceUs) None
    // Without it, what it would say did not fit into a frame.
    else log.kept(state.floor, 0).flatMap(_.since).fold(Option(state.floor)) { all =>
      val kept = filesOf(state)
      val old = log.numbersBelow(state.floor).filterNot(number => kept(Names.commit(number)))
      val now = old.take(most)
      // What counted at the floor may be read by who began within the grace period.
      val needed = kept ++ all.segments.map(_.file)
      deleteObjects(log, removedBy(log, now, state.floor), needed)
      log.store.delete(now.map(Names.commit))
      Option.when(now.size == old.size)(state.floor)
    }

  /** The files of which these commits took segments away. */
  private def removedBy(log: ReferenceLog, numbers: Seq[Long], floor: Long): Seq[String] = numbers.flatMap { number =>
    try log.kept(number, floor).toSeq.flatMap(_.segments).filter(_.removed).map(_.file) catch {
      case e: CecLogException =>
        logWarning(s"cec: what an old commit took away is left to a clean-up: $e")
        Nil
    }
  }

  /** Delete these files but for commits, which go when they are old, and those that are needed. */
  private def deleteObjects(log: ReferenceLog, files: Seq[String], isNeeded: String => Boolean): Unit =
    log.store.delete(files.distinct.filterNot(file => isNeeded(file) || file.startsWith(Names.LogFolder + "/")))

  /**
   * Delete what was taken away a grace period ago by commits behind which `state` was opened: it does not know of all of
   * that. Looks at the commits that were younger at the look before, as somebody looks every so many commits, and at no
   * more than [[WalkedMax]]. What is left goes with the commits.
   */
  def earlier(log: ReferenceLog, state: QueueState, every: Long): Unit = {
    val lastLook = math.max(state.floor, state.number - state.number % every - every)
    val sinceUs = if (lastLook > 0) log.madeUs(lastLook) - GraceUs else 0L
    val oldUs = storeNowUs(log.store) - GraceUs
    val first = math.max(state.floor, state.number - WalkedMax)
    val walked = Iterator.iterate(state.number)(_ - 1).takeWhile(_ > first).map(number => number -> log.madeUs(number))
      .takeWhile { case (_, madeUs) => madeUs >= sinceUs }.toVector
    val (old, young) = walked.partition { case (_, madeUs) => madeUs <= oldUs }
    if (old.nonEmpty) {
      val needed = filesOf(state) ++ removedBy(log, young.map(_._1), state.floor)
      deleteObjects(log, removedBy(log, old.map(_._1), state.floor), needed)
    }
  }

  private def filesOf(state: QueueState): Set[String] =
    (state.live.iterator.map(_.segment.file) ++ state.gone.iterator.map(_.segment.file)).toSet

  /**
   * Delete what merges and trims behind commit `after` took away a grace period ago. Returns the last commit whose
   * objects are all deleted. What was taken away before a state was opened, it does not know: see [[earlier]].
   */
  def gone(log: ReferenceLog, state: QueueState, after: Long): Long = {
    val byCommit = state.gone.filter(_.removedAt > after).groupBy(_.removedAt)
    // A file may hold several segments, of which some still count, or did lately.
    val live = state.live.map(_.segment.file).toSet
    val last = state.gone.groupMapReduce(_.segment.file)(_.removedAt)(math.max)
    val olderThanUs = if (byCommit.isEmpty) 0L else storeNowUs(log.store) - GraceUs
    @tailrec def sweep(numbers: List[Long], swept: Long): Long = numbers match {
      case number :: rest if log.madeUs(number) <= olderThanUs =>
        deleteObjects(log, byCommit(number).map(_.segment.file), file => live(file) || last(file) > number)
        sweep(rest, number)
      case _ => swept
    }
    sweep(byCommit.keys.toList.sorted, after)
  }
}
