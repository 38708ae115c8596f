package org.apache.spark.sql.cecstore.queue

import java.io.FileNotFoundException
import scala.annotation.tailrec
import scala.jdk.CollectionConverters._
import scala.util.Try
import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.sql.cecstore.format.{BadFrame, DamagedLog}

/**
 * Who reads a queue of many partitions, as its settings have it. docs/format.md §11.
 *
 * @param starts an offset of each partition
 * @param first the number of the first acknowledgement that counts: one that was dropped may have left some
 */
private[cecstore] final case class Registration(starts: IndexedSeq[Long], first: Long) {
  def encoded: String = s"""{"starts": ${starts.mkString("[", ", ", "]")}, "first": $first}"""
}

private[cecstore] object Registration {
  /** Before a consumer's name, among the queue's settings. */
  val Setting = "consumer/"
  /**
   * How far the first number that counts is behind the last one there is: whoever acts under the name while somebody else drops it and
   * registers it anew comes to none that counts.
   */
  val FirstStep: Long = 1L << 20
  private val json = new ObjectMapper
  private val Number = """(\d{20})\.ack""".r

  def isThere(state: QueueState, name: String): Boolean = state.commit.settings.contains(Setting + name)

  /** Of a consumer that is registered. Raises CecLogException where the newest commit says what cannot be. */
  def of(store: Store, state: QueueState, name: String): Registration = {
    val text = state.commit.settings(Setting + name)
    Try {
      val said = json.readTree(text)
      val starts = said.required("starts").asScala.map(_.longValue).toIndexedSeq
      Registration(ofAll(starts, state), said.required("first").longValue)
    }.getOrElse(throw DamagedLog(
      s"${store.url}/${Names.commit(state.number)}", 0, s"no offsets in $Setting$name: $text"))
  }

  /** A consumer needs all of a partition that was added later. */
  def ofAll(offsets: IndexedSeq[Long], state: QueueState): IndexedSeq[Long] =
    offsets.padTo(state.commit.ends.length, 0L)

  private def folderOf(name: String): String = s"${Names.ConsumersFolder}/$name"
  def objectOf(name: String, number: Long): String = f"${folderOf(name)}/$number%020d.ack"

  /** Of a consumer's acknowledgements, those that count no more among them. */
  def numbers(store: Store, name: String): Seq[Long] = store.list(folderOf(name)).flatMap(_.name match {
    case Number(digits) => digits.toLongOption
    case _ => None
  })

  /** Of a consumer's acknowledgements; -1 where there is none. */
  def newestNumber(store: Store, name: String): Long = numbers(store, name).maxOption.getOrElse(-1L)

  /** The newest acknowledgement that counts, of number `first` or above. Raises CecLogException where it is damaged. */
  @tailrec def acknowledged(store: Store, state: QueueState, name: String, first: Long): Option[Acknowledgement] = {
    val number = newestNumber(store, name)
    if (number < first) None
    else read(store, state, objectOf(name, number), number) match {
      case None => acknowledged(store, state, name, first) // there is a newer one
      case found => found
    }
  }

  private def read(store: Store, state: QueueState, file: String, number: Long): Option[Acknowledgement] = {
    val path = s"${store.url}/$file"
    try {
      val found = Acknowledgement.decode(store.read(file))
      if (found.logId != state.logId) throw DamagedLog(path, 16, "the acknowledgement belongs to another queue")
      if (found.number != number) throw DamagedLog(path, 32, s"it is number ${found.number}")
      Some(found)
    } catch {
      case e: BadFrame => throw DamagedLog(path, 0, e)
      case _: FileNotFoundException => None
    }
  }

  /** From where on each consumer needs the records of each partition. Raises CecLogException. */
  def effectsSaved(store: Store, state: QueueState): Seq[IndexedSeq[Long]] =
    state.commit.settings.keys.filter(_.startsWith(Setting)).toSeq.sorted.map { key =>
      val name = key.stripPrefix(Setting)
      val registration = of(store, state, name)
      acknowledged(store, state, name, registration.first)
        .fold(registration.starts)(said => ofAll(said.effectsSaved, state))
    }
}
