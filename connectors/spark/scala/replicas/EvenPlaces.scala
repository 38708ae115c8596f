package org.apache.spark.sql.cecstore.replicas

/**
 * Where replicas go unless somebody says where: on another executor than their partition (constraint 1), on another rack
 * or else another host where there is one, and on as few of an executor's as possible (constraint 2). Madsen & Zhou 2015, IV, "Even
 * Distribution". The lock of the [[Driver]] guards the roster.
 */
private[cecstore] final class EvenPlaces(roster: Roster) {
  private def load(executor: String): Int = roster.partitions.valuesIterator.count(_.targets.contains(executor))
  private def isFit(entry: PartitionEntry)(executor: ExecutorEntry): Boolean = !executor.isDraining && !entry.owner.contains(executor.id)

  /**
   * Have each partition's replicas where they are to be; new ones where some are lost or there is more room.
   *
   * @param goal where a partition is on its way to: its replica there stays
   */
  def settle(goal: PartitionEntry => Option[String]): Unit = {
    roster.partitions.valuesIterator.foreach(entry => settle(entry, goal(entry)))
    even(goal(_).nonEmpty)
  }

  private def settle(entry: PartitionEntry, goal: Option[String]): Unit = {
    val before = entry.targets
    val asked = entry.placed.fold(before)(there => there ++ goal.filter(before.contains) ++ leaving(entry, there)).distinct
    val kept = asked.filter(id => roster.executors.get(id).exists(isFit(entry)))
    val wanted = entry.placed.fold(entry.replicas)(_.size)
    val all = filled(entry, kept, wanted)
    entry.targets = if (goal.isEmpty) withoutSurplus(entry, all, wanted) else all
    if (entry.targets != before) roster.changed()
  }

  /**
   * Replicas with a state, and states of old owners, that are replaced by others, one for each of these that is not warm
   * yet. None stays where a replica that is wanted has no room: two that wait for each other's would wait for good.
   */
  private def leaving(entry: PartitionEntry, placed: Vector[String]): Vector[String] = {
    def isFull(id: String) = roster.executors.get(id).exists(_.held.valuesIterator.exists(_.state == ReplicaHost.NoRoom))
    def hasState(id: String) = roster.lag(entry, id).nonEmpty || roster.isLeftOver(entry, id)
    entry.targets.filter(id => !placed.contains(id) && hasState(id) && !isFull(id))
      .take(placed.count(!roster.isWarm(entry, _)))
  }

  private def filled(entry: PartitionEntry, kept: Vector[String], wanted: Int): Vector[String] =
    if (kept.size >= wanted || entry.owner.isEmpty) kept
    else roster.executors.valuesIterator.filter(isFit(entry)).filter(e => !kept.contains(e.id))
      .minByOption(e => (load(e.id), nearness(entry, e), e.id))
      .fold(kept)(e => filled(entry, kept :+ e.id, wanted))

  /** How much one fault takes of both: 2 on the partition's host, 1 on another, 0 on another rack, where both are known. */
  private def nearness(entry: PartitionEntry, executor: ExecutorEntry): Int =
    entry.owner.flatMap(roster.executors.get).fold(1) { owner =>
      if (owner.host == executor.host) 2 else if (owner.rack.exists(rack => executor.rack.exists(_ != rack))) 0 else 1
    }

  /** One more than wanted is there until it is warm: then the one on the fullest executor goes. */
  private def withoutSurplus(entry: PartitionEntry, targets: Vector[String], wanted: Int): Vector[String] =
    if (targets.size <= wanted || entry.placed.nonEmpty || !targets.forall(roster.isWarm(entry, _))) targets
    else targets.filter(_ != targets.maxBy(load))

  /** A newcomer gets a replica of whoever has two more than it: one at a time, and the old one stays until that is warm. */
  private def even(isMoving: PartitionEntry => Boolean): Unit = {
    val fit = roster.executors.valuesIterator.filter(!_.isDraining).map(_.id).toSeq
    def isFree(entry: PartitionEntry) = entry.placed.isEmpty && entry.owner.nonEmpty && !isMoving(entry)
    val isUnderWay = roster.partitions.valuesIterator.exists(e => isFree(e) && e.targets.size > e.replicas)
    if (fit.size > 1 && !isUnderWay) {
      val (least, most) = (fit.minBy(load), fit.maxBy(load))
      if (load(most) - load(least) >= 2) roster.partitions.valuesIterator.find(entry => isFree(entry) &&
          entry.targets.contains(most) && !entry.targets.contains(least) && !entry.owner.contains(least)).foreach { entry =>
        entry.targets = entry.targets :+ least
        roster.changed()
      }
    }
  }

  /** Why there are fewer replicas than asked for, if so. */
  def shortage: Option[String] = {
    val fit = roster.executors.valuesIterator.count(!_.isDraining)
    val asked = roster.partitions.valuesIterator.map(_.replicas).maxOption.getOrElse(0)
    Option.when(asked > 0 && asked > fit - 1)(
      s"replicas=$asked needs ${asked + 1} executors, there ${if (fit == 1) "is 1" else s"are $fit"}: " +
        (if (fit < 2) "no replicas are kept until more join" else s"${fit - 1} of each partition are kept until more join"))
  }
}
