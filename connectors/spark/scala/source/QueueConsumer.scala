package org.apache.spark.sql.cecstore.source

import java.nio.file.FileAlreadyExistsException
import java.security.SecureRandom
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.RefusedOption
import org.apache.spark.sql.cecstore.queue.{Acknowledgement, LogObject, Operation, QueueState, ReferenceLog}
import org.apache.spark.sql.cecstore.queue.{Names, QueueReplaced, Registration, Store}

/** Records that a consumer needs are gone. */
private[cecstore] final class ConsumerBehind(queue: String, consumer: String, what: String)
    extends CecLogException(s"$queue: $what", named = Map("queue" -> queue, "consumer" -> consumer)) {
  override def getCondition: String = "CEC_CONSUMER_BEHIND"
}

/**
 * Acts under a consumer's name, for all partitions of a queue: no trim takes what it needs. Whoever acts under the
 * name later takes over from it. docs/format.md §11. For one thread.
 *
 * @param start where one that is new begins, by partition; elsewhere at the oldest record
 * @param done offsets below which it needs nothing, whatever it has acknowledged
 */
private[cecstore] final class QueueConsumer(store: Store, name: String, start: Map[Int, Long], done: Map[Int, Long] = Map.empty) {
  import QueueConsumer._

  if (!Names.isGiven(name)) throw new RefusedOption("consumer",
    s"consumer=$name: a name is 1 to 100 of A–Z a–z 0–9 . _ -, the first a letter or a digit and the last no dot")
  private val log = new ReferenceLog(store)
  private var state = registered(log.open())
  private val Registration(starts, first) = Registration.of(store, state, name)
  private var said: Acknowledgement = takenOver()
  checkWhatIsNeeded()

  /** The queue, with this consumer in its settings. */
  private def registered(before: QueueState): QueueState = log.add(before) { state =>
    val commit = state.commit
    if (Registration.isThere(state, name)) None
    else {
      val offsets = commit.starts.indices.map(n => start.getOrElse(n, commit.starts(n)))
      offsets.indices.find(n => offsets(n) < commit.starts(n) || offsets(n) > commit.ends(n)).foreach { n =>
        throw new CecLogException(s"${store.url}: consumer '$name' cannot start at ${offsets(n)} of partition $n, " +
          s"which is not in ${commit.starts(n)} … ${commit.ends(n)}",
          named = Map("queue" -> store.url, "consumer" -> name, "partition" -> n.toString))
      }
      val made = Registration(offsets, Registration.newestNumber(store, name) + Registration.FirstStep)
      Some(withSettings(state, commit.settings.updated(Registration.Setting + name, made.encoded)))
    }
  }

  private def ofAll(offsets: IndexedSeq[Long]): IndexedSeq[Long] = Registration.ofAll(offsets, state)

  /** What counts, under a number of this holder's. */
  private def takenOver(): Acknowledgement = {
    val holder = new Array[Byte](16)
    random.nextBytes(holder)
    var found: Acknowledgement = null
    while (found == null) {
      val wanted = Registration.acknowledged(store, state, name, first) match {
        case Some(last) => last.copy(number = last.number + 1, holder = holder.toIndexedSeq,
          received = ofAll(last.received), effectsSaved = ofAll(last.effectsSaved))
        case None => Acknowledgement(state.logId, first, holder.toIndexedSeq, nowUs, starts, starts)
      }
      if (isCreated(wanted)) {
        isNewest(wanted.number)
        found = wanted
      }
    }
    found
  }

  private def isCreated(wanted: Acknowledgement): Boolean = try {
    store.create(Registration.objectOf(name, wanted.number), Iterator(wanted.encoded))
    true
  } catch { case _: FileAlreadyExistsException => false }

  /** Whether there is none behind this number; those before it count no more, and go. */
  private def isNewest(number: Long): Boolean = {
    val all = Registration.numbers(store, name)
    store.delete(all.filter(_ < number).map(Registration.objectOf(name, _)))
    !all.exists(_ > number)
  }

  private def checkWhatIsNeeded(): Unit = {
    val oldest = state.commit.starts
    val ends = state.commit.ends
    def end(n: Int): Long = ends.lift(n).getOrElse(0L)
    said.effectsSaved.indices.find(n => said.effectsSaved(n) > end(n)).foreach { n =>
      throw new ConsumerBehind(store.url, name, s"consumer '$name' has received records of partition $n up to " +
        s"${said.effectsSaved(n)}, and the queue has them up to ${end(n)}: an older copy of the queue was put back. " +
        "Drop the consumer and register it anew")
    }
    def needed(n: Int): Long = math.max(said.effectsSaved(n), done.getOrElse(n, 0L))
    oldest.indices.find(n => needed(n) < oldest(n)).foreach { n =>
      throw new ConsumerBehind(store.url, name, s"consumer '$name' needs records of partition $n from " +
        s"${needed(n)} on, and the oldest is ${oldest(n)}: they were deleted, as the queue's retention or " +
        "a trim said. Drop the consumer and register it anew")
    }
  }

  /** The effects of everything below are saved. Offsets below those said before change nothing. */
  def acknowledge(ends: Map[Int, Long]): Unit = {
    state = log.young(state)
    if (ends.exists { case (n, end) => end > state.commit.ends.lift(n).getOrElse(0L) }) state = log.refresh(state)
    ends.find { case (n, end) => end > state.commit.ends.lift(n).getOrElse(-1L) }.foreach { case (n, end) =>
      throw new CecLogException(s"${store.url}: consumer '$name' acknowledges $end of partition $n, whose end is " +
        state.commit.ends.lift(n).fold("not there")(_.toString),
        named = Map("queue" -> store.url, "consumer" -> name, "partition" -> n.toString))
    }
    def raised(before: IndexedSeq[Long]) =
      ofAll(before).zipWithIndex.map { case (old, n) => math.max(old, ends.getOrElse(n, 0L)) }
    val now = said.copy(number = said.number + 1, acknowledgedUs = nowUs, received = raised(said.received),
      effectsSaved = raised(said.effectsSaved))
    if (now.received != said.received || now.effectsSaved != said.effectsSaved) {
      def fenced = new CecLogException(
        s"${store.url}: somebody has taken over consumer '$name'; nothing more is acknowledged here",
        named = Map("queue" -> store.url, "consumer" -> name))
      log.settle(state)
      if (!isCreated(now)) throw fenced
      try log.prove(state) catch {
        case e: QueueReplaced =>
          store.delete(Seq(Registration.objectOf(name, now.number)))
          throw e
      }
      if (!isNewest(now.number)) throw fenced
      said = now
    }
  }
}

private[cecstore] object QueueConsumer extends Logging {
  private val random = new SecureRandom

  /** One of this name; anew where what it needs is gone and loss is allowed. */
  def hold(store: Store, name: String, start: Map[Int, Long], done: Map[Int, Long], failOnDataLoss: Boolean): QueueConsumer =
    try new QueueConsumer(store, name, start, done) catch {
      case e: ConsumerBehind if !failOnDataLoss =>
        logWarning(s"cec: ${e.getMessage}; going on without what is missing")
        drop(store, name)
        new QueueConsumer(store, name, start, done)
    }

  /** The queue keeps nothing for it any more. */
  def drop(store: Store, name: String): Unit = {
    val log = new ReferenceLog(store)
    log.add(log.open()) { state =>
      val left = state.commit.settings - (Registration.Setting + name)
      Option.when(left.size < state.commit.settings.size)(withSettings(state, left))
    }
    // Only now: as long as it was registered they said what may be trimmed. The newest stays, so that numbers go on: whoever has
    // acted under the name till now finds those of the next one taken.
    store.delete(Registration.numbers(store, name).sorted.dropRight(1).map(Registration.objectOf(name, _)))
  }

  private def nowUs: Long = System.currentTimeMillis() * 1000

  /** A commit of settings, all of them. */
  private def withSettings(state: QueueState, settings: Map[String, String]): LogObject =
    state.next(Operation.set, IndexedSeq.empty, nowUs, settings, state.commit.starts)
}
