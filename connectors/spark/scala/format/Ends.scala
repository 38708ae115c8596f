package org.apache.spark.sql.cecstore.format

/** Kinds of logs, by what vouches for their frames: later headers and a note, or Spark's commit log. */
private[cecstore] object LogKind extends Enumeration {
  val Queue, State = Value
}

/** Kinds of the place at which the whole frames of a segment end. docs/format.md §7. */
private[cecstore] object Verdict extends Enumeration {
  val Complete, CleanEnd, TornTail, Damage, Newer = Value
}

/**
 * Facts about the bad byte: the first byte of a segment that begins no whole frame.
 *
 * @param claimed how far something intact vouches for the segment
 * @param sealedEnd where the successor says that the segment ends
 * @param stepByte where the step begins within which the frames before the bad byte end
 * @param isNewer a sound header of an unknown type, codec or flag stands there
 * @param hasFrameBeyond an intact frame of the segment stands behind it; asked of state logs only
 * @param isUnfinished what stands there is too short for a frame, or zeros; asked of state logs only
 */
private[cecstore] final case class EndFacts(byte: Long, fileBytes: Long, claimed: Long = 0, sealedEnd: Option[Long] = None,
    stepByte: Option[Long] = None, isNewer: Boolean = false, hasFrameBeyond: Boolean = false, isUnfinished: Boolean = false)

/** What the first bytes of a segment that are no whole frame mean. docs/format.md §7, §9. */
private[cecstore] object Ends {
  import Verdict._

  /** Whether there is an error instead of an end. */
  def isRefused(verdict: Verdict.Value): Boolean = verdict == Damage || verdict == Newer

  /** The verdict, and the byte at which the log, or its damage, begins. */
  def judge(kind: LogKind.Value, facts: EndFacts): (Verdict.Value, Long) = {
    import facts._
    if (sealedEnd.contains(byte)) stepByte.fold((Complete, byte))((Damage, _))
    else if (isNewer) (Newer, byte)
    else if (sealedEnd.nonEmpty || claimed > byte) (Damage, byte)
    else if (kind == LogKind.Queue && stepByte.nonEmpty) (TornTail, stepByte.get)
    else if (byte >= fileBytes) (CleanEnd, byte)
    else if (kind == LogKind.State && (hasFrameBeyond || !isUnfinished)) (Damage, byte)
    else (TornTail, byte)
  }
}
