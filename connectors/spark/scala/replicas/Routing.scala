package org.apache.spark.sql.cecstore.replicas

import java.util.UUID
import org.apache.spark.SparkEnv
import org.apache.spark.sql.execution.streaming.state.{StateStoreCoordinatorRef, StateStoreProviderId}

/** Where Spark will prefer to run the next task of a store: the routing table of the paper. */
private[cecstore] trait Routing {
  /** Have the next batch that is planned prefer this executor. */
  def send(runId: String, key: StoreKey, host: String, executor: String): Unit
  /** The executor that it prefers now. */
  def where(runId: String, key: StoreKey): Option[String]
}

/**
 * The state store coordinator's table. Each task that opens a store enters its own executor there, so an entry made
 * while a batch runs may be lost: whoever makes one looks again until the store is where it should be.
 */
private[cecstore] final class CoordinatorRouting(env: SparkEnv) extends Routing {
  // The endpoint is there once a query has begun, which is when there is something to route.
  private lazy val coordinator = StateStoreCoordinatorRef.forExecutor(env)

  private def idOf(runId: String, key: StoreKey) = StateStoreProviderId(key.id, UUID.fromString(runId))

  override def send(runId: String, key: StoreKey, host: String, executor: String): Unit =
    coordinator.reportActiveInstance(idOf(runId, key), host, executor, Nil)

  override def where(runId: String, key: StoreKey): Option[String] =
    coordinator.getLocation(idOf(runId, key)).map(CoordinatorRouting.executorOf)
}

private object CoordinatorRouting {
  private val Location = "executor_(.*)_([^_]+)".r

  /** Out of what Spark makes of host and executor for its scheduler. */
  def executorOf(location: String): String = location match {
    case Location(_, executor) => executor
    case other => other
  }
}
