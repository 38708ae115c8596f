package org.apache.spark.sql.cecstore.state

import java.util.concurrent.locks.ReentrantLock
import scala.collection.mutable.ArrayBuffer
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.{Body, Rows}
import org.apache.spark.sql.cecstore.log.{Base, Commit, SegmentWriter}
import org.apache.spark.sql.cecstore.sparks.StoreErrors

/**
 * A state in memory together with where it stands in the log and the segments it writes. A task owns it from
 * the moment it asks for a store until it ends; attempts that overlap have one each, so they never mix. Only the
 * task's own thread should call it, but Python's state server may be late: what changes it does so through
 * [[exclusively]].
 */
private[cecstore] final class Instance(
    val state: LiveState, private var base_ : Base, writer: SegmentWriter, target: ExtentTarget, checkTimeMs: Long,
    compressionLevel: Int, clockUs: () => Long, val loadedRecords: Long, val loadMs: Long,
    val isFromReplica: Boolean = false) {

  private var previous: Base = null
  private val lock = new ReentrantLock
  @volatile private var generation_ = 0L
  /** A store that may still put is open on it. */
  var isWriting = false
  /** How many stores were opened on it since a task took it. */
  var opened = 0
  /** A commit was made since a task took it. */
  var hasCommitted = false
  /** A version that it stands at has not come into the log: it is of no use any more. */
  @volatile private var isLost_ = false

  // Of the last commit.
  var renewedRecords = 0L
  var appendedBytes = 0L
  @volatile var appendMs = 0L
  var extentRecords = 0L
  /** False until a progress report has had the figures of the load. */
  var isLoadReported = false

  // Calls since a task took it.
  var gets = 0L
  var puts = 0L
  var removals = 0L
  /** By scans of whole column families, and how many of these scans have left out rows that are not due. */
  var scannedRows = 0L
  var narrowedScans = 0L

  /** Which ownership this is; handles of another one are refused. */
  def generation: Long = generation_

  def check(generation: Long): Unit =
    if (generation != generation_) throw StoreErrors.late(generation, generation_)

  /** Change the state as a handle of this generation: nobody else does so, or takes it over, meanwhile. */
  def exclusively[A](generation: Long)(change: => A): A = {
    lock.lock()
    try { check(generation); change } finally lock.unlock()
  }

  /**
   * The owner is done: its handles are good for nothing from now on, and what it has not committed is gone. False if
   * one of its threads is still at it: then nobody can have this instance next.
   */
  def disown(): Boolean = {
    generation_ += 1
    val isFree = lock.tryLock()
    if (isFree) try rollback() finally lock.unlock()
    opened = 0
    gets = 0
    puts = 0
    removals = 0
    scannedRows = 0
    narrowedScans = 0
    isFree
  }

  def base: Base = base_
  /** The version before, while the state can still be taken back to it. */
  def beforeBase: Option[Base] = Option(previous)
  def grows: Boolean = writer.grows
  def isLost: Boolean = isLost_ || state.isBroken

  /** Stand at this version, going one commit back if that is what it takes; false if it cannot. */
  def moveTo(version: Long, uniqueId: Option[String]): Boolean = {
    // Empty at a later version is what was asked for once, not what the log holds there.
    def is(b: Base): Boolean =
      b != null && b.version == version && (if (b.isEmpty) version == 0 else uniqueId.forall(_ == b.uniqueId))
    if (isLost) false
    else if (is(base_)) true
    else if (is(previous)) {
      state.rollback()
      base_ = previous
      previous = null
      true
    } else false
  }

  /** The next version begins: the last one can no longer be taken back. */
  def begin(): Unit = { state.begin(); previous = null; isWriting = true }

  /** Take back what a handle of this generation has put; one of another has nothing here any more. */
  def rollback(generation: Long): Unit = {
    lock.lock()
    try if (generation == generation_) rollback() finally lock.unlock()
  }

  private def rollback(): Unit = if (isWriting) { isWriting = false; if (!state.isBroken) state.rollback() }

  /**
   * Write what was put since [[begin]], and the oldest footprints again as the policy asks.
   *
   * @param mayWait whether a small version may be left to who calls what is returned, on any thread: the state stands
   *                at it, but it is not in the log before. The owner goes on once that has returned or raised
   */
  def commit(version: Long, mayWait: Boolean = false): Option[() => Unit] = {
    val started = System.nanoTime()
    if (state.isBroken) throw new CecLogException("a row of the state could not be read, so that what was put since may not be whole: the batch has to be run again")
    val changes = state.compact().map(_.count).sum
    renewedRecords = state.renew(target, started + checkTimeMs * 1000000L)
    val parts = state.compact()
    val timestampUs = clockUs()
    extentRecords = state.extentRecords
    // A body is made when it is written, so that a large version is not in memory twice.
    val cuts = parts.map(Instance.cuts)
    val renewedFrom = parts.scanLeft(changes)(_ - _.count)
    val bodies = for {
      ((rows, cutsOfPart), renewed) <- parts.iterator.zip(cuts).zip(renewedFrom)
      (from, until) <- cutsOfPart
    } yield Body.encode(rows, from, until, renewed, version, timestampUs, compressionLevel) -> (until - from)
    val writing = writer.append(base_, Commit(version, bodies, extentRecords, state.openWindows, timestampUs))
    val waits = mayWait && cuts.map(_.size).sum == 1
    if (waits) writing.encode() else writing.run()
    state.markCommitted(cuts.map(_.size), writing.writtenBytes)
    previous = base_
    base_ = writing.end
    isWriting = false
    hasCommitted = true
    appendedBytes = writing.writtenBytes
    appendMs = (System.nanoTime() - started) / 1000000
    Option.when(waits)(() => writeLater(writing))
  }

  private def writeLater(writing: writer.Writing): Unit = {
    val started = System.nanoTime()
    try writing.run() catch { case e: Throwable => isLost_ = true; throw e }
    appendMs += (System.nanoTime() - started) / 1000000
  }

  def close(): Unit = writer.close()
}

private[cecstore] object Instance {
  /** Bytes of a body before compression: a few MB, so that a load never holds much that it throws away. Tests lower it. */
  @volatile private[cecstore] var bodyBytes: Int = 16 << 20
  private val BytesPerRow = 32

  /** Row ranges of the frames of a part; one, unless it is large. A row above the limit has a frame of its own. */
  def cuts(rows: Rows): Seq[(Int, Int)] = {
    def bytesUpto(row: Int): Long = rows.keyEnds(row).toLong + rows.valueEnds(row) + row.toLong * BytesPerRow
    if (bytesUpto(rows.count) <= bodyBytes) return Seq((0, rows.count))
    val ends = ArrayBuffer(0)
    (1 until rows.count).foreach(row => if (bytesUpto(row + 1) - bytesUpto(ends.last) > bodyBytes) ends += row)
    ends += rows.count
    ends.toSeq.zip(ends.tail.toSeq)
  }
}
