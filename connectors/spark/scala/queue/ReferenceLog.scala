package org.apache.spark.sql.cecstore.queue

import java.io.FileNotFoundException
import java.nio.file.FileAlreadyExistsException
import java.security.SecureRandom
import scala.annotation.tailrec
import scala.util.control.NonFatal
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.{BadFrame, Format, SegmentHeader, WholeSegment}

/** There is no queue here. */
private[cecstore] final class NotAQueue(message: String) extends CecLogException(message) {
  override def getCondition: String = "CEC_NOT_A_QUEUE"
}

/**
 * The log of commits by reference: opened, followed and added to, by any number of processes at the same time.
 * docs/format.md §12. Holds nothing but the store, so any thread may use it.
 */
private[cecstore] final class ReferenceLog(store: Store) extends Logging {
  import ReferenceLog._

  // -- reading ------------------------------------------------------------------------------

  /** The queue as it is now: at most nine requests, however long the history. Raises NotAQueue, CecLogException. */
  def open(): QueueState = stateAt(newestNumber())

  /** The queue as it is now, from what it was: one request for each commit since, and one. */
  @tailrec def refresh(state: QueueState): QueueState = commit(state.number + 1) match {
    case Some(next) => refresh(after(state, next))
    case None => state
  }

  /** The commit that made the queue. */
  def first(): LogObject = neededCommit(0)

  /** The queue's record schema, as SCHEMA frames have it. */
  def schemaMessage(): Array[Byte] =
    first().commit.schema.getOrElse(throw damaged(0, "the commit that makes the queue says nothing of its columns"))

  /** One commit, if it is there. */
  def at(number: Long): Option[LogObject] = commit(number)

  /** When a commit was made, by its writer's clock. Raises CecLogException. */
  def createdUs(number: Long): Long =
    header(number).getOrElse(throw damaged(number, "a commit is missing")).createdUs

  /** Whether this is still the queue that had this state: it may have been removed, and another made. One request. */
  def has(state: QueueState): Boolean = header(state.number).exists(_.logId.toIndexedSeq == state.logId)

  private def header(number: Long): Option[SegmentHeader] = try {
    Some(SegmentHeader.decode(store.read(Names.commit(number), 0, Format.HeaderBytes)))
  } catch {
    case _: FileNotFoundException => None
    case e: BadFrame => throw damaged(number, e.reason)
  }

  private def newestNumber(): Long = {
    val folders = store.list(Names.LogFolder).filter(each => each.isFolder && Names.isLogFolder(each.name)).map(_.name)
    folders.sorted.reverseIterator.flatMap { folder =>
      store.list(s"${Names.LogFolder}/$folder").flatMap(each => Names.commitNumberOf(each.name)).maxOption
    }.nextOption().getOrElse(throw new NotAQueue(
      s"${store.url}: no queue here (there is no commit in ${Names.LogFolder}/)"))
  }

  private def stateAt(number: Long): QueueState = {
    @tailrec def parts(at: Long, found: List[LogObject]): List[LogObject] = {
      val part = summary(at).getOrElse(neededCommit(at))
      val base = if (part.isSummary) QueueState.summaryBase(at).get else at - 1
      if (at == 0 || part.isSummary && base == 0) part :: found else parts(base, part :: found)
    }
    val all = parts(number, Nil)
    all.find(_.logId != all.head.logId).foreach(stranger => throw damaged(stranger.number, "a commit of another queue"))
    try QueueState.of(all) catch { case e: BadState => throw damaged(number, e.getMessage) }
  }

  private def after(state: QueueState, next: LogObject): QueueState = {
    if (next.logId != state.logId) throw damaged(next.number, "a commit of another queue")
    try state.after(next) catch { case e: BadState => throw damaged(next.number, e.getMessage) }
  }

  /** None where none is due, or its writer did not come to it. */
  private def summary(number: Long): Option[LogObject] = QueueState.summaryBase(number).flatMap { _ =>
    val name = Names.summary(number)
    read(name).map(LogObject.decode(_, s"${store.url}/$name", number, isSummary = true))
  }

  private def commit(number: Long): Option[LogObject] =
    read(Names.commit(number)).map(LogObject.decode(_, pathOf(number), number))

  private def neededCommit(number: Long): LogObject =
    commit(number).getOrElse(throw damaged(number, "a commit is missing"))

  private def read(name: String): Option[Array[Byte]] =
    try Some(store.read(name)) catch { case _: FileNotFoundException => None }

  private def pathOf(number: Long): String = s"${store.url}/${Names.commit(number)}"
  private def damaged(number: Long, reason: String): CecLogException = WholeSegment.damaged(pathOf(number), 0, reason)

  // -- writing ------------------------------------------------------------------------------

  /** Make the queue by its commit 0. Raises FileAlreadyExistsException where there is one. */
  def make(first: LogObject): QueueState = {
    require(first.number == 0)
    create(Names.commit(0), first.encode(random.nextLong()))
    QueueState.of(Seq(first))
  }

  /**
   * Add a commit, and return the queue after it. `next` makes it for the queue as it then is, and is asked anew each
   * time that somebody else was quicker; none: there is nothing to commit (any more). Raises CecLogException where it
   * was not made, or nobody can say: open again and look.
   */
  @tailrec def add(state: QueueState)(next: QueueState => Option[LogObject]): QueueState = next(state) match {
    case None => state
    case Some(made) =>
      require(made.number == state.number + 1)
      if (isCreated(made)) {
        val now = after(state, made)
        summarise(now, made.createdUs)
        now
      } else {
        val newer = refresh(state)
        if (newer.number == state.number) {
          throw new CecLogException(s"${pathOf(made.number)}: is there, and cannot be read")
        }
        add(newer)(next)
      }
  }

  private def isCreated(made: LogObject): Boolean = try {
    create(Names.commit(made.number), made.encode(random.nextLong()))
    true
  } catch { case _: FileAlreadyExistsException => false }

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

  private def summarise(state: QueueState, createdUs: Long): Unit = try state.summary(createdUs).foreach { due =>
    create(Names.summary(state.number), due.encode(random.nextLong()))
  } catch {
    case NonFatal(e) =>
      logWarning(s"cec: ${store.url}/${Names.summary(state.number)}: no summary: $e; readers do without")
  }
}

private[cecstore] object ReferenceLog {
  private val Attempts = 8
  private val FirstPauseMs = 50L
  private val PauseMsMax = 5000L
  private val random = new SecureRandom
}
