package org.apache.spark.sql.cecstore.sparks

import java.util.UUID
import scala.util.control.NonFatal
import org.apache.spark.SparkEnv
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.state.{StateStoreConf, StateStoreCoordinatorRef, StateStoreId, StateStoreProviderId}

/**
 * What this Spark's coordinator is told of snapshots: it warns of stores that have told of none for long. A commit of
 * ours is all that a load of its version needs, as a snapshot is.
 */
private[cecstore] object SnapshotReports extends Logging {
  private var known = Option.empty[(SparkEnv, StateStoreCoordinatorRef)]

  def areAsked(conf: StateStoreConf): Boolean = conf.reportSnapshotUploadLag

  /** A coordinator that does not answer holds up no commit for good: it knows less then, and warns. */
  def tell(id: StateStoreId, runId: String, version: Long): Unit = try {
    coordinator.foreach(_.snapshotUploaded(StateStoreProviderId(id, UUID.fromString(runId)), version, System.currentTimeMillis()))
  } catch {
    case NonFatal(error) => logInfo(s"cec: Spark's coordinator was not told of version $version of $id: $error")
  }

  /** An application that begins in this process after another one has a coordinator of its own. */
  private def coordinator: Option[StateStoreCoordinatorRef] = synchronized {
    Option(SparkEnv.get).map { env =>
      if (!known.exists(_._1 eq env)) known = Some(env -> StateStoreCoordinatorRef.forExecutor(env))
      known.get._2
    }
  }
}
