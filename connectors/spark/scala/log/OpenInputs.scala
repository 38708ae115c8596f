package org.apache.spark.sql.cecstore.log

import java.io.{Closeable, FileNotFoundException}
import java.nio.file.NoSuchFileException
import java.util.{LinkedHashMap, Map => JavaMap}
import scala.jdk.CollectionConverters._
import scala.util.Using
import org.apache.spark.sql.cecstore.CecLogException

/** The segments that one reader of a log has open: a few at a time, however many it looks into. For one thread. */
private[log] final class OpenInputs(folder: SegmentFolder) extends Closeable {
  private val inputs = new LinkedHashMap[Long, SegmentInput](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JavaMap.Entry[Long, SegmentInput]): Boolean = {
      val isTooMany = size > OpenInputs.Max
      if (isTooMany) eldest.getValue.close()
      isTooMany
    }
  }

  def pathOf(id: Long): String = folder.pathOf(id)

  /** Raises CecLogException where the segment is gone. */
  def apply(id: Long): SegmentInput = {
    val known = inputs.get(id)
    if (known != null) return known
    val input = try folder.open(id) catch {
      case e @ (_: FileNotFoundException | _: NoSuchFileException) =>
        throw new CecLogException(s"${pathOf(id)}: the segment is missing", e, Map("path" -> pathOf(id)))
    }
    inputs.put(id, input)
    input
  }

  /** End what a dead writer has left open; true if that was to be done: the segment may now be longer. */
  def settle(id: Long): Boolean = {
    val isSettled = folder.settle(id)
    if (isSettled) Option(inputs.remove(id)).foreach(_.close())
    isSettled
  }

  override def close(): Unit = {
    val opened = inputs.values.asScala.toVector
    inputs.clear()
    Using.Manager(use => opened.foreach(use(_))).get // where one fails, the others are closed all the same
  }
}

private[log] object OpenInputs {
  /** A load reads one segment after the other; a merge, those of an extent. */
  val Max = 4
}
