package org.apache.spark.sql.cecstore.log

import scala.collection.mutable

/** What maintenance asks of a segment. */
private[log] final case class Summary(
    bytes: Long, prevSegment: Long, baseVersion: Long, firstOffset: Long, newestVersion: Option[Long])

/**
 * A summary of each segment of a log. One that has grown no longer is not opened again. For the maintenance thread,
 * which holds a lock.
 */
private[log] final class Summaries {
  private val known = mutable.Map.empty[Long, Summary]

  /**
   * By segment; those without a sound beginning are left out: damage, or one that is being born.
   *
   * @param writing where this process goes on writing: a listing may not know how long that is
   */
  def of(log: StateLog, sizes: Map[Long, Long], writing: Option[Base]): Map[Long, Summary] = {
    known.filterInPlace { case (id, summary) => sizes.get(id).contains(summary.bytes) }
    val found = sizes.keys.flatMap { id =>
      val here = writing.filter(_.segment == id)
      val summary = known.get(id).orElse(read(log.reader(id)))
      summary.map(s => id -> here.fold(s)(base => s.copy(newestVersion = Some(math.max(base.version, s.newestVersion.getOrElse(0L))))))
    }.toMap
    // A size that only the file itself knew says nothing about the next listing.
    known ++= found.filter { case (id, summary) => summary.bytes == sizes(id) && !writing.exists(_.segment == id) }
    found
  }

  private def read(in: SegmentReader): Option[Summary] =
    for (head <- in.header; schema <- in.schema) yield {
      val newest = in.versionEnds.nextOption().map(_.header.inputUpto)
      Summary(in.size, head.prevSegment, schema.inputUpto, schema.firstOffset, newest)
    }
}
