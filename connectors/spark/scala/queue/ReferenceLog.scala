package org.apache.spark.sql.cecstore.queue

import java.io.FileNotFoundException
import java.nio.channels.FileChannel
import java.nio.file.{FileAlreadyExistsException, NoSuchFileException}
import java.security.SecureRandom
import scala.annotation.tailrec
import scala.collection.mutable
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.{BadFrame, DamagedLog, Format, SegmentHeader}
import org.apache.spark.sql.cecstore.local.LocalFiles

/** Another queue stands at this path now, or an older copy of this one, or none. */
private[cecstore] final class QueueReplaced(queue: String, message: String)
    extends CecLogException(message, named = Map("queue" -> queue)) {
  override def getCondition: String = "CEC_QUEUE_REPLACED"
}

/** There is no queue here. */
private[cecstore] final class NotAQueue(path: String, what: String)
    extends CecLogException(s"$path: $what", named = Map("path" -> path)) {
  override def getCondition: String = "CEC_NOT_A_QUEUE"
}

/** A commit that was the newest when a queue was read: by it the queue is known again. */
private[cecstore] final case class SeenCommit(logId: IndexedSeq[Byte], number: Long, salt: Long)

/**
 * The log of commits by reference: opened, followed and added to, by any number of processes at the same time.
 * docs/format.md §11. Keeps no state of the queue, so any thread may use it.
 */
private[cecstore] final class ReferenceLog(val store: Store) extends Logging {
  import ReferenceLog._
  private val mark = new CommitMark(store)
  private val isLocal = store.localRoot.nonEmpty
  @volatile private var provenNs = System.nanoTime
  /** The last commit that was read or made, by which its double is known. */
  @volatile private var last: Option[LogObject] = None
  /** Commit 0, where it was read. */
  @volatile private var maker: Option[LogObject] = None
  private val recent = new RecentCommits

  // -- reading ------------------------------------------------------------------------------

  /** The queue as it is now: at most eight requests, however long the history. Raises NotAQueue, CecLogException. */
  def open(): QueueState = {
    val number = newestNumber()
    val state = try stateAt(number) catch {
      case e: CecLogException =>
        // It may be a late writer's of another queue, which takes it back.
        Thread.sleep(Looks * LookPauseMs)
        val newest = newestNumber()
        if (newest == number) throw e
        stateAt(newest)
    }
    uptoMark(state, None)
  }

  /**
   * The queue as it is now, from what it was: one request for each commit since, and one. Proves the commit that it
   * began with: always on local disks; in a store where somebody is to commit behind it (`proving`), and once a minute.
   * Raises QueueReplaced, CecLogException.
   */
  def refresh(state: QueueState, proving: Boolean = false): QueueState = openedAnew(state) match {
    case Some(anew) => uptoMark(anew, None)
    case None =>
      val newest = followed(state, 0)
      if (isLocal || proving || System.nanoTime - provenNs > ProvenForNs) prove(state)
      uptoMark(newest, None)
  }

  /**
   * The state, or that of now where it was the newest an hour ago or longer: so commits behind it cannot be deleted yet.
   */
  def young(state: QueueState): QueueState = if (state.look.isOld) refresh(state) else state

  /**
   * The queue as it is now, where commits behind this state may be deleted by now. They are a day older than a later one
   * that says all; so nobody is asked where the state was the newest an hour ago.
   */
  private def openedAnew(state: QueueState): Option[QueueState] = if (!state.look.isOld) None else {
    val newest = newestNumber()
    val isSame = header(state.number).forall(isOf(_, state))
    val mayBeDeleted = QueueState.floorOf(newest) > state.number
    Option.when(mayBeDeleted && isSame)(stateAt(newest)).filter(_.logId == state.logId)
  }

  @tailrec private def followed(state: QueueState, looks: Int): QueueState = commit(state.number + 1, withSince = false) match {
    case None =>
      state.look.renew()
      state
    case Some(next) if next.logId == state.logId && next.previous.contains((state.number, state.salt)) =>
      followed(after(state, next), 0)
    case Some(next) =>
      prove(state)
      if (looks + 1 == Looks) {
        throw inconsistent(next.number, "a commit of another queue, or behind another than the one before it")
      }
      Thread.sleep(LookPauseMs)
      followed(state, looks + 1)
  }

  /** The state once the commits are there that the mark names. */
  @tailrec private def uptoMark(state: QueueState, before: Option[(Long, Long)]): QueueState =
    mark.newest(Some(state.logId)) match {
      case Some(slot) if slot.segment > state.number =>
        if (before.contains((slot.segment, state.number))) throw lost(state.number + 1, slot.segment)
        uptoMark(followed(state, 0), Some((slot.segment, state.number)))
      case Some(slot) if slot.segment == state.number && slot.salt != state.salt =>
        throw damaged(state.number, s"another commit than the one that ${mark.path} names")
      case _ => state
    }

  private def lost(number: Long, marked: Long): CecLogException = new CecLogException(
    s"${pathOf(number)}: the commit is missing: ${mark.path} says that the queue had $marked; restore it from a copy; " +
      s"to go on without what it committed, move ${Names.Mark} away", named = placeOf(number))

  private def placeOf(number: Long) = Map("path" -> pathOf(number), "commit" -> number.toString)

  /**
   * See that the queue that had this state stands here: one request of 128 bytes. Raises QueueReplaced, and
   * CecLogException where the commit is damaged or lost.
   */
  def prove(state: QueueState): Unit = prove(state.seen)

  /** The same, by the commit alone. */
  def prove(seen: SeenCommit): Unit = {
    val found = header(seen.number)
    if (found.isEmpty) mark.newest(Some(seen.logId)).filter(_.segment >= seen.number).foreach { slot =>
      throw lost(seen.number, slot.segment)
    }
    val what = found match {
      case None => Some("it was removed, made anew, or replaced by an older copy")
      case Some(other) if other.logId.toIndexedSeq != seen.logId => Some("another queue stands here now")
      case Some(other) if isDouble(other, seen) =>
        Some(s"another writer's is, behind the same commit; ${twoWinners(seen.number)}")
      case Some(other) if other.salt != seen.salt => Some("a copy that has gone on otherwise stands here now")
      case _ => None
    }
    what.foreach(reason => throw new QueueReplaced(store.url, s"${pathOf(seen.number)}: commit ${seen.number} of the queue " +
      s"that was opened is not here any more: $reason. Nothing was committed; open the queue again"))
    provenNs = System.nanoTime
  }

  /** Whether a commit there goes on from where the one that was seen does. */
  private def isDouble(there: SegmentHeader, seen: SeenCommit): Boolean = store.racing.nonEmpty &&
    there.salt != seen.salt && last.exists { known =>
      known.number == seen.number && known.salt == seen.salt &&
        known.previous.contains((there.prevSegment, there.prevSalt))
    }

  private def twoWinners(number: Long): String = s"the store has broken its promise: " +
    s"${store.racing.fold(store.url)(_.server)} let two writers make commit $number, and what one of them was told is " +
    "lost: stop all writers of this queue, and copy it to a store that makes each object once"

  /** The error for commits that do not fit each other; servers cause it, too. */
  private def inconsistent(number: Long, reason: String): CecLogException =
    if (store.racing.isEmpty) damaged(number, reason)
    else new CecLogException(s"${pathOf(number)}: damage at byte 0: $reason; unless files were put here by hand, " +
      twoWinners(number), named = placeOf(number))

  /** The record schema of the queue that had this state, as SCHEMA frames have it. */
  def schemaMessage(state: QueueState): Array[Byte] =
    maker.filter(_.logId == state.logId).getOrElse(neededCommit(0)).commit.schema
      .getOrElse(throw damaged(0, "the commit that makes the queue says nothing of its columns"))

  /** The frames of a segment, where they stand in a commit that was read lately. */
  def inlineRows(segment: Segment): Option[Array[Byte]] = recent.rows(segment)

  /** Salt and ends of a commit up to a state of this queue, mostly without a request; none as for [[kept]]. */
  def ends(number: Long, floor: Long): Option[CommitEnds] = {
    val mayBeDeleted = 0 < number && number < floor
    recent.ends(number).filterNot(_ => mayBeDeleted).orElse(kept(number, floor).map(recent.add))
  }

  /** One commit, if it is there. */
  def at(number: Long): Option[LogObject] = commit(number)

  /** A commit; none where it was deleted, being below the newest state's floor. Raises CecLogException. */
  def kept(number: Long, floor: Long): Option[LogObject] =
    commit(number).orElse(if (0 < number && number < floor) None else throw damaged(number, "a commit is missing"))

  /**
   * Whether a commit is there and has this salt: 128 bytes. One below the newest state's floor that is not there is
   * taken for deleted.
   */
  def has(behind: Behind, floor: Long): Boolean =
    header(behind.number).fold(0 < behind.number && behind.number < floor)(_.salt == behind.salt)

  /** The numbers of the commits that are there between commit 0 and this one. */
  def numbersBelow(floor: Long): Seq[Long] =
    store.list(Names.LogFolder).filter(each => each.isFolder && Names.isLogFolder(each.name)).flatMap { folder =>
      store.list(s"${Names.LogFolder}/${folder.name}").flatMap(each => Names.commitNumberOf(each.name))
    }.filter(number => 0 < number && number < floor).sorted

  /** When a commit was made, by the store's clock. Raises CecLogException. */
  def madeUs(number: Long): Long = try store.modifiedUs(Names.commit(number)) catch {
    case _: FileNotFoundException => throw damaged(number, "a commit is missing")
  }

  /** Whether this is still the queue that had this state: it may have been removed, and another made. One request. */
  def has(state: QueueState): Boolean = header(state.number).exists(isOf(_, state))

  private def isOf(found: SegmentHeader, state: QueueState): Boolean =
    found.logId.toIndexedSeq == state.logId && found.salt == state.salt

  private def header(number: Long): Option[SegmentHeader] = try {
    store.readIfThere(Names.commit(number), 0, Format.HeaderBytes).map(SegmentHeader.decode)
  } catch { case e: BadFrame => throw DamagedLog(pathOf(number), 0, e) }

  private def newestNumber(): Long = {
    val folders = store.list(Names.LogFolder).filter(each => each.isFolder && Names.isLogFolder(each.name)).map(_.name)
    folders.sorted.reverseIterator.flatMap { folder =>
      store.list(s"${Names.LogFolder}/$folder").flatMap(each => Names.commitNumberOf(each.name)).maxOption
    }.nextOption().getOrElse {
      mark.newest(None).foreach(slot => throw lost(slot.segment, slot.segment))
      throw new NotAQueue(store.url, s"no queue here (there is no commit in ${Names.LogFolder}/)")
    }
  }

  private def stateAt(number: Long): QueueState = {
    @tailrec def parts(at: Long, salt: Option[Long], found: List[LogObject]): List[LogObject] = {
      val next = part(at, salt)
      next.previous match {
        case Some((before, saltBefore)) if at != 0 => parts(before, Some(saltBefore), next :: found)
        case _ => next :: found
      }
    }
    val all = parts(number, None, Nil)
    all.find(_.logId != all.last.logId).foreach(stranger => throw damaged(stranger.number, "a commit of another queue"))
    val state = try QueueState.of(all) catch { case e: BadState => throw inconsistent(number, e.getMessage) }
    all.foreach(recent.add)
    state
  }

  /** The commit of this salt, with what came since an earlier one where it says that. None: whichever it is. */
  private def part(number: Long, salt: Option[Long]): LogObject = {
    val found = maker.filter(made => number == 0 && salt.contains(made.salt)).getOrElse(neededCommit(number))
    if (number == 0) maker = Some(found)
    if (!salt.forall(_ == found.salt)) {
      throw inconsistent(number, "another commit than the one that the queue has gone on from")
    }
    if (number != 0 && !found.previous.exists(_._1 == number - 1)) {
      throw damaged(number, "it does not name the commit before it")
    }
    found.atOnce
  }

  private def after(state: QueueState, next: LogObject): QueueState = {
    val now = try state.after(next) catch { case e: BadState => throw inconsistent(next.number, e.getMessage) }
    last = Some(next)
    recent.add(next)
    now
  }

  private def commit(number: Long, withSince: Boolean = true): Option[LogObject] =
    store.readIfThere(Names.commit(number)).map { bytes =>
      val found = LogObject.decode(bytes, pathOf(number), number, withSince)
      recent.addRows(found, bytes)
      found
    }

  private def neededCommit(number: Long): LogObject =
    commit(number).getOrElse(throw damaged(number, "a commit is missing"))

  private def pathOf(number: Long): String = s"${store.url}/${Names.commit(number)}"
  private def damaged(number: Long, reason: String): CecLogException = DamagedLog(pathOf(number), 0, reason)

  // -- writing ------------------------------------------------------------------------------

  /** See that a number is given once. Raises CecLogException where the store lets two writers make the same object. */
  def proveCreates(): Unit = StoreProof.require(store)

  /** Make the queue by its commit 0. Raises FileAlreadyExistsException where there is one. */
  def make(first: LogObject): QueueState = {
    require(first.number == 0)
    proveCreates()
    val made = first.copy(salt = random.nextLong(), previous = None)
    val parts = made.encode()
    create(Names.commit(0), parts)
    val state = QueueState.of(Seq(made))
    noting { open =>
      prove(state)
      note(open, made, parts)
    }
    state
  }

  /**
   * Add a commit, and return the queue after it. `next` makes it for the queue as it then is, and is asked anew each
   * time that somebody else was quicker; none: there is nothing to commit (any more). Raises QueueReplaced where this
   * queue does not stand here any more, and CecLogException where it was not made, or nobody can say: open again and
   * look.
   */
  @tailrec def add(state: QueueState)(next: QueueState => Option[LogObject]): QueueState = next(state) match {
    case None => state
    case _ if state.look.isOld => add(refresh(state))(next)
    case Some(wanted) =>
      require(wanted.number == state.number + 1)
      proveCreates()
      val salted = wanted.copy(salt = random.nextLong(), previous = Some((state.number, state.salt)))
      val now = state.after(salted)
      val made = salted.copy(since = now.since)
      if (isCreated(state, made)) {
        last = Some(made)
        now
      } else {
        val newer = refresh(state, proving = true)
        if (newer.number == state.number) {
          throw new CecLogException(s"${pathOf(made.number)}: is there, and cannot be read", named = placeOf(made.number))
        }
        add(newer)(next)
      }
  }

  /**
   * Put the name of a commit on disk, and so of all before it, before anybody relies on them: whoever made it may have died, or have
   * failed, before it was.
   */
  def settle(state: QueueState): Unit = for (root <- store.localRoot) {
    try LocalFiles.syncNames(root.resolve(Names.logFolder(state.number))) catch {
      case e: NoSuchFileException => prove(state); throw e // raises QueueReplaced where it does not stand there any more
    }
  }

  /**
   * Create the commit behind a state, proven; false: the number is taken. The proof counts once the commit is there,
   * since the queue may go until then. On local disks another one before costs little, and leaves a queue that is there
   * undisturbed.
   */
  private def isCreated(state: QueueState, made: LogObject): Boolean = {
    if (store.localRoot.nonEmpty) {
      prove(state)
      // The one before is in another folder.
      if (Names.logFolder(state.number) != Names.logFolder(made.number)) settle(state)
    }
    val parts = made.encode()
    noting { open =>
      val isMade = try { create(Names.commit(made.number), parts); true } catch {
        case _: FileAlreadyExistsException => false
      }
      // Its number may have been free because it was deleted.
      if (isMade && openedAnew(state).nonEmpty) {
        takeBack(made)
        false
      } else {
        if (isMade) {
          try prove(state) catch { case e: QueueReplaced => takeBack(made); throw e }
          note(open, made, parts)
        }
        isMade
      }
    }
  }

  private def noting[A](work: Option[FileChannel] => A): A = {
    val open = mark.open()
    try work(open) finally open.foreach(_.close())
  }

  private def note(open: Option[FileChannel], made: LogObject, parts: Seq[Array[Byte]]): Unit =
    open.foreach(mark.write(_, made.logId, made.number, made.salt, parts.map(_.length.toLong).sum))

  /** Delete a commit that has come into the place of its queue: nobody goes on from it. */
  private def takeBack(made: LogObject): Unit =
    if (header(made.number).exists(_.salt == made.salt)) store.delete(Seq(Names.commit(made.number)))

  /** Again where it was certainly not made: the bytes are the same, so that an answer that comes late does no harm. */
  private def create(name: String, parts: Seq[Array[Byte]]): Unit = {
    @tailrec def attempt(number: Int): Unit = {
      val failure = try { store.create(name, parts.iterator); None } catch {
        case e: NotMade if number < Attempts => Some(e)
      }
      if (failure.nonEmpty) {
        // Half of it at random, so that writers who were refused together come back apart.
        Thread.sleep((math.min(PauseMsMax, FirstPauseMs << number) * (0.5 + random.nextDouble() / 2)).toLong)
        attempt(number + 1)
      }
    }
    attempt(1)
  }
}

/** Of the last commits that were read, what readers ask for next: their rows, and where they end. For any thread. */
private final class RecentCommits {
  private val bytesMax = 8L << 20
  private val endsMax = 4096
  private val objects = mutable.LinkedHashMap.empty[String, Array[Byte]]
  private val allEnds = mutable.LinkedHashMap.empty[Long, CommitEnds]
  private var size = 0L

  def add(commit: LogObject): CommitEnds = synchronized {
    val added = CommitEnds(commit.salt, commit.commit.ends.toIndexedSeq)
    allEnds(commit.number) = added
    if (allEnds.size > endsMax) allEnds.remove(allEnds.head._1)
    added
  }

  def ends(number: Long): Option[CommitEnds] = synchronized(allEnds.get(number))

  def addRows(commit: LogObject, bytes: Array[Byte]): Unit = {
    val name = Names.commit(commit.number)
    if (commit.segments.exists(_.file == name)) synchronized {
      size += bytes.length - objects.put(name, bytes).fold(0)(_.length)
      while (size > bytesMax) objects.remove(objects.head._1).foreach(size -= _.length)
    }
  }

  def rows(segment: Segment): Option[Array[Byte]] = synchronized(objects.get(segment.file)).map { bytes =>
    bytes.slice(segment.byte.toInt, (segment.byte + segment.bytes).toInt)
  }
}

/** A commit of a history that is known, without its segments. */
private[cecstore] final case class CommitEnds(salt: Long, ends: IndexedSeq[Long])

private[cecstore] object ReferenceLog {
  private val Attempts = 8
  /** In a store, a follower that finds nothing new proves its newest commit this often. */
  private val ProvenForNs = 60000000000L
  /** At a commit that may be a late writer's of another queue, which takes it back. */
  private val Looks = 8
  private val LookPauseMs = 50L
  private val FirstPauseMs = 50L
  private val PauseMsMax = 5000L
  private val random = new SecureRandom
}

/**
 * The commit with the last record before a position, by which its history is known again: commits have random salts, so a
 * copy of the queue that has gone on otherwise has another there.
 */
private[cecstore] final case class Behind(number: Long, salt: Long) {
  override def toString: String = f"$number-$salt%016x"
}

private[cecstore] object Behind {
  private val Text = "(\\d{1,18})-([0-9a-f]{16})".r

  /** What `toString` wrote; none for anything else. */
  def parse(text: String): Option[Behind] = text match {
    case Text(number, salt) => Some(Behind(number.toLong, java.lang.Long.parseUnsignedLong(salt, 16)))
    case _ => None
  }
}

/**
 * Finds the commit that holds the last record before a position. Ends never fall from one commit to the next, so it is
 * found by halves; a reader that goes on asks for none or few. For one thread.
 */
private[cecstore] final class CommitSearch(log: ReferenceLog) {
  /** Commits between which the last position was found. */
  private var known = Set.empty[Long]

  /** The first commit up to `state`, of those that are left, with every record below these offsets. */
  def behind(state: QueueState, offsets: Map[Int, Long]): Behind = {
    val salts = mutable.LongMap(state.number -> state.salt)
    // Of one that was deleted it is not known.
    def isReached(number: Long): Boolean = log.ends(number, state.floor).exists { commit =>
      salts(number) = commit.salt
      offsets.forall { case (n, offset) => offset <= commit.ends.lift(n).getOrElse(0L) }
    }
    val before = known.filter(_ < state.number)
    var low = before.filterNot(isReached).maxOption.getOrElse(-1L)
    var high = before.filter(_ > low).minOption.getOrElse(state.number)
    def look(middle: Long): Boolean = {
      val isIt = isReached(middle)
      if (isIt) high = middle else low = middle
      isIt
    }
    // A reader that goes on is near the last position, a new one near the end.
    val isKnownBelow = low >= 0
    var step = 1L
    def next = if (isKnownBelow) low + step else high - step
    while (low < next && next < high && look(next) != isKnownBelow) step *= 2
    while (high - low > 1) look((low + high) / 2)
    known = Set(low, high) - -1L
    Behind(high, salts(high))
  }
}
