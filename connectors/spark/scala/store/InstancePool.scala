package org.apache.spark.sql.cecstore.store

import scala.collection.mutable
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.format.Format
import org.apache.spark.sql.cecstore.log.{Base, SegmentFolder, StateLog}
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
    val (kept, isMine) = synchronized {
      val mine = owned.get(owner).filter(i => !i.isWriting && isUsable && i.moveTo(version, uniqueId))
      val found = mine.orElse(Option(idle).filter(i => isUsable && i.moveTo(version, uniqueId) && (uniqueId.nonEmpty || isNewest(i.base))))
      if (found.exists(_ eq idle)) idle = null
      (found, mine.nonEmpty)
    }
    val instance = kept.getOrElse(load)
    synchronized {
      owned.put(owner, instance)
      instance.opened += 1
    }
    (instance, !isMine)
  }

  /**
   * With checkpoint format V1 the log says which attempt at a version counts, and a later one has to stand behind all
   * others. A state kept from before is both only where nobody else has begun a segment since.
   */
  private def isNewest(base: Base): Boolean =
    StateLog.mergedId(folder.list().lastOption.getOrElse(Format.NoSegment)) == StateLog.mergedId(base.segment)

  /**
   * A task is done with its instance: it is there for the next one. What has just been committed replaces even a
   * newer version: who went back and committed again has left that lineage.
   */
  def giveBack(owner: Long, instance: Instance, generation: Long): Unit = synchronized {
    if (instance.generation == generation) {
      if (owned.get(owner).exists(_ eq instance)) owned.remove(owner)
      if (instance.disown()) keep(instance)
      else logWarning(s"cec: ${folder.location}: a thread of a task that has ended still works with its state: " +
        "the next task loads it anew")
    }
  }

  /** Outside of tasks: one of the stores that were opened on an instance is closed. The last one gives it back. */
  def release(owner: Long, instance: Instance, generation: Long): Unit = synchronized {
    if (instance.generation == generation) {
      instance.opened -= 1
      if (instance.opened == 0) giveBack(owner, instance, generation)
    }
  }

  private def keep(instance: Instance): Unit = {
    val isNewest = !isClosed && (idle == null || instance.hasCommitted || idle.base.version <= instance.base.version)
    instance.hasCommitted = false
    val left = if (isNewest) { val old = idle; idle = instance; old } else instance
    if (left != null && (left ne idle)) left.close()
  }

  def close(): Unit = synchronized {
    if (idle != null) idle.close()
    idle = null
    isClosed = true
  }
}
