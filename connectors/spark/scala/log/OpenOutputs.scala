package org.apache.spark.sql.cecstore.log

import java.util.LinkedHashMap
import scala.jdk.CollectionConverters._

/** A stream that may be closed between two writes; whoever writes then begins another segment. */
private[cecstore] trait Leavable {
  /** Close it, unless somebody is about to write. May take long. */
  def leave(): Unit
}

/**
 * The streams to remote segments that this process has open, the longest unused first: each holds threads and a
 * lease, and an executor may have thousands of stores. Tasks and maintenance threads call it; streams are closed
 * outside its lock.
 */
private[cecstore] final class OpenOutputs(max: Int, idleNs: Long, nowNs: () => Long) {
  private val used = new LinkedHashMap[Leavable, Long](16, 0.75f, true)

  /** It has just been written. */
  def touch(output: Leavable): Unit = {
    val oldest = synchronized {
      used.put(output, nowNs())
      if (used.size > max) Some(used.keySet.iterator.next()) else None
    }
    oldest.foreach(leave)
  }

  /** Close what nobody has written to for a while. */
  def leaveIdle(): Unit = synchronized {
    used.asScala.takeWhile { case (_, at) => nowNs() - at >= idleNs }.keys.toVector
  }.foreach(leave)

  def remove(output: Leavable): Unit = synchronized(used.remove(output))

  private def leave(output: Leavable): Unit = { remove(output); output.leave() }
}

private[cecstore] object OpenOutputs {
  /** A stream to HDFS has two threads of its own. */
  private val Max = 128
  private val IdleNs = 60L * 1000 * 1000 * 1000
  val ofProcess = new OpenOutputs(Max, IdleNs, () => System.nanoTime())
}
