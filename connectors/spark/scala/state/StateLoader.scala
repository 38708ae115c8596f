package org.apache.spark.sql.cecstore.state

import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.keys.RowsTable
import org.apache.spark.sql.cecstore.log.{FrameAt, StateLog}

/** The state at the end of a frame, rebuilt from its extent. CEC paper, II.B. */
private[cecstore] object StateLoader extends Logging {
  private val ProgressNs = 1000000000L

  /** A load that takes longer than a second says how far it is, and of which store. */
  def load(stateLog: StateLog, last: FrameAt, isOrdered: Int => Boolean, store: String, memory: RowMemory = RowMemory.Default): LiveState = {
    var saidNs = System.nanoTime()
    var records = 0L
    val state = new LiveState(isOrdered, last.header.openWindows, memory)
    stateLog.extent(last).zipWithIndex.foreach { case ((frame, fromRow), i) =>
      state.load(frame.segment.rows(frame, RowsTable.NewestLoadedId - i), fromRow)
      records += frame.header.recordCount - fromRow
      if (System.nanoTime() - saidNs >= ProgressNs) {
        saidNs += ProgressNs
        logInfo(s"cec: loading version ${last.header.inputUpto} of $store: $records of ${last.header.extentRecords} records")
      }
    }
    state.finishLoad(last.header.endOffset)
    if (state.openWindows != last.header.openWindows) throw last.segment.damaged(
      last.byte, s"the frame counts ${last.header.openWindows} open windows, its extent has ${state.openWindows}")
    state
  }

  /** A state that begins without any version. */
  def empty(isOrdered: Int => Boolean, memory: RowMemory = RowMemory.Default): LiveState = {
    val state = new LiveState(isOrdered, 0, memory)
    state.finishLoad(0)
    state
  }
}
