package org.apache.spark.sql.cecstore.store

import scala.collection.mutable
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.format.Format
import org.apache.spark.sql.cecstore.log.{SegmentFolder, StateLog}
import org.apache.spark.sql.cecstore.state.Instance

/**
 * Which task owns which instance of a store's state, and the one that is kept for the next task. Task threads and
 * the thread that closes the provider use it at once: the lock of `this` guards all fields, and no instance
 * changes hands without it.
 */
private[cecstore] final class InstancePool(folder: SegmentFolder) extends Logging {
  private var idle: Instance = null
  private var isClosed = false
  private val owned = mutable.Map.empty[Long, Instance]

  /**
   * An instance that stands at the version, owned from now on: the owner's own, the idle one, or a new one, for
   * which nobody waits. Says also whether the owner has just got it. Its generation holds until it is given back.
   */
  def take(owner: Long, version: Long, uniqueId: Option[String], isUsable: Boolean)(load: => Instance): (Instance, Boolean) = {
    val mine = synchronized(owned.get(owner).filter(i => !i.isWriting && isUsable && i.moveTo(version, uniqueId)))
    val instance = mine.orElse(if (isUsable) takeIdle(version, uniqueId) else None).getOrElse(load)
    synchronized {
      owned.put(owner, instance)
      instance.opened += 1
    }
    (instance, mine.isEmpty)
  }

  private def takeIdle(version: Long, uniqueId: Option[String]): Option[Instance] = if (synchronized(idle == null)) None else {
    // Listing may take long: nobody waits for it. A segment that comes up meanwhile is as one that comes up later.
    val highest = if (uniqueId.isEmpty) folder.list().lastOption.getOrElse(Format.NoSegment) else Format.NoSegment
    synchronized {
      val found = Option(idle).filter(i => i.moveTo(version, uniqueId) && (uniqueId.nonEmpty || isSame(highest, i.base.segment)))
      if (found.nonEmpty) idle = null
      found
    }
  }

  /**
   * With checkpoint format V1 the log says which attempt at a version counts, and a later one has to stand behind all
   * others. A state kept from before is both only where nobody else has begun a segment since.
   */
  private def isSame(highest: Long, segment: Long): Boolean = StateLog.mergedId(highest) == StateLog.mergedId(segment)

  /**
   * A task is done with its instance: it is there for the next one. What has just been committed replaces even a
   * newer version: who went back and committed again has left that lineage.
   */
  def giveBack(owner: Long, instance: Instance, generation: Long): Unit =
    end(synchronized(if (instance.generation == generation) givenBack(owner, instance) else null))

  /** Outside of tasks: one of the stores that were opened on an instance is closed. The last one gives it back. */
  def release(owner: Long, instance: Instance, generation: Long): Unit = end(synchronized {
    val isLast = instance.generation == generation && { instance.opened -= 1; instance.opened == 0 }
    if (isLast) givenBack(owner, instance) else null
  })

  /** Let go of one that is not kept: to close its stream may take long, so not under the lock. */
  private def end(left: Instance): Unit = if (left != null) try left.close() finally left.state.letGo()

  /** The instance that is not wanted any more, if any. */
  private def givenBack(owner: Long, instance: Instance): Instance = {
    if (owned.get(owner).exists(_ eq instance)) owned.remove(owner)
    if (instance.disown()) keep(instance)
    else {
      logWarning(s"cec: ${folder.location}: a thread of a task that has ended still works with its state: " +
        "the next task loads it anew")
      null
    }
  }

  private def keep(instance: Instance): Instance = {
    val isNewest = !isClosed && !instance.isLost && (idle == null || instance.hasCommitted || idle.base.version <= instance.base.version)
    instance.hasCommitted = false
    val left = if (isNewest) { val old = idle; idle = instance; old } else instance
    if (left eq idle) null else left
  }

  /** The idle instance, for whoever asks to have it as a replica: another executor has gone on from here. */
  def giveUp(): Option[Instance] = {
    val left = synchronized { val old = idle; idle = null; Option(old) }
    left.foreach(_.close())
    left
  }

  /** Closed for good; gives back what was kept for the next task. */
  def close(): Option[Instance] = { synchronized { isClosed = true }; giveUp() }
}
