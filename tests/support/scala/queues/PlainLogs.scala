package org.apache.spark.sql.cecstore.testing

import java.nio.file.{Files, Path, Paths}
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.queue.LocalStore
import org.apache.spark.sql.cecstore.source.{PlainLog, SegmentFrames}
import scala.jdk.CollectionConverters._

/** Logs that are appended to, each in a folder of its own: queues, and state logs with a file `wanted`. */
private[cecstore] object PlainLogs {
  /** What each shows, with all bodies proven; or the error of what cannot be read. */
  def run(words: Arguments): Programs.Result = {
    val folders = Files.list(Paths.get(words.text("logs")))
    try folders.iterator.asScala.map(path => path.getFileName.toString -> shown(path)).toMap finally folders.close()
  }

  private def shown(path: Path): Map[String, Any] = try {
    val wanted = path.resolve("wanted")
    if (Files.exists(wanted)) Map("read" -> Logs.wanted(wanted).map(Logs.read(Logs.inMemory(path), _).plain)) else queue(path)
  } catch { case e: CecLogException => Map("refused" -> e.getMessage, "condition" -> e.getCondition) }

  private def queue(path: Path): Map[String, Any] = {
    val store = new LocalStore(path)
    val log = new PlainLog(store, "", 0)
    val offsets = log.segments.flatMap { segment =>
      val frames = new SegmentFrames(store, segment)
      Iterator.continually(frames.next((_, _) => true)).takeWhile(identity).map(_ => frames.firstOffset).toSeq
    }
    Map("offsets" -> offsets, "first" -> log.first, "end" -> log.end, "written" -> log.written,
      "schema_bytes" -> log.schemaMessage.length)
  }
}
