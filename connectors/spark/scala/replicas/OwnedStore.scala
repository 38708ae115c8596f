package org.apache.spark.sql.cecstore.replicas

import org.apache.spark.sql.cecstore.log.Base
import org.apache.spark.sql.cecstore.state.{Instance, RowMemory}

/** How a state came into this process the last time. */
private[cecstore] final case class LoadFigures(version: Long, isFromReplica: Boolean, records: Long, ms: Long)

/**
 * A store that a provider of this executor has opened: what the driver is told of it. A provider stays for a while
 * after another executor has gone on with its store; the greatest version shows who has it.
 *
 * Task threads write the volatile fields, others read them.
 *
 * @param replicas how many the query asks for
 * @param giveUp the state that is kept for the next task, if no task has it
 * @param memory what the query's states may hold in the heap
 */
private[cecstore] final class OwnedStore(
    val key: StoreKey, val runId: String, val isOrdered: Boolean, val replicas: Int, val giveUp: () => Option[Instance],
    val memory: RowMemory = RowMemory.Default) {
  @volatile private var head_ : Head = null
  @volatile private var load_ : LoadFigures = null
  @volatile private var windows_, stateBytes_ = 0L
  private var news = OwnerNews.None
  private var hasTold = false

  def head: Option[Head] = Option(head_)
  def load: Option[LoadFigures] = Option(load_)
  def windows: Long = windows_
  def stateBytes: Long = stateBytes_

  /** What the driver has said last; an arrival is given out once. */
  def takeNews(): OwnerNews = synchronized {
    val told = if (hasTold) news.copy(arrivals = 0) else news
    hasTold ||= news.arrivals > 0
    told
  }

  private[cecstore] def hear(said: Option[OwnerNews]): Unit = synchronized {
    news = said.getOrElse(OwnerNews.None)
    if (news.arrivals == 0) hasTold = false
  }

  /** A reader may load an older version beside its task's writer: that one does not count. */
  def loaded(base: Base, figures: LoadFigures): Unit = {
    load_ = figures
    if (head.forall(_.version <= base.version)) stands(base)
  }

  def committed(base: Base, windows: Long, stateBytes: Long): Unit = {
    windows_ = windows
    stateBytes_ = stateBytes
    stands(base)
  }

  private[cecstore] def report: Report.Owned = Report.Owned(key, runId, head, isOrdered, replicas, windows_, stateBytes_, load)

  private def stands(base: Base): Unit = if (!base.isEmpty) head_ = Head(base.version, base.uniqueId)
}

/**
 * What the driver says to who owns a store.
 *
 * @param lagVersions that the replica lacks which is furthest behind
 * @param memoryBytes of all its replicas
 * @param arrivals 1 if the partition came here by a migration; of its stores one is told so
 */
private[cecstore] final case class OwnerNews(lagVersions: Long, memoryBytes: Long, arrivals: Long)

private[cecstore] object OwnerNews {
  val None: OwnerNews = OwnerNews(0, 0, 0)
}
