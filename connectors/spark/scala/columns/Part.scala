package org.apache.spark.sql.cecstore.columns

import scala.jdk.CollectionConverters._
import org.apache.arrow.vector.types.pojo.Field
import org.apache.spark.sql.cecstore.sparks.{ConvertedVector, NanoTimestamps}
import org.apache.spark.sql.types.{ArrayType, ByteType, DataType, DayTimeIntervalType, DoubleType, FloatType}
import org.apache.spark.sql.types.{IntegerType, LongType}
import org.apache.spark.sql.types.{MapType, ShortType, StringType, StructField, StructType, TimestampNTZType, TimestampType, VariantType}
import org.apache.spark.sql.vectorized.ColumnVector

/**
 * A column that a query reads, or a part of one.
 *
 * @param name in the queue
 * @param place among the fields beside it
 * @param kind as the query sees it: of a struct, with the fields only that are read
 * @param isWider whether numbers are read as a wider type than they are stored as
 * @param parts the fields of a struct that are read, the element of a list, key and value of a map
 */
private[cecstore] final case class Part(
    name: String, place: Int, kind: DataType, isWider: Boolean, parts: IndexedSeq[Part])

private[cecstore] object Part {
  /** All of a column. */
  def whole(field: Field, place: Int): Part = {
    val kind = SparkTypes.of(field)
    val below = kind match {
      case VariantType => java.util.Collections.emptyList[Field]()
      case _: MapType => field.getChildren.get(0).getChildren
      case _ => field.getChildren
    }
    Part(field.getName, place, kind, isWider = false, below.asScala.toIndexedSeq.zipWithIndex.map((whole _).tupled))
  }
}

/**
 * Finds the columns that a query names, as Spark's Parquet source does: names by the session's case rule, types by what
 * can be read. Comments, nullability and the order of fields make no difference.
 */
private[cecstore] final class Parts(there: StructType, isCaseSensitive: Boolean) {
  import Parts._

  /** The part of a column that is asked for, or why there is none. */
  def of(asked: StructField): Either[String, Part] = field(there, asked, asked.name)

  /** The name in the queue. */
  def stored(name: String): Option[String] = place(there, name).toOption.map(there(_).name)

  private def field(beside: StructType, asked: StructField, path: String): Either[String, Part] =
    place(beside, asked.name).left.map(reason => s"$path: $reason").flatMap { at =>
      part(beside(at).name, at, beside(at).dataType, asked.dataType, path)
    }

  /** A name that is written the same way goes before one in another case. */
  private def place(beside: StructType, name: String): Either[String, Int] = {
    val same = beside.fieldNames.indexOf(name)
    val alike = if (isCaseSensitive) IndexedSeq.empty
      else beside.indices.filter(at => beside(at).name.equalsIgnoreCase(name))
    if (same >= 0) Right(same)
    else if (alike.size == 1) Right(alike.head)
    else Left(if (alike.isEmpty) "not in the queue" else s"may be any of ${alike.map(beside(_).name).mkString(", ")}")
  }

  private def part(name: String, at: Int, stored: DataType, asked: DataType, path: String): Either[String, Part] = {
    def nested(found: Seq[Either[String, Part]]): Either[String, Part] =
      found.collectFirst { case Left(reason) => Left(reason) }
        .getOrElse(Right(Part(name, at, asked, isWider = false, found.collect { case Right(part) => part }.toIndexedSeq)))
    (stored, asked) match {
      case (all: StructType, some: StructType) =>
        nested(some.fields.toSeq.map(each => field(all, each, s"$path.${each.name}")))
      case (ArrayType(of, _), ArrayType(wanted, _)) => nested(Seq(part("element", 0, of, wanted, s"$path.element")))
      case (MapType(key, value, _), MapType(keyWanted, valueWanted, _)) =>
        nested(Seq(part("key", 0, key, keyWanted, s"$path.key"), part("value", 1, value, valueWanted, s"$path.value")))
      case (_: StringType, _: StringType) => Right(Part(name, at, asked, isWider = false, IndexedSeq.empty))
      // The values are the same: how many digits or which fields are shown is the table's to say.
      case (_: DayTimeIntervalType, _: DayTimeIntervalType) => Right(Part(name, at, asked, isWider = false, IndexedSeq.empty))
      case _ if SparkTypes.isTimeOfDay(stored) && SparkTypes.isTimeOfDay(asked) =>
        Right(Part(name, at, asked, isWider = false, IndexedSeq.empty))
      case (TimestampType, _) if NanoTimestamps.isOne(asked) && NanoTimestamps.hasZone(asked) =>
        Right(Part(name, at, asked, isWider = false, IndexedSeq.empty))
      case (TimestampNTZType, _) if NanoTimestamps.isOne(asked) && !NanoTimestamps.hasZone(asked) =>
        Right(Part(name, at, asked, isWider = false, IndexedSeq.empty))
      case _ if stored == asked => Right(Part(name, at, asked, isWider = false, IndexedSeq.empty))
      case _ if Wider.get(stored).exists(_.contains(asked)) =>
        Right(Part(name, at, asked, isWider = true, IndexedSeq.empty))
      case _ => Left(s"$path: ${stored.sql} in the queue, ${asked.sql} asked for")
    }
  }
}

private[cecstore] object Parts {
  /** Numbers that Parquet's reader takes for another type, too, and loses nothing. */
  private val Wider: Map[DataType, Set[DataType]] = Map(
    ByteType -> Set(ShortType, IntegerType, LongType, DoubleType),
    ShortType -> Set(IntegerType, LongType, DoubleType),
    IntegerType -> Set(LongType, DoubleType),
    FloatType -> Set(DoubleType))
}

/** Numbers as a wider type. */
private[columns] final class WiderVector(kind: DataType, stored: ColumnVector) extends ConvertedVector(kind, stored) {
  override def getShort(row: Int): Short = stored.getByte(row)
  override def getInt(row: Int): Int = stored.dataType match {
    case ByteType => stored.getByte(row)
    case _ => stored.getShort(row)
  }
  override def getLong(row: Int): Long = stored.dataType match {
    case IntegerType => stored.getInt(row)
    case _ => getInt(row)
  }
  override def getDouble(row: Int): Double = stored.dataType match {
    case FloatType => stored.getFloat(row)
    case _ => getLong(row).toDouble
  }
}
