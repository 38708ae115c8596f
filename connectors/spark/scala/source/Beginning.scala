package org.apache.spark.sql.cecstore.source

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID
import scala.util.Using
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.cecstore.CecLogException

/**
 * Where a query began to read, kept in its checkpoint as Kafka's source keeps it. Spark's log of offsets has the ends of batches alone, so
 * that a query which is restarted in its first batch asks once more where that one begins: by then its options may mean another place.
 *
 * @param folder that Spark gives the source in the query's checkpoint
 */
private[source] final class Beginning(folder: String, conf: Configuration) {
  import Beginning.Version

  private val file = new Path(folder, "0")

  /** The position that is kept; where there is none yet, this one, which is kept from now on. */
  def kept(now: => QueueOffset): QueueOffset = read().getOrElse {
    val made = now
    write(s"$Version\n${made.json}")
    read().getOrElse(made)
  }

  private def read(): Option[QueueOffset] = {
    val fs = file.getFileSystem(conf)
    val text = try Some(Using.resource(fs.open(file))(in => new String(in.readAllBytes(), UTF_8))) catch { case _: FileNotFoundException => None }
    text.map(_.split("\n", 2) match {
      case Array(Version, json) => QueueOffset.parse(json)
      case other => throw new CecLogException(s"$file: it begins with '${other.head.take(20)}', not with $Version: was it written by a " +
        "newer cec-store? Upgrade, or begin anew with a new checkpoint", named = Map("path" -> file.toString))
    })
  }

  /** Whole, under its name, or not at all; one that is there stays. */
  private def write(text: String): Unit = {
    val fs = file.getFileSystem(conf)
    val part = new Path(folder, s".0-${UUID.randomUUID}.tmp")
    fs.mkdirs(file.getParent)
    try {
      Using.resource(fs.create(part, true)) { out => out.write(text.getBytes(UTF_8)); out.hsync() }
      if (!fs.exists(file)) fs.rename(part, file)
    } finally fs.delete(part, false)
  }
}

private object Beginning {
  private val Version = "v1"
}
