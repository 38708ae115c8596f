package org.apache.spark.sql.cecstore.state

import java.io.IOException
import java.util.ArrayDeque
import java.util.concurrent.atomic.AtomicLong
import scala.jdk.CollectionConverters._
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.Rows
import org.apache.spark.sql.cecstore.keys.RowsTable
import org.apache.spark.sql.cecstore.local.LocalSpace

/**
 * How much of their rows and indexes the states of this process keep in the heap together. A state that finds more there
 * puts its own into local files, but for what is not worth a file: rows first, and indexes of many keys if that is not enough.
 *
 * @param bytesMax with 0, all rows of versions that are over go there, and all such indexes
 */
private[cecstore] final case class RowMemory(bytesMax: Long, space: () => LocalSpace = () => LocalSpace.ofProcess) {
  /** A state keeps so many bytes in any case. */
  private[state] val least: Long = if (bytesMax == 0) 0 else RowMemory.LeastBytes
  private[state] def isFull: Boolean = !hasRoom(0)
  private[state] def hasRoom(bytes: Long): Boolean = RowMemory.held.get + bytes <= bytesMax

  /** Do what needs local files; raises [[org.apache.spark.sql.cecstore.CecLogException]] where they have no room. */
  private[state] def placing[A](work: => A): A = try work catch { case e: IOException => throw new CecLogException(e.getMessage, e) }
}

private[cecstore] object RowMemory {
  /** An eighth of the heap: Spark takes more than half of it for batches, and keys in order are beside the rows. */
  val DefaultBytes: Long = Runtime.getRuntime.maxMemory / 8
  private val LeastBytes = 256L << 10
  /** Rows that are about to be written together: the oldest are dropped first, and with them their extent. */
  private[state] val ExtentBytes: Long = 4L << 20
  private[state] val held = new AtomicLong
  /** Bytes of rows and indexes that all states of this process have in the heap. */
  private[cecstore] def heldBytes: Long = held.get
  val Default: RowMemory = RowMemory(DefaultBytes)

  /** What one state holds, counted with those of all others until it is gone. */
  private[state] final class Share extends Runnable {
    private var bytes_ = 0L
    def bytes: Long = bytes_
    def add(more: Long): Unit = { bytes_ += more; held.addAndGet(more) }
    override def run(): Unit = add(-bytes_)
  }
}

/** Parts of a state that are complete and in the heap, oldest first, and their way into local files. */
private[state] final class HeapParts(rows: RowsTable, memory: RowMemory) {
  private val parts = new ArrayDeque[Rows]
  private val share = new RowMemory.Share
  LocalSpace.cleaner.register(this, share)

  def addNewest(part: Rows): Unit = if (part.movableBytes > 0) { parts.addLast(part); share.add(part.movableBytes) }
  def addOldest(part: Rows): Unit = if (part.movableBytes > 0) { parts.addFirst(part); share.add(part.movableBytes) }

  /** Those are gone. */
  def dropBelow(id: Int): Unit = while (!parts.isEmpty && parts.peekFirst.id < id) share.add(-parts.pollFirst().movableBytes)

  /** The state is gone. */
  def letGo(): Unit = { parts.clear(); share.run() }

  /**
   * Put all into local files, if the heap holds too much. What does not get there stays as it is.
   * Raises [[org.apache.spark.sql.cecstore.CecLogException]].
   */
  def makeRoom(): Unit =
    if (memory.isFull && share.bytes > memory.least) while (!parts.isEmpty) moveSome()

  /** These rows in a local file, if the heap has no room for them beside what it holds; they are not counted here. */
  def placed(part: Rows): Rows =
    if (!part.isInHeap || memory.hasRoom(part.usedBytes) || part.usedBytes <= memory.least) part
    else moved(Seq(part)).head

  /** As many of the oldest as one extent should have. */
  private def moveSome(): Unit = {
    var bytes = 0L
    val some = parts.asScala.takeWhile { part => val isRoom = bytes < RowMemory.ExtentBytes; bytes += part.movableBytes; isRoom }.toVector
    moved(some)
    some.foreach(_ => share.add(-parts.pollFirst().movableBytes))
  }

  private def moved(some: Seq[Rows]): Seq[Rows] = {
    val pieces = some.flatMap(_.localParts)
    val (extent, addresses) = memory.placing(memory.space().write(pieces))
    val all = some.zip(addresses.grouped(pieces.size / some.size)).map { case (part, places) => part.movedTo(extent, places) }
    (1 until all.size).foreach(_ => extent.retain())
    all.foreach(rows.put)
    all
  }
}
