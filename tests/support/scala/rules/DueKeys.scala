package org.apache.spark.sql.cecstore.testing

import java.util.UUID

import scala.util.Random

import org.apache.spark.sql.cecstore.store.ScanHint
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** One side of a join as Spark keeps it in two stores, with scans that a hint narrows, against a map; one seed after the other. */
object DueKeys {
  def run(words: Arguments): Programs.Result = {
    val runs = Seeded.run(words, until = 1)(new DueKeysRun(words, _))
    Map("seeds" -> runs.size, "narrowed" -> runs.map(_.narrowed).sum, "removed" -> runs.map(_.removed).sum, "leftOut" -> runs.map(_.leftOut).sum,
      "again" -> runs.map(_.again).sum, "aborts" -> runs.map(_.aborts).sum, "uncounted" -> runs.map(_.uncounted).sum)
  }

  val Counts = "left-keyToNumValues"
  val Rows = "left-keyWithIndexToValue"
  val Side: Long = 5
  private val span = StructType(Seq(StructField("start", TimestampType), StructField("end", TimestampType)))
  val JoinKey: StructType = StructType(Seq(StructField("s", StringType), StructField("d", DecimalType(38, 2)), StructField("span", span),
    StructField("list", ArrayType(IntegerType)), StructField("x", DoubleType), StructField("bytes", BinaryType), StructField("id", IntegerType)))
  val RowKey: StructType = JoinKey.add("index", LongType)
  val Count: StructType = new StructType().add("value", LongType)
  val Row: StructType = new StructType().add("n", IntegerType).add("ts", TimestampType).add("matched", BooleanType)

  /** Columns of each key are null by turns. */
  def joinKey(id: Int): Seq[Any] = Seq[Any](UTF8String.fromString("k" * (id % 13)), Decimal(BigDecimal(id) * 1000000, 38, 2),
    InternalRow(id.toLong, id + 10L), ArrayData.toArrayData((0 until id % 3).toArray), id / 7.0, Array.fill(id % 5)(id.toByte))
    .zipWithIndex.map { case (column, i) => if ((id >> 2) % 7 == i) null else column } :+ id
}

final class DueKeysRun(words: Arguments, seed: Long) extends Seeded {
  import DueKeys._
  private type Times = Map[Int, Vector[Option[Long]]]

  private val random = new Random(seed)
  private val root = s"${words.text("root")}/seed-$seed"
  private val stores = new Stores(root, words.text("provider"), words.settings)
  private val (joinKeys, rowKeys) = (UnsafeProjection.create(JoinKey), UnsafeProjection.create(RowKey))
  private val (countRows, valueRows) = (UnsafeProjection.create(Count), UnsafeProjection.create(Row))
  private var providers = opened()
  private var head = Stores.Start
  private var known: Times = Map.empty
  private var boundUs = 0L
  private val Uncounted = Int.MaxValue

  var (narrowed, removed, leftOut, again, aborts, uncounted) = (0, 0, 0, 0, 0, 0)
  var where = "start"

  private def opened(): Seq[StateStoreProvider] = Seq(Counts -> (JoinKey, Count), Rows -> (RowKey, Row)).map { case (name, (keys, values)) =>
    StateStoreProvider.createAndInit(StateStoreProviderId(StateStoreId(root, Side, 0, name), UUID.randomUUID()), keys, values,
      NoPrefixKeyStateEncoderSpec(keys), false, stores.conf, stores.hadoop, false, None)
  }

  private def keyOf(id: Int): UnsafeRow = joinKeys(InternalRow.fromSeq(joinKey(id)))
  private def keyOf(id: Int, index: Int): UnsafeRow = rowKeys(InternalRow.fromSeq(joinKey(id) :+ index.toLong))
  private def countOf(n: Int): UnsafeRow = countRows(InternalRow(n.toLong))
  private def rowOf(time: Option[Long]): UnsafeRow = valueRows(InternalRow(1, time.orNull, false))

  override def all(): Unit = {
    (0 until words.number("batches", 25).toInt).foreach(batch)
    providers.foreach(_.close())
  }

  private def batch(number: Int): Unit = {
    if (random.nextInt(7) == 0) { providers.foreach(_.close()); providers = opened() }
    if (random.nextInt(3) > 0) boundUs += random.nextInt(400000)
    where = s"batch $number, bound $boundUs"
    val isNarrow = random.nextInt(5) > 0
    val hint = ScanHint(head.number - (if (isNarrow) 0 else 1), isInKey = false, Seq(1), isInMillis = false, boundUs)
    Tasks.runOf(Map(ScanHint.nameFor(stores.hadoop.get("sql.streaming.runId"), Side, Counts) -> hint.text)) {
      val Seq(counts, rows) = providers.map(Stores.open(_, head))
      var times = grown(counts, rows)
      val hasUncounted = random.nextInt(6) == 0
      if (hasUncounted) { rows.put(keyOf(Uncounted, 0), rowOf(Some(boundUs)), "default"); uncounted += 1 }
      times = evicted(counts, rows, times, isNarrow, hasUncounted)
      if (hasUncounted) rows.remove(keyOf(Uncounted, 0), "default")
      if (random.nextInt(5) == 0) { counts.abort(); rows.abort(); aborts += 1 }
      else {
        head = Stores.commit(counts, v2 = false)
        Check.equal(s"$where: both stores", Stores.commit(rows, v2 = false), head)
        val told = Seq(counts, rows).map(_.metrics.customMetrics.collectFirst { case (metric, value) if metric.name == "cecNarrowedScans" => value }.get)
        Check.equal(s"$where: narrowed scans, told by the store whose figures Spark shows", told, Seq(0L, if (isNarrow) 1L else 0L))
        known = times
      }
    }
  }

  private def grown(counts: StateStore, rows: StateStore): Times = {
    var times = known
    for (_ <- 0 until random.nextInt(300)) {
      val id = random.nextInt(60)
      val time = if (random.nextInt(30) == 0) None else Some(boundUs - 200000 + random.nextInt(2000000))
      val of = times.getOrElse(id, Vector.empty) :+ time
      rows.put(keyOf(id, of.size - 1), rowOf(time), "default")
      counts.put(keyOf(id), countOf(of.size), "default")
      times += id -> of
    }
    times
  }

  /** As Spark does it: a key's rows are looked at when it comes, and its count is written once it is known whether another one follows. */
  private def evicted(counts: StateStore, rows: StateStore, before: Times, isNarrow: Boolean, hasUncounted: Boolean): Times = {
    var times = before
    var seen = Set.empty[Int]
    var pending = Option.empty[(Int, Int)]
    val scan = counts.iterator("default")
    while (scan.hasNext) {
      pending.foreach { case (id, size) => if (size == 0) counts.remove(keyOf(id), "default") else counts.put(keyOf(id), countOf(size), "default") }
      val pair = scan.next()
      val id = pair.key.getInt(JoinKey.size - 1)
      if (seen(id)) again += 1
      seen += id
      val of = times.getOrElse(id, Vector.empty)
      Check.equal(s"$where: rows of key $id, as they are counted", pair.value.getLong(0), of.size.toLong)
      val left = of.indices.foldLeft((of, 0)) { case ((left, index), _) =>
        if (index < left.size && left(index).exists(_ <= boundUs)) {
          if (index < left.size - 1) rows.put(keyOf(id, index), rowOf(left.last), "default")
          rows.remove(keyOf(id, left.size - 1), "default")
          removed += 1
          (left.updated(index, left.last).init, index)
        } else (left, index + 1)
      }._1
      pending = if (left.size < of.size) Some(id -> left.size) else None
      times = if (left.isEmpty) times - id else times.updated(id, left)
    }
    pending.foreach { case (id, size) => if (size == 0) counts.remove(keyOf(id), "default") else counts.put(keyOf(id), countOf(size), "default") }
    scan.close()
    checkSeen(before, seen, isNarrow, hasUncounted)
    times
  }

  private def checkSeen(before: Times, seen: Set[Int], isNarrow: Boolean, hasUncounted: Boolean): Unit = {
    val wanted = before.filter { case (_, times) => times.exists(_.forall(_ <= boundUs)) }.keySet
    Check.equal(s"$where: keys that were left out", wanted -- seen, Set.empty[Int])
    if (isNarrow && !hasUncounted) Check.equal(s"$where: keys too many", seen -- wanted, Set.empty[Int])
    else Check.equal(s"$where: all keys", seen, before.keySet)
    if (isNarrow) narrowed += 1
    leftOut += before.size - seen.size
  }
}
