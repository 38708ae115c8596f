package org.apache.spark.sql.cecstore.moving

import java.util.UUID
import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.module.scala.DefaultScalaModule
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{Dataset, Row}
import org.apache.spark.sql.cecstore.CecStateStoreProvider
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.SerializableConfiguration

/**
 * What is to be moved.
 *
 * @param from, to checkpoints, as Hadoop names them; `to` is new, and gets a folder `state`
 * @param queryId of the query in `from`, which may not run
 * @param batch the last committed one
 * @param conf what the offset log says of this batch
 * @param providerTo the class that the state is written by
 * @param ids checkpoint format V2's, by operator, partition and store; empty with V1
 * @param partitions as many as are wanted, or 0: as they are
 */
private[moving] final case class Request(
    from: String, to: String, queryId: String, batch: Long, conf: Map[String, String], providerTo: String,
    ids: Map[String, Seq[Seq[String]]], partitions: Int)

/**
 * Takes the state of a query from one checkpoint into another: to another provider, or to other partitions. What
 * Python calls; each call takes and gives one JSON document. `{"refused": "…"}`: nothing was written.
 */
object Moving {
  private val json = new ObjectMapper().registerModule(DefaultScalaModule)

  private def answer(said: => Any): String =
    json.writeValueAsString(try said catch { case e: Exception =>
      // A task's refusal is what the job's failure was caused by.
      val refused = Iterator.iterate[Throwable](e)(_.getCause).takeWhile(_ != null).collectFirst { case of: Refused => of }
      Map("refused" -> refused.getOrElse(throw e).getMessage)
    })

  /** Whether it can be done: `{"stores": [{"operator": 0, "name": "stateStoreSave", "store": "default", "partitions": 2}]}`. */
  def check(session: SparkSession, request: String): String = answer {
    val move = new Move(session, json.readValue(request, classOf[Request]))
    move.check()
    Map("stores" -> move.kinds.map(k =>
      Map("operator" -> k.operator, "name" -> k.operatorName, "store" -> k.store, "partitions" -> k.partitions)))
  }

  /** Do it: `{"rows": 1000, "ids": {"0": [["…"]]}}`, where `ids` are as in the request. On failure the state is taken away again. */
  def run(session: SparkSession, request: String): String = answer {
    val move = new Move(session, json.readValue(request, classOf[Request]))
    move.check()
    try move.run() catch { case e: Throwable => move.takeAway(); throw e }
  }

  /** What was written by [[run]] is not wanted after all. */
  def takeAway(session: SparkSession, request: String): Unit =
    new Move(session, json.readValue(request, classOf[Request])).takeAway()

  /**
   * Whether two checkpoints, each said as what is to be moved `from` it, hold the same: `{"stores": [{"operator": 0,
   * "name": "stateStoreSave", "store": "default", "rows": 10, "other_rows": 10, "only_here": 0, "only_there": 0}]}`.
   */
  def compare(session: SparkSession, first: String, second: String): String = answer {
    Map("stores" -> Comparing.run(source(session, first), source(session, second)))
  }

  /** Whether state can be read as a batch has left it: `{"stores": [{"operator": 0, "store": "default", "partitions": 2}]}`. */
  def stores(session: SparkSession, request: String): String = answer {
    Map("stores" -> source(session, request).kinds.map(k => Map("operator" -> k.operator, "store" -> k.store, "partitions" -> k.partitions)))
  }

  /** One partition of one of them; columns `family`, `key` and `value`. */
  def rows(session: SparkSession, request: String, operator: Long, store: String, partition: Int): Dataset[Row] =
    StoredRows.of(source(session, request), operator, store, partition)

  private def source(session: SparkSession, text: String): Source = {
    val said = json.readValue(text, classOf[Request])
    new Source(session, said.from, said.batch, said.conf, said.ids)
  }
}

private final class Move(session: SparkSession, request: Request) {
  private val source = new Source(session, request.from, request.batch, request.conf, request.ids)
  private val target = new Path(request.to, "state")
  private val to = source.sideOf(request.to, Some(request.providerTo))
  private val settings = new SerializableConfiguration(source.hadoop)

  def kinds: Seq[StoreKind] = source.kinds

  def check(): Unit = {
    if (session.sharedState.activeStreamingQueries.containsKey(UUID.fromString(request.queryId)))
      throw new Refused("its query is running: stop it first")
    if (request.providerTo == classOf[HDFSBackedStateStoreProvider].getName) checkHdfs()
    if (request.partitions > 0) {
      if (request.conf.get(SQLConf.STATEFUL_OPERATOR_USE_STRICT_DISTRIBUTION.key).contains("false")) throw new Refused(
        s"it was begun by a Spark before 3.3 (${SQLConf.STATEFUL_OPERATOR_USE_STRICT_DISTRIBUTION.key}=false), which may hash " +
          "an operator's input by fewer columns than its key has")
      kinds.foreach(NewPlace.check(_, source.joinFormat))
    }
  }

  private def checkHdfs(): Unit = {
    if (source.isV2) throw new Refused("it is of checkpoint format V2, which the HDFS-backed provider does not know: take the RocksDB one")
    kinds.find(_.hasFamilies).foreach(kind => throw new Refused(
      s"operator ${kind.operator} (${kind.operatorName}) keeps column families, which the HDFS-backed provider does not know: " +
        "take the RocksDB one"))
  }

  def run(): Map[String, Any] = {
    val made = if (request.partitions == 0) asTheyAre() else kinds.flatMap(hashedAnew)
    val ids = made.groupBy(_.operator).map { case (operator, all) =>
      operator.toString -> all.groupBy(_.partition).toSeq.sortBy(_._1).map { case (_, stores) =>
        stores.sortBy(store => kinds.indexWhere(kind => kind.operator == operator && kind.store == store.store)).flatMap(_.uniqueId) }
    }
    Map("rows" -> made.map(_.rows).sum, "ids" -> (if (source.isV2) ids else Map.empty))
  }

  def takeAway(): Unit = target.getFileSystem(source.hadoop).delete(target, true)

  private def asTheyAre(): Seq[Made] = {
    val tasks = for (kind <- kinds; partition <- 0 until kind.partitions) yield (kind, partition, source.idOf(kind, partition))
    val (from, to, settings) = (source.side, this.to, this.settings)
    if (tasks.isEmpty) Nil
    else session.sparkContext.parallelize(tasks, tasks.size).map { case (kind, partition, id) =>
      val rows = OpenedStore.rows(from, kind, partition, id, settings.value)
      val (count, made) = OpenedStore.write(to, kind, partition, settings.value, rows)
      Made(kind.operator, partition, kind.store, count, made)
    }.collect().toSeq
  }

  private def hashedAnew(kind: StoreKind): Seq[Made] = {
    val (to, settings) = (this.to, this.settings)
    val (wanted, format) = (if (kind.isOneKey) 1 else request.partitions, source.joinFormat)
    val packs = source.rows[(Int, Array[Byte])](kind)((kind, from, rows) =>
      new Packing(rows, new NewPlace(kind, from, wanted, format), wanted))
    packs.partitionBy(new ByPlace(wanted)).mapPartitionsWithIndex { (partition, packs) =>
      val (count, made) = OpenedStore.write(to, kind, partition, settings.value, Packing.unpacked(packs.map(_._2), kind))
      Iterator(Made(kind.operator, partition, kind.store, count, made))
    }.collect().toSeq
  }
}

/** One store that was written. */
private final case class Made(operator: Long, partition: Int, store: String, rows: Long, uniqueId: Option[String])
