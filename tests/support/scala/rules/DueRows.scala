package org.apache.spark.sql.cecstore.testing

import java.util.UUID

import scala.util.Random

import org.apache.spark.sql.cecstore.format.Blocks
import org.apache.spark.sql.cecstore.keys.KeyRun
import org.apache.spark.sql.cecstore.state.KeyDirectories
import org.apache.spark.sql.cecstore.store.ScanHint
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Scans that a hint narrows, against a map: random versions, taken back, loaded again and given up, one seed after the other. */
object DueRows {
  def run(words: Arguments): Programs.Result = {
    if (words.flag("directories")) { KeyRun.keysMin = 20; KeyDirectories.keysMin = 20; Blocks.blockBytes = 300 }
    val runs = Seeded.run(words, until = 1)(new DueRowsRun(words, _))
    Map("seeds" -> runs.size, "narrowed" -> runs.map(_.narrowed).sum, "full" -> runs.map(_.full).sum, "due" -> runs.map(_.due).sum,
      "aborts" -> runs.map(_.aborts).sum, "back" -> runs.map(_.back).sum, "loads" -> runs.map(_.loads).sum, "early" -> runs.map(_.early).sum,
      "withoutTime" -> runs.map(_.withoutTime).sum, "late" -> runs.map(_.late).sum, "renewed" -> runs.map(_.renewed).sum,
      "byDirectory" -> KeyDirectories.used.get, "refused" -> KeyDirectories.refused.get)
  }

  /** Rows with times in no order, a few of which are due in each version: how many rows a scan reads for each. */
  def costs(words: Arguments): Programs.Result = {
    val kind = TimedKind.all("window")
    val stores = new TimedStores(words, words.text("root"), kind, words.settings)
    val provider = stores.provider()
    val random = new Random(7)
    val (versions, rows, span) = (words.number("versions", 400).toInt, 100, 40000)
    var head: Version = Stores.Start
    var times = Map.empty[Int, Long]
    val figures = (0 until versions).map { n =>
      val bound = n.toLong * 100
      val (read, removed) = Tasks.runOf(stores.hint(head, bound)) {
        val store = Stores.open(provider, head)
        (0 until rows).foreach { i =>
          val (id, time) = (n * rows + i, bound + 1 + random.nextInt(span))
          store.put(kind.key(id, Some(time)), kind.value(Some(time), 0), "default")
          times += id -> time
        }
        val due = store.iterator("default").map(pair => kind.idOf(pair.key)).toList
        Check.equal("due", due.toSet, times.collect { case (id, time) if time <= bound => id }.toSet)
        due.foreach(id => store.remove(kind.key(id, times.get(id)), "default"))
        times --= due
        head = Stores.commit(store, v2 = false)
        val told = store.metrics.customMetrics.map { case (metric, value) => metric.name -> value }
        Check.equal("narrowed", told("cecNarrowedScans"), 1L)
        (told("cecScannedRows"), due.size)
      }
      (read, removed.toLong)
    }
    provider.close()
    def sums(of: Seq[(Long, Long)]) = Seq(of.map(_._1).sum, of.map(_._2).sum)
    val half = figures.drop(versions / 2)
    Map("all" -> sums(figures), "third" -> sums(half.take(half.size / 2)), "fourth" -> sums(half.drop(half.size / 2)))
  }
}

/** Keys and values of an operator, with a time somewhere. */
final case class TimedKind(
    name: String, spec: KeyStateEncoderSpec, valueSchema: StructType, isInKey: Boolean, path: Seq[Int], isInMillis: Boolean,
    makeKey: (Int, Any) => Seq[Any], makeValue: (Any, Int) => Seq[Any], idColumn: Int, canLack: Boolean) {
  private val keys = ThreadLocal.withInitial(() => UnsafeProjection.create(spec.keySchema))
  private val values = ThreadLocal.withInitial(() => UnsafeProjection.create(valueSchema))

  /** What stands for no time: null, or what Spark writes for a group without a timeout. */
  private def written(time: Option[Long]): Any = if (isInMillis) time.fold(-1L)(Math.floorDiv(_, 1000L)) else time.orNull
  def key(id: Int, time: Option[Long]): UnsafeRow = keys.get()(InternalRow.fromSeq(makeKey(id, written(time))))
  def value(time: Option[Long], n: Int): UnsafeRow = values.get()(InternalRow.fromSeq(makeValue(written(time), n)))
  def idOf(key: UnsafeRow): Int = key.getInt(idColumn)
  /** A hint's bound counts as the operator's own test does. */
  def isDue(time: Option[Long], boundUs: Long): Boolean = time match {
    case None => !isInMillis
    case Some(us) => (if (isInMillis) Math.floorDiv(us, 1000L) * 1000 else us) <= boundUs
  }
}

object TimedKind {
  private val window = StructType(Seq(StructField("start", TimestampType), StructField("end", TimestampType)))
  private val id = StructField("id", IntegerType)
  private def text(n: Int): UTF8String = UTF8String.fromString("x" * (n % 17))
  private def span(time: Any): Any = time match { case us: Long => InternalRow(us - 10, us); case none => none }

  val all: Map[String, TimedKind] = Seq(
    TimedKind("window", NoPrefixKeyStateEncoderSpec(StructType(Seq(id, StructField("window", window)))),
      StructType(Seq(StructField("n", IntegerType))), isInKey = true, Seq(1, 1), isInMillis = false,
      (id, time) => Seq(id, span(time)), (_, n) => Seq(n), 0, canLack = true),
    TimedKind("column", NoPrefixKeyStateEncoderSpec(StructType(Seq(StructField("ts", TimestampType), StructField("s", StringType), id))),
      StructType(Seq(StructField("dummy", NullType))), isInKey = true, Seq(0), isInMillis = false,
      (id, time) => Seq(time, text(id), id), (_, _) => Seq(null), 2, canLack = true),
    TimedKind("expiry", NoPrefixKeyStateEncoderSpec(StructType(Seq(id))),
      StructType(Seq(StructField("expiresAt", LongType))), isInKey = false, Seq(0), isInMillis = false,
      (id, _) => Seq(id), (time, _) => Seq(time), 0, canLack = true),
    TimedKind("timeout", NoPrefixKeyStateEncoderSpec(StructType(Seq(id))),
      StructType(Seq(StructField("group", StructType(Seq(StructField("s", StringType)))), StructField("timeout", LongType))),
      isInKey = false, Seq(1), isInMillis = true,
      (id, _) => Seq(id), (time, n) => Seq(if (n % 5 == 0) null else InternalRow(text(n)), time), 0, canLack = true),
    TimedKind("session", PrefixKeyScanStateEncoderSpec(StructType(Seq(id, StructField("start", TimestampType))), 1),
      StructType(Seq(StructField("s", StringType), StructField("session", window))), isInKey = false, Seq(1, 1), isInMillis = false,
      (id, _) => Seq[Any](id, id.toLong * 1000), (time, n) => Seq(text(n), span(time)), 0, canLack = true),
    // Nobody can read a time in a key that is not Spark's row byte for byte: such a scan is full.
    TimedKind("ordered", RangeKeyScanStateEncoderSpec(StructType(Seq(StructField("ts", LongType), id)), Seq(0)),
      StructType(Seq(StructField("n", IntegerType))), isInKey = true, Seq(0), isInMillis = false,
      (id, time) => Seq(time, id), (_, n) => Seq(n), 1, canLack = false)).map(kind => kind.name -> kind).toMap
}

final class TimedStores(words: Arguments, root: String, kind: TimedKind, settings: Map[String, String], v2: Boolean = false) {
  private val stores = new Stores(root, words.text("provider"), settings, v2)

  def provider(): StateStoreProvider = StateStoreProvider.createAndInit(
    StateStoreProviderId(StateStoreId(root, TimedStores.Operator, 0), UUID.randomUUID()),
    kind.spec.keySchema, kind.valueSchema, kind.spec, false, stores.conf, stores.hadoop, false, None)

  private def runId: String = stores.hadoop.get("sql.streaming.runId")

  def hint(base: Version, boundUs: Long): Map[String, String] = hint(base.number, boundUs)
  def hint(version: Long, boundUs: Long, path: Seq[Int] = kind.path, run: String = runId, operator: Long = TimedStores.Operator): Map[String, String] =
    Map(ScanHint.nameFor(run, operator, StateStoreId.DEFAULT_STORE_NAME) -> ScanHint(version, kind.isInKey, path, kind.isInMillis, boundUs).text)
}

object TimedStores {
  val Operator = 3L
}

/** One checkpoint of one operator with a watermark. */
final class DueRowsRun(words: Arguments, seed: Long) extends Seeded {
  private val random = new Random(seed)
  private val kinds = TimedKind.all.values.toVector.sortBy(_.name)
  private val kind = kinds((seed % kinds.size).toInt)
  private val v2 = seed / kinds.size % 2 == 1
  /** In every other commit or so all older footprints are written again. */
  private val Tight = Map("spark.sql.streaming.stateStore.cec.extentMaxRecords" -> "800", "spark.sql.streaming.stateStore.cec.checkTimeMs" -> "10000")
  private val stores = new TimedStores(words, s"${words.text("root")}/seed-$seed", kind, words.settings ++ Tight, v2)
  private val restarts = words.flag("directories")
  private type Rows = Map[Int, (Option[Long], Int)]

  private var provider = stores.provider()
  private var (head, base) = (Stores.Start, Stores.Start)
  private var known: Map[Version, Rows] = Map(Stores.Start -> Map.empty)
  private var boundUs = -3000000L
  private var ids = 0

  var (narrowed, full, due, aborts, back, loads, early, withoutTime, late) = (0, 0, 0, 0, 0, 0, 0, 0, 0)
  var renewed = 0L
  var where = "start"

  override def all(): Unit = {
    (0 until words.number("batches", 25).toInt).foreach(batch)
    provider.close()
  }

  private def batch(number: Int): Unit = {
    if (restarts && random.nextInt(2) == 0) provider.doMaintenance()
    if (random.nextInt(if (restarts) 3 else 7) == 0) { provider.close(); provider = stores.provider(); loads += 1 }
    val from = if (random.nextInt(4) == 0 && base != head) { back += 1; base } else head
    where = s"${kind.name}, batch $number on $from, bound $boundUs"
    // The watermark stands, goes on, or jumps.
    if (random.nextInt(3) > 0) boundUs += random.nextInt(if (random.nextInt(5) == 0) 2000000 else 300000)
    val (properties, isNarrow) = hints(from)
    Tasks.runOf(properties) {
      val store = Stores.open(provider, from)
      var rows = known(from)
      for (_ <- 0 until 1 + random.nextInt(2)) {
        rows = changed(store, rows)
        rows = evicted(store, rows, isNarrow)
      }
      if (random.nextInt(3) == 0) rows = changed(store, rows)
      if (random.nextInt(5) == 0) { store.abort(); aborts += 1 }
      else {
        val made = Stores.commit(store, v2)
        known += made -> rows
        base = from
        head = made
        renewed += store.metrics.customMetrics.collectFirst { case (metric, value) if metric.name == "cecCheckRecordsWritten" => value }.get
      }
    }
    checkAll()
  }

  /** Whether the batch has a hint that counts; each that does not makes a scan full. */
  private def hints(from: Version): (Map[String, String], Boolean) = random.nextInt(16) match {
    case 0 => (Map.empty, false)
    case 1 => (stores.hint(from.number - 1, boundUs), false)
    case 2 => (stores.hint(from.number + 1, boundUs), false)
    case 3 => (stores.hint(from.number, boundUs, operator = TimedStores.Operator + 1), false)
    case 4 => (stores.hint(from.number, boundUs, run = UUID.randomUUID().toString), false)
    case 5 => (stores.hint(from.number, boundUs, path = Seq(7)), false)
    case 6 => (stores.hint(from, boundUs).map { case (name, text) => name -> text.replace(' ', ',') }, false)
    case 7 => (stores.hint(from.number, boundUs, path = kind.path :+ 0), false)
    case _ => (stores.hint(from, boundUs), kind.name != "ordered")
  }

  private def changed(store: StateStore, before: Rows): Rows = {
    var rows = before
    for (_ <- 0 until random.nextInt(if (random.nextInt(4) == 0) 600 else 60)) {
      val isNew = rows.isEmpty || random.nextInt(3) > 0
      if (isNew) ids += 1
      val id = if (isNew) ids else rows.keysIterator.drop(random.nextInt(math.min(rows.size, 20))).next()
      // A time that is in the key stays with it.
      val time = if (kind.isInKey && !isNew) rows(id)._1 else newTime()
      if (!isNew && random.nextInt(4) == 0) { store.remove(kind.key(id, rows(id)._1), "default"); rows -= id }
      else {
        val n = random.nextInt(1000)
        store.put(kind.key(id, time), kind.value(time, n), "default")
        rows += id -> (time, n)
      }
    }
    rows
  }

  /** In no order, some of them late, and some at the bound to the microsecond. */
  private def newTime(): Option[Long] = random.nextInt(40) match {
    case 0 if kind.canLack => withoutTime += 1; None
    case 1 => Some(boundUs)
    case 2 => Some(boundUs + 1)
    case 3 => late += 1; Some(boundUs - random.nextInt(1000000))
    case _ => Some(boundUs + random.nextInt(3000000))
  }

  /** As an operator does: read what is due, and remove that which has a time. */
  private def evicted(store: StateStore, before: Rows, isNarrow: Boolean): Rows = {
    var rows = before
    val scan = store.iterator("default")
    val leave = if (random.nextInt(8) == 0) { early += 1; random.nextInt(20) } else Int.MaxValue
    var seen = Set.empty[Int]
    while (seen.size < leave && scan.hasNext) {
      val pair = scan.next()
      val id = kind.idOf(pair.key)
      Check.that(s"$where: row $id twice", !seen(id))
      seen += id
      val (time, n) = before.getOrElse(id, throw new Wrong(s"$where: row $id is not there"))
      Check.equal(s"$where: value of $id", pair.value.copy(), kind.value(time, n).copy())
      if (time.nonEmpty && kind.isDue(time, boundUs) && random.nextInt(30) > 0) {
        store.remove(pair.key, "default")
        rows -= id
        due += 1
      }
    }
    val wanted = (if (isNarrow) before.filter { case (_, (time, _)) => kind.isDue(time, boundUs) } else before).keySet
    if (leave == Int.MaxValue) Check.equal(s"$where: rows of a scan, missing and too many", (wanted -- seen, seen -- wanted), (Set(), Set()))
    else Check.that(s"$where: rows of a scan that was left", seen.subsetOf(wanted))
    scan.close()
    if (isNarrow) narrowed += 1 else full += 1
    rows
  }

  private def checkAll(): Unit = if (random.nextInt(5) == 0) Tasks.run {
    val store = provider.getReadStore(head.number, head.id)
    val found = store.iterator("default").map(pair => kind.idOf(pair.key) -> pair.value.copy()).toMap
    Check.equal(s"$where: all rows", found, known(head).map { case (id, (time, n)) => id -> kind.value(time, n).copy() })
    store.abort()
  }
}
