package org.apache.spark.sql.cecstore.queue

import java.security.SecureRandom

/** Names of objects below a queue, as `cec_store/storage/names.py` builds them. */
private[cecstore] object Names {
  val LogFolder = "log"
  /** What notes the newest commit a second time. */
  val Mark = "log/mark"
  val DataFolder = "data"
  val ConsumersFolder = "consumers"
  /** What stands right below a queue. */
  val OfQueue: Set[String] = Set(LogFolder, DataFolder, ConsumersFolder, "index")
  /** Where objects are only made once the queue has its first commit. */
  val MadeLater: Seq[String] = Seq(DataFolder, ConsumersFolder)
  private val CommitsPerFolder = 1000
  private val Folder = """\d{17}""".r
  private val Probe = """probe-[0-9a-f]{32}\.tmp""".r
  private val Given = "[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?".r
  private val CommitName = """(\d{20})\.commit""".r

  /** Whether a consumer or a writer may have this name. */
  def isGiven(name: String): Boolean = Given.matches(name)
  def logFolder(number: Long): String = f"$LogFolder/${number / CommitsPerFolder}%017d"
  def commit(number: Long): String = f"${logFolder(number)}/$number%020d.commit"
  /** An object that shows what a store does, and is deleted at once. */
  def probe(): String = f"probe-${random.nextLong()}%016x${random.nextLong()}%016x.tmp"
  /** The name of a probe: that of another writer, or one that was killed and has left it. */
  def isProbe(name: String): Boolean = Probe.matches(name)
  private val random = new SecureRandom
  def isLogFolder(name: String): Boolean = Folder.matches(name)

  /** The number in the last part of a commit's name. */
  def commitNumberOf(name: String): Option[Long] = name match {
    case CommitName(digits) => digits.toLongOption
    case _ => None
  }

  /** What the tasks of a batch make. */
  def batchFolder(query: String, batch: Long): String = s"$DataFolder/$query/$batch"
  def segment(query: String, batch: Long, partition: Int, id: Long): String =
    f"${batchFolder(query, batch)}/$partition%05d-$id%020d.seg"
}
