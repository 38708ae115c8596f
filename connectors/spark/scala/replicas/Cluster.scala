package org.apache.spark.sql.cecstore.replicas

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.module.scala.DefaultScalaModule

/**
 * The driver's view of state partitions on executors, and the orders that move them: what `spark.cluster` and the
 * tests call, through py4j. Each call returns at once, as one JSON document. A partition is all state stores of one
 * operator's partition, four for a join. `query` is the run id of a query (`StreamingQuery.runId`).
 *
 * What is read:
 *  - `status()`: `{"is_running": true, "wanted": "…" | null, "executors": […], "assignments": […], "replicas": […],
 *    "migrations": […]}`, the lists as below. `wanted` says why there are fewer replicas than asked for, if so.
 *    Without the plugin: `{"is_running": false}`, and every other call is refused with `not_running`.
 *  - `executors()`: `[{"executor": "0", "host": "…", "state": "alive" | "draining", "owned": 4, "replicas": 4,
 *    "replica_bytes": 123, "replica_bytes_max": 456, "silent_ms": 80}]`; `owned` and `replicas` count partitions. One
 *    that is gone is not listed.
 *  - `assignments()`: `[{"query": "…", "checkpoint": "…/state", "operator": 0, "partition": 3, "owner": "1" | null,
 *    "host": "…", "version": 17, "stores": ["default"], "windows": 1000, "state_bytes": 123456, "replicas_wanted": 1,
 *    "is_placed": false}]`; `owner` is null once its executor is gone, until a task has the partition again.
 *    `is_placed`: its replicas are where [[place]], [[addReplica]] or [[dropReplica]] have put them.
 *  - `replicas()`: `[{"query": "…", "operator": 0, "partition": 3, "executor": "2",
 *    "state": "loading" | "warm" | "no_room" | "failing", "version": 16, "lag_versions": 1, "memory_bytes": 123456,
 *    "reason": ""}]`; `version` is the least of its stores, -1 while one has none; `lag_versions` is null then.
 *  - `migrations()`: `[{"id": 7, "query": "…", "operator": 0, "partition": 3, "from": "0", "to": "2",
 *    "protocol": "direct" | "cpa" | "cpal", "state": "catching_up" | "locating" | "done" | "failed" | "cancelled",
 *    "reason": "", "ordered_ms": …, "located_ms": … | null, "done_ms": … | null, "version": 18 | null,
 *    "is_from_replica": true, "records_read": 120, "load_ms": 3}]`, the newest last; times are milliseconds since 1970.
 *    `version` is the one that the new owner has loaded, and what stands behind it is how; null before `done`. The
 *    last 1,000 that have ended are kept.
 *  - `events()`: `[{"number": 1, "at_ms": …, "kind": "owned", "query": "…" | null, "operator": 0 | null,
 *    "partition": 3 | null, "executor": "1", "from": "0" | null, "move": 7 | null, "reason": ""}]`, the newest last; the
 *    last 2,000 are kept, and `number` counts all of them. Kinds: `executor_joined`, `executor_draining`, `executor_lost`;
 *    of a partition `owned` (`from`: by whom it was before, in this run) and `orphaned`; of its replicas
 *    `replica_placed`, `replica_warm` (it has a state), `replica_evicted` (it has none any more) and `replica_dropped`;
 *    `move_ordered`, `move_done`, `move_failed`, `move_cancelled`.
 *
 * Orders, each answered with what was ordered or `{"refused": "<kind>", "message": "…"}`, and then nothing has changed:
 *  - `move(query, operator, partition, executor, protocol)`: the migration, as in `migrations()`. It takes effect with
 *    the next batch that is planned. Kinds: `no_such_partition`, `no_such_executor`, `draining` (the executor is
 *    being decommissioned), `owns_it` (it is there already), `migration_running` (of this partition), `no_replica`
 *    (`cpa`: the executor has none that is warm), `no_such_protocol`.
 *  - `cancel(id)`: the migration, or `no_such_migration`; one that has ended stays as it is.
 *  - `place(query, operator, partition, executors)`: have replicas on exactly these, names between commas; an empty
 *    text for none. A warm one that is replaced stays until the new one is warm. Replies `{"query": …, "operator": 0, "partition": 3, "executors": ["2"]}`. Kinds:
 *    `no_such_partition`, `no_such_executor`, `draining`, `owns_it`.
 *  - `addReplica(query, operator, partition, executor)`, `dropReplica(…)`: the same with one more or less.
 *  - `release(query, operator, partition)`: the driver chooses again by itself.
 */
object Cluster {
  /** Set while the plugin's driver side is up. */
  @volatile private[cecstore] var running: Option[Orders] = None
  private val json = new ObjectMapper().registerModule(DefaultScalaModule)
  private type Document = Map[String, Any]

  private[cecstore] def text(what: Any): String = json.writeValueAsString(what)

  private def asked(answer: Orders => Any): String = text(running.fold[Any](notRunning)(orders =>
    try answer(orders) catch { case refused: Refused => Map("refused" -> refused.kind, "message" -> refused.getMessage) }))

  private val notRunning: Document = Map("refused" -> "not_running", "message" ->
    "there are no replicas in this application: begin its session with spark.configure(builder, replicas=1)")

  def isRunning: Boolean = running.nonEmpty

  def status(): String = if (!isRunning) text(Map("is_running" -> false)) else asked(orders => Map(
    "is_running" -> true, "wanted" -> orders.shortage.orNull, "executors" -> orders.executors,
    "assignments" -> orders.assignments, "replicas" -> orders.replicas, "migrations" -> orders.migrations))

  def executors(): String = asked(_.executors)
  def assignments(): String = asked(_.assignments)
  def replicas(): String = asked(_.replicas)
  def migrations(): String = asked(_.migrations)
  def events(): String = asked(_.events)

  def move(query: String, operator: Long, partition: Int, executor: String, protocol: String): String =
    asked(_.move(query, operator, partition, executor, protocol))
  def cancel(id: Long): String = asked(_.cancel(id))
  def place(query: String, operator: Long, partition: Int, executors: String): String =
    asked(_.place(query, operator, partition, executors.split(',').toSeq.map(_.trim).filter(_.nonEmpty)))
  def addReplica(query: String, operator: Long, partition: Int, executor: String): String =
    asked(orders => orders.place(query, operator, partition, (orders.placed(query, operator, partition) :+ executor).distinct))
  def dropReplica(query: String, operator: Long, partition: Int, executor: String): String =
    asked(orders => orders.place(query, operator, partition, orders.placed(query, operator, partition).filter(_ != executor)))
  def release(query: String, operator: Long, partition: Int): String = asked(_.release(query, operator, partition))
}

/** What [[Cluster]] passes on; documents are maps by the names that it documents. */
private[cecstore] trait Orders {
  type Document = Map[String, Any]
  def shortage: Option[String]
  def executors: Seq[Document]
  def assignments: Seq[Document]
  def replicas: Seq[Document]
  def migrations: Seq[Document]
  def events: Seq[Document]
  def move(query: String, operator: Long, partition: Int, executor: String, protocol: String): Document
  def cancel(id: Long): Document
  def placed(query: String, operator: Long, partition: Int): Seq[String]
  def place(query: String, operator: Long, partition: Int, executors: Seq[String]): Document
  def release(query: String, operator: Long, partition: Int): Document
}

/** An order that cannot be followed; nothing has changed. */
private[cecstore] final class Refused(val kind: String, message: String) extends Exception(message)
