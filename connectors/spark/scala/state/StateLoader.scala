package org.apache.spark.sql.cecstore.state

import org.apache.spark.sql.cecstore.log.{FrameAt, StateLog}

/** The state at the end of a frame, rebuilt from its extent. CEC paper, II.B. */
private[cecstore] object StateLoader {
  /** @param progress is told the windows found and those to find, after each frame */
  def load(
      log: StateLog, last: FrameAt, isOrdered: Int => Boolean, progress: (Long, Long) => Unit = (_, _) => ()): LiveState = {
    val frames = log.extent(last)
    val state = new LiveState(isOrdered, last.header.openWindows)
    frames.zipWithIndex.foreach { case ((frame, fromRow), i) =>
      state.load(frame.segment.rows(frame, frames.size - i), fromRow)
      progress(state.openWindows, last.header.openWindows)
    }
    state.finishLoad(frames.size, last.header.endOffset)
    if (state.openWindows != last.header.openWindows) throw last.segment.damaged(
      last.byte, s"the frame counts ${last.header.openWindows} open windows, its extent has ${state.openWindows}")
    state
  }

  /** A state that begins without any version. */
  def empty(isOrdered: Int => Boolean): LiveState = {
    val state = new LiveState(isOrdered, 0)
    state.finishLoad(0, 0)
    state
  }
}
