package org.apache.spark.sql.cecstore.queue

/**
 * How far a queue's retention, or TRUNCATE TABLE, lets it be trimmed, by partition, and the commit that does it.
 * docs/format.md §11; the rules are those of cec_store/partitioned/by_reference/reference_trims.py.
 */
private[cecstore] object Trims {
  /**
   * The commit that takes away what the queue need not keep; none where that is nothing, or its setting is not known.
   * Raises CecLogException where what a consumer needs cannot be read.
   */
  def after(store: Store, state: QueueState, nowUs: Long): Option[LogObject] = {
    val all = state.commit.ends.toIndexedSeq
    val limits = Retention.of(state.commit) match {
      case Some(Retention.Time(us)) => Some(outside(state)((one, _) => one.writtenUs <= nowUs - us))
      case Some(Retention.Bytes(bytes)) => Some(outside(state)((_, behind) => behind >= bytes))
      case Some(Retention.Consumers) =>
        val needed = Registration.effectsSaved(store, state)
        Option.when(needed.nonEmpty)(needed.foldLeft(all)((least, own) => least.zip(own).map { case (a, b) => a min b }))
      case _ => None
    }
    limits.flatMap(trimmed(state, _, nowUs))
  }

  /** The commit that takes away every record that is there, whoever needs it; none for an empty queue. Offsets go on. */
  def everything(state: QueueState, nowUs: Long): Option[LogObject] =
    trimmed(state, state.commit.ends.toIndexedSeq, nowUs)

  /** By partition: the end of the last of its oldest segments that all may go. `goes`: by the bytes behind one, too. */
  private def outside(state: QueueState)(goes: (Segment, Long) => Boolean): IndexedSeq[Long] = {
    val limits = new Array[Long](state.commit.ends.length)
    state.live.map(_.segment).groupBy(_.partition).foreach { case (number, found) =>
      val sorted = found.sortBy(_.firstOffset)
      val behind = sorted.scanRight(0L)((one, sum) => sum + one.bytes).tail
      sorted.zip(behind).takeWhile(goes.tupled).lastOption.foreach { case (last, _) => limits(number) = last.endOffset }
    }
    limits.toIndexedSeq
  }

  /** Whole segments below an offset of each partition; one that holds a record at or above it stays. */
  private def trimmed(state: QueueState, limits: IndexedSeq[Long], nowUs: Long): Option[LogObject] = {
    val gone = state.live.map(_.segment).filter(one => one.endOffset <= limits(one.partition))
    Option.when(gone.nonEmpty) {
      val starts = state.commit.starts.clone
      gone.foreach(one => starts(one.partition) = math.max(starts(one.partition), one.endOffset))
      state.next(Operation.trim, gone.map(_.copy(removed = true)), nowUs, state.commit.settings, starts)
    }
  }
}
