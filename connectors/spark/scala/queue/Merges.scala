package org.apache.spark.sql.cecstore.queue

/**
 * Which small segments are put together, so that a partition is read in few requests. docs/format.md §11; the rules are
 * those of cec_store/partitioned/by_reference/merging.py. Sizes grow by a factor: a record is written again once for
 * each factor, however many commits come.
 */
private[cecstore] object Merges {
  /** What a segment may come to by merging. */
  val MergedBytes: Long = 64L << 20
  /** So many neighbours at least are put together. */
  private val Factor = 8
  /** Neighbours that are all smaller than one of these. */
  private val Below = Seq.iterate(64L << 10, 4)(_ * Factor)

  /** Neighbours of one partition that should be one segment, in the order of their offsets. None is in two of them. */
  def of(state: QueueState): Seq[IndexedSeq[Segment]] =
    state.live.map(_.segment).groupBy(_.partition).toSeq.sortBy(_._1)
      .flatMap { case (_, own) => ofPartition(own.sortBy(_.firstOffset)) }

  private def ofPartition(segments: IndexedSeq[Segment]): Seq[IndexedSeq[Segment]] = {
    val isTaken = new Array[Boolean](segments.size)
    Below.flatMap { below =>
      def isSmall(n: Int) = segments(n).bytes < below && !isTaken(n)
      val pieces = runs(segments.size, isSmall).filter(run => isWorthIt(run.map(segments))).flatMap(cut(_, segments))
      pieces.foreach(_.foreach(isTaken(_) = true))
      pieces.map(_.map(segments))
    }
  }

  /** Where so many small ones stand side by side. */
  private def runs(count: Int, isSmall: Int => Boolean): Seq[IndexedSeq[Int]] =
    (0 until count).foldLeft(List(Vector.empty[Int])) {
      case (run :: before, n) if isSmall(n) => (run :+ n) :: before
      case (all @ (run :: _), _) => if (run.isEmpty) all else Vector.empty[Int] :: all
      case (Nil, _) => Nil
    }.reverse.filter(_.size >= Factor)

  /** Not where one of them would be written again for the sake of little. */
  private def isWorthIt(run: Seq[Segment]): Boolean = 2 * run.map(_.bytes).max <= run.map(_.bytes).sum

  /** A run in pieces that come to about as much as a segment should, two segments or more each. */
  private def cut(run: IndexedSeq[Int], segments: IndexedSeq[Segment]): Seq[IndexedSeq[Int]] = {
    val upto = run.scanLeft(0L)((sum, n) => sum + segments(n).bytes).tail
    run.zip(upto).groupBy { case (_, sum) => sum / MergedBytes }.toSeq.sortBy(_._1).map(_._2.map(_._1)).filter(_.size > 1)
  }
}
