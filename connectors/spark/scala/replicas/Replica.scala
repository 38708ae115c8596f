package org.apache.spark.sql.cecstore.replicas

import java.util.concurrent.locks.ReentrantLock
import scala.util.Using
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.FrameHeader
import org.apache.spark.sql.cecstore.log.{Base, FrameAt, SegmentFolder, StateLog}
import org.apache.spark.sql.cecstore.state.{CatchUp, Instance, KeyDirectories, LiveState, RowMemory, StateLoader}

/** A replica's state, which a task has from now on, and what brought it to the version that was wanted. */
private[cecstore] final case class Taken(state: LiveState, base: Base, wasAt: Long, frames: Int, records: Long)

/**
 * A warm copy of a state that another executor owns, brought forward frame by frame. It is good for a version only if
 * the version's own chain of frames leads back to the frame at which the copy stands: so a copy of another attempt, of
 * another lineage, or of batches that the query has taken back is thrown away, never used. It can go one version back,
 * as a state that was committed here can. Madsen & Zhou 2015, III: a checkpoint on another node.
 *
 * The follower's thread and a task may want it at once: the lock guards all that is not volatile.
 *
 * @param memory what its state may hold in the heap, also once a task has it
 */
private[cecstore] final class Replica(val key: StoreKey, isOrdered: Boolean, memory: RowMemory) {
  import Replica.Standing

  private val lock = new ReentrantLock
  /** Null while there is none, and while it is being changed: what fails half-way leaves nothing to be used. */
  private var state: LiveState = null
  private var standing: Standing = null
  /** Where it stood before the version that was followed last. */
  private var before: Standing = null
  @volatile private var figures = Replica.NoFigures
  /** A task has it, or waits for it. */
  @volatile private var isTaken = false

  /** The version that it holds; -1 while it holds none. */
  def version: Long = figures.version
  def memoryBytes: Long = figures.memoryBytes
  /** When it last got on: the one that has stood still for longest is the coldest. */
  def advancedNs: Long = figures.advancedNs

  /** Have this version, by what it lacks, or anew where that is not to be had. Says how many records were read. */
  def bringTo(folder: SegmentFolder, head: Head): Long = locked {
    // Nobody would have what is loaded after a task has come for it.
    if (isTaken) 0L
    else if (state != null && standing.base.version == head.version && standing.base.uniqueId == head.uniqueId) 0L
    else try onFewSegments(folder, head).getOrElse(Using.resource(new StateLog(folder))(withLog(folder, _, head)))
    catch { case e: Throwable => discard(); throw e }
  }

  /** The names of the two segments that matter are known: mostly nothing has to be listed. */
  private def onFewSegments(folder: SegmentFolder, head: Head): Option[Long] = if (state == null) None else {
    val ids = (StateLog.segmentOf(head.uniqueId).toSeq :+ standing.base.segment).distinct.sorted.toArray
    try Using.resource(new StateLog(folder, ids)) { log => reached(log, log.find(head.version, Some(head.uniqueId))).map(_.records) }
    catch { case _: CecLogException => None }
  }

  private def withLog(folder: SegmentFolder, log: StateLog, head: Head): Long = {
    val last = log.find(head.version, Some(head.uniqueId))
    val caughtUp = try if (state == null) None else reached(log, last) catch { case _: CecLogException => None }
    caughtUp.map(_.records).getOrElse(load(folder, log, last))
  }

  private def load(folder: SegmentFolder, log: StateLog, last: FrameAt): Long = {
    discard()
    val (loaded, records) = byDirectory(folder, log, last).getOrElse(
      (StateLoader.load(log, last, family => isOrdered && family == Replica.Ordered, s"a replica of $key", memory), last.header.extentRecords))
    state = loaded
    loaded.bringRows()
    // Without records in the extent the newest that has some may be gone.
    val filled = if (last.header.extentRecords == 0) None else log.newestFilled(last).map(_.header)
    standing = Standing(Base.at(last), Some(last.header), filled)
    tell()
    records
  }

  private def byDirectory(folder: SegmentFolder, log: StateLog, last: FrameAt): Option[(LiveState, Long)] =
    if (isOrdered) None
    else folder.derivedFiles.flatMap(new KeyDirectories(folder, _, s"a replica of $key").load(log, last, memory))

  /** The state at the end of this frame, for a task; none if it does not lead there. Either way it is gone from here. */
  def take(log: StateLog, last: FrameAt): Option[Taken] = {
    isTaken = true
    locked {
      try {
        val taken = if (state == null) None else reachedFrom(standing.base.version, log, last)
        if (taken.nonEmpty) forget()
        taken
      } finally discard()
    }
  }

  private def reachedFrom(wasAt: Long, log: StateLog, last: FrameAt): Option[Taken] = reached(log, last).map { progress =>
    if (isOrdered) state.order(Replica.Ordered)
    Taken(state, Base.at(last), wasAt, progress.frames, progress.records)
  }

  /** Go on from what a task has left here: another executor has the state now. */
  def adopt(instance: Instance): Unit = locked {
    state = instance.state
    standing = Standing(instance.base, None, None)
    before = instance.beforeBase.map(Standing(_, None, None)).orNull
    tell()
  }

  def drop(): Unit = locked(discard())

  private def locked[A](work: => A): A = {
    lock.lockInterruptibly()
    try work finally lock.unlock()
  }

  /** Nobody will have this state: what it has in local files is free at once. */
  private def discard(): Unit = { if (state != null) state.letGo(); forget() }
  private def forget(): Unit = { state = null; standing = null; before = null; figures = Replica.NoFigures }
  private def tell(): Unit = figures = Replica.Figures(standing.base.version, state.memoryBytes, System.nanoTime())

  /** Go to the end of this frame; none if the copy does not lead there, and then it is as it was. */
  private def reached(log: StateLog, last: FrameAt): Option[Progress] = {
    if (state.isBroken) return None
    val isThere = isAt(log, standing, last)
    val isBefore = !isThere && before != null && isAt(log, before, last)
    val frames = if (isThere || isBefore) Some(Nil) else log.since(standing.base.seq, last)(standing.isEndOf(log, _))
    frames.map { newer =>
      val whole = state
      state = null
      val progress = try { if (isBefore) goBack(whole) else follow(whole, newer) } catch { case e: Throwable => whole.letGo(); throw e }
      state = whole
      tell()
      progress
    }
  }

  private def isAt(log: StateLog, place: Standing, frame: FrameAt): Boolean =
    frame.header.seq == place.base.seq && frame.header.endsVersion(place.base.version) && place.isEndOf(log, frame)

  private def goBack(whole: LiveState): Progress = {
    whole.rollback()
    standing = before
    before = null
    Progress(0, 0)
  }

  private final case class Progress(frames: Int, records: Long)

  private def follow(whole: LiveState, frames: Seq[FrameAt]): Progress = {
    CatchUp.follow(whole, frames, s"a replica of $key") { frame =>
      before = standing
      val filled = if (frame.header.recordCount > 0) Some(frame.header) else before.filled
      standing = Standing(Base.at(frame), Some(frame.header), filled)
    }
    Progress(frames.size, frames.map(_.header.recordCount.toLong).sum)
  }
}

private object Replica {
  /** Of the families only the default one can be declared as ordered before its store is opened. */
  private val Ordered = org.apache.spark.sql.cecstore.format.Format.DefaultFamily
  private final case class Figures(version: Long, memoryBytes: Long, advancedNs: Long)
  private val NoFigures = Figures(-1, 0, 0)

  /**
   * The frame at whose end a copy stands.
   *
   * @param last its header, if it was read
   * @param filled that of the newest frame up to it with records, whose times and checksum no other commit has
   */
  private final case class Standing(base: Base, last: Option[FrameHeader], filled: Option[FrameHeader]) {
    /** Whether it is this frame, which has the right number; maintenance may have copied it into a merged segment. */
    def isEndOf(log: StateLog, frame: FrameAt): Boolean = {
      val isSegment = StateLog.mergedId(frame.segment.id) == StateLog.mergedId(base.segment) && frame.header.salt == base.salt
      isSegment || StateLog.isMerged(frame.segment.id) && last.exists(_.isCopyOf(frame.header)) &&
        filled.exists(header => log.newestFilled(frame).exists(_.header.isCopyOf(header)))
    }
  }
}
