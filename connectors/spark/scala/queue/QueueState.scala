package org.apache.spark.sql.cecstore.queue

/** A segment that counts. `added`: the commit that it came by, or one behind it that says it. */
private[cecstore] final case class Live(segment: Segment, added: Long)

/** A segment that commit `removedAt` took away. */
private[cecstore] final case class Gone(segment: Segment, added: Long, removedAt: Long)

/**
 * A queue after commit `number`. docs/format.md §11.
 *
 * @param live segments that count, in the order of their commits
 * @param gone those that were taken away since the last commit that says all
 * @param salts by number: of this commit and of those since which the next ones say it
 */
private[cecstore] final case class QueueState(
    number: Long, logId: IndexedSeq[Byte], commit: Commit, live: Vector[Live], gone: Vector[Gone],
    salts: Map[Long, Long]) {

  /** When it was last seen to be the newest. */
  val look = new Look

  /** The last commit that says all there is; those before it may be deleted. */
  def floor: Long = QueueState.floorOf(number)

  /** Of commit `number`, by which it is known again. */
  def salt: Long = salts(number)
  def seen: SeenCommit = SeenCommit(logId, number, salt)

  /** The state after the next commit, or after several [[LogObject.atOnce]]. Raises BadState. */
  def after(part: LogObject): QueueState = {
    val (taken, added) = part.segments.partition(_.removed)
    val all = live ++ added.map(Live(_, part.number))
    // Whoever looks further back takes the commit that says all.
    val before = if (part.number % QueueState.SinceEvery.last == 0) Vector.empty else gone
    val bases = QueueState.Widths.map(width => part.number - part.number % width).toSet
    val known = (salts + (part.number -> part.salt)).filter { case (number, _) => bases(number) }
    if (taken.isEmpty) return QueueState(part.number, part.logId, part.commit, all, before, known)
    val wanted = taken.map(each => (each.file, each.byte)).toSet
    val (left, stays) = all.partition(each => wanted((each.segment.file, each.segment.byte)))
    if (left.size != taken.size) throw new BadState(s"number ${part.number} takes away what is not there")
    QueueState(part.number, part.logId, part.commit, stays,
      before ++ left.map(each => Gone(each.segment, each.added, part.number)), known)
  }

  /** The next commit, of no query: with these segments, which it adds or takes away. */
  def next(operation: Byte, segments: IndexedSeq[Segment], createdUs: Long, settings: Map[String, String],
      starts: Array[Long]): LogObject = {
    val made = commit.copy(operation = operation, query = None, batch = 0, starts = starts, consumed = Map.empty,
      settings = settings, schema = None)
    LogObject(number + 1, logId, made, segments, createdUs)
  }

  private lazy val places: Set[(String, Long)] = live.map(each => (each.segment.file, each.segment.byte)).toSet

  /** Whether these count still. */
  def hasAll(segments: Iterable[Segment]): Boolean = segments.forall(each => places((each.file, each.byte)))

  /** What came since an earlier commit, where commit `number` says it. */
  def since: Option[Since] = QueueState.sinceBase(number).map { base =>
    if (base == 0) Since(None, live.map(_.segment)) else {
      // What came and went since is not in what is behind the base either.
      val taken = gone.filter(each => each.removedAt > base && each.added <= base)
      Since(Some((base, salts(base))), live.filter(_.added > base).map(_.segment) ++ taken.map(_.segment.copy(removed = true)))
    }
  }
}

/** When a state was last seen to be the newest. */
private[cecstore] final class Look {
  @volatile private var at = (System.nanoTime, System.currentTimeMillis)

  def renew(): Unit = at = (System.nanoTime, System.currentTimeMillis)

  /** Whether that is an hour ago or longer: by one clock that is never set, and one that goes on in a suspended machine. */
  def isOld: Boolean =
    System.nanoTime - at._1 > Look.DoubtMs * 1000000 || math.abs(System.currentTimeMillis - at._2) > Look.DoubtMs
}

private[cecstore] object Look {
  private val DoubtMs = 3600000L
}

/** A commit says what cannot be; who knows the file makes a CecLogException of it. */
private[cecstore] final class BadState(reason: String) extends Exception(reason)

private[cecstore] object QueueState {
  /** Of a queue's settings: the token of the one writer, of a queue that has one. docs/format.md §13. */
  val Writer = "writer"
  /** A commit at a multiple of one says what came since the last multiple of the next; of the last one, all. */
  private[queue] val SinceEvery = Seq(4L, 64L, 4096L)

  private val Widths = 1L +: SinceEvery.tail

  /** The commit since which commit `number` says what came, 0 for all there is; none where it does not say. */
  def sinceBase(number: Long): Option[Long] = if (number == 0 || number % SinceEvery.head != 0) None else
    Some(SinceEvery.tail.find(number % _ != 0).fold(0L)(wider => number - number % wider))

  /** The last commit up to `number` that says all there is, or 0. */
  def floorOf(number: Long): Long = number - number % SinceEvery.last

  /** From commit 0, or one that says all, up to the newest. Raises BadState. */
  def of(parts: Seq[LogObject]): QueueState = {
    val first = parts.head
    val nothing = QueueState(first.number, first.logId, first.commit, Vector.empty, Vector.empty, Map.empty)
    parts.foldLeft(nothing)(_.after(_))
  }
}
