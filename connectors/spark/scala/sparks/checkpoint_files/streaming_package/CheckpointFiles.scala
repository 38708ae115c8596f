package org.apache.spark.sql.cecstore.sparks

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.streaming.{CheckpointFileManager, FileContextBasedCheckpointFileManager, OffsetSeqLog}

/** Spark's classes for the files of a checkpoint, where these are among those of all of streaming. */
private[cecstore] object CheckpointFiles {
  type Manager = FileContextBasedCheckpointFileManager
  type AtomicStream = CheckpointFileManager.CancellableFSDataOutputStream
  type Offsets = OffsetSeqLog

  /** The offsets in a folder that is there. */
  def offsets(session: SparkSession, folder: String): Offsets = new OffsetSeqLog(session, folder)
}
