package org.apache.spark.sql.cecstore.state

import scala.collection.mutable.ArrayBuffer
import org.apache.spark.sql.cecstore.format.Rows
import org.apache.spark.sql.cecstore.log.FrameAt

/** Brings a copy of a state forward by the frames behind it. docs/format.md §9, going on from a copy. */
private[cecstore] object CatchUp {
  /**
   * Follow these frames, oldest first, which end with a version. Raises CecLogException where the state is then not what the log
   * says; it is of no use any more.
   *
   * @param copy what it is, for errors
   * @param ended called with the last frame of each version
   */
  def follow(state: LiveState, frames: Seq[FrameAt], copy: => String)(ended: FrameAt => Unit): Unit = {
    val version = ArrayBuffer.empty[Rows]
    frames.foreach { frame =>
      version += frame.segment.rows(frame, state.nextId + version.size)
      if (frame.header.endsVersion) {
        state.follow(version.toSeq)
        version.clear()
        check(state, frame, copy)
        ended(frame)
      }
    }
  }

  /** What the frame says of the state at its end has to be so. */
  private def check(state: LiveState, frame: FrameAt, copy: => String): Unit = {
    val (found, said) = ((state.openWindows, state.extentInLog), (frame.header.openWindows.toLong, frame.header.extentRecords))
    if (found != said) throw frame.segment.damaged(frame.byte,
      s"$copy has (windows, extent) $found at version ${frame.header.inputUpto}, the frame says $said")
  }
}
