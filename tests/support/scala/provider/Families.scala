package org.apache.spark.sql.cecstore.testing

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Rows of one schema out of a small universe, known by their place in it. */
class Universe(val schema: StructType, rows: Seq[Seq[Any]]) {
  private val projection = ThreadLocal.withInitial(() => UnsafeProjection.create(schema))
  private val places =
    rows.zipWithIndex.map { case (row, place) => Universe.words(row) -> place }.toMap
  val size: Int = rows.size

  /** One buffer for all of a task, as Spark does it: a store that keeps it without copying is caught. */
  def row(place: Int): UnsafeRow = projection.get()(InternalRow.fromSeq(rows(place).map {
    case text: String => UTF8String.fromString(text)
    case other => other
  }))

  /** The place of a row that a store gave out. */
  def place(row: UnsafeRow): Int =
    places.getOrElse(Universe.words(row.toSeq(schema)), throw new Wrong(s"a row never put: $row"))
}

object Universe {
  private def words(row: Seq[Any]): Seq[String] = row.map(String.valueOf)
}

object Values extends Universe(
  StructType(Seq(StructField("v", LongType), StructField("s", StringType))),
  // A comma is what RocksDB puts between merged values; no text at all is a case of its own.
  (0 until 64).map { n =>
    Seq[Any](n * 1000003L, if (n % 7 == 0) null else "," * (n % 5) + "x" * (n % 11))
  })

/** Keys of one column family, in the order in which a scan must give them.
 *
 *  @param groups how many leading columns a prefix scan takes; 0 where the encoder has none
 *  @param ordered whether a full iteration must come in this order
 */
final class Family(
    val name: String,
    val multi: Boolean,
    val spec: KeyStateEncoderSpec,
    rows: Seq[Seq[Any]],
    groups: Int,
    val ordered: Boolean,
    val deletable: Boolean) {
  val keySchema: StructType = spec.keySchema
  private val keys = new Universe(keySchema, rows)
  private val prefixes: Option[Universe] =
    Option.when(groups > 0)(new Universe(StructType(keySchema.take(groups)), rows.map(_.take(groups))))

  def size: Int = keys.size
  def key(place: Int): UnsafeRow = keys.row(place)
  def place(row: UnsafeRow): Int = keys.place(row)
  def hasPrefix: Boolean = prefixes.isDefined
  def prefix(place: Int): UnsafeRow = prefixes.get.row(place)
  def sameGroup(one: Int, other: Int): Boolean = rows(one).take(groups) == rows(other).take(groups)
}

object Family {
  private def schema(columns: (String, DataType)*): StructType =
    StructType(columns.map { case (name, kind) => StructField(name, kind) })

  private val words = Seq(null, "", "a", "aa", "b", "żółw")

  private def plain(name: String, multi: Boolean): Family = {
    val rows = for (s <- words; n <- Seq[Any](null, Int.MinValue, -1, 0, 1, 7)) yield Seq[Any](s, n)
    val columns = schema("s" -> StringType, "n" -> IntegerType)
    new Family(name, multi, NoPrefixKeyStateEncoderSpec(columns), rows, 0, false, false)
  }

  private def prefixed(name: String, multi: Boolean): Family = {
    val rows = for (s <- words; n <- 0 until 6) yield Seq[Any](s, n)
    val columns = schema("s" -> StringType, "n" -> IntegerType)
    new Family(name, multi, PrefixKeyScanStateEncoderSpec(columns, 1), rows, 1, false, false)
  }

  /** Ordered by a time that may be negative, or null, which comes last; what stands behind it only breaks ties. */
  private def ranged(name: String, multi: Boolean): Family = {
    val times = Seq[Any](Long.MinValue, -5000000000L, -1L, 0L, 1L, 255L, 256L, Long.MaxValue, null)
    val rows = for (t <- times; n <- 0 until 4) yield Seq[Any](t, n)
    val columns = schema("t" -> LongType, "n" -> IntegerType)
    new Family(name, multi, RangeKeyScanStateEncoderSpec(columns, Seq(0)), rows, 1, true, true)
  }

  private def rangedByTwo(name: String, multi: Boolean): Family = {
    val reals =
      Seq[Any](Double.NegativeInfinity, -1.5, 0.0, 1e-300, 2.5, Double.PositiveInfinity, null)
    val rows =
      for (d <- reals; n <- Seq[Any](Int.MinValue, -1, 0, Int.MaxValue, null)) yield Seq[Any](d, n)
    val columns = schema("d" -> DoubleType, "n" -> IntegerType)
    new Family(name, multi, RangeKeyScanStateEncoderSpec(columns, Seq(0, 1)), rows, 2, true, true)
  }

  private val times = Seq[Any](Long.MinValue, -7L, 0L, 3L, 1L << 40)

  private def timeFirst(name: String, multi: Boolean): Family = {
    val rows = for (t <- times; n <- 0 until 6) yield Seq[Any](n, t)
    val columns = schema("n" -> IntegerType, "t" -> LongType)
    new Family(name, multi, TimestampAsPrefixKeyStateEncoderSpec(columns), rows, 0, true, false)
  }

  private def timeLast(name: String, multi: Boolean): Family = {
    val rows = for (n <- 0 until 6; t <- times) yield Seq[Any](n, t)
    val columns = schema("n" -> IntegerType, "t" -> LongType)
    new Family(name, multi, TimestampAsPostfixKeyStateEncoderSpec(columns), rows, 1, true, false)
  }

  /** By what the default family may be; each has its multi-valued twin. */
  val kinds: Map[String, (String, Boolean) => Family] = Map(
    "plain" -> plain,
    "prefixed" -> prefixed,
    "ranged" -> ranged,
    "rangedByTwo" -> rangedByTwo,
    "timeFirst" -> timeFirst,
    "timeLast" -> timeLast)
}
