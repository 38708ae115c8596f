package org.apache.spark.sql.cecstore.columns

import scala.jdk.CollectionConverters._
import org.apache.arrow.vector.types.{FloatingPointPrecision, TimeUnit}
import org.apache.arrow.vector.types.pojo.{ArrowType, Field}
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.sparks.TimesOfDay
import org.apache.spark.sql.types._

/** How Spark sees a queue's columns: types that it lacks become wider ones. */
private[cecstore] object SparkTypes {
  /** Columns of Spark for those of a queue; raises for a type that Spark does not have, naming the column. */
  def columns(fields: Seq[Field]): Seq[StructField] = fields.map { field =>
    val kind = try of(field) catch {
      case e: NoSuchType => throw new CecLogException(
        s"column '${field.getName}' is ${field.getType}, which Spark does not have: ${e.getMessage}",
        named = Map("column" -> field.getName))
    }
    StructField(field.getName, kind)
  }

  /** A class that older Sparks do not have. */
  def isTimeOfDay(kind: DataType): Boolean = kind.typeName.matches("time\\([0-9]\\)")

  final class NoSuchType(kind: ArrowType) extends Exception(s"there is nothing for $kind")

  def of(field: Field): DataType = field.getType match {
    case _: ArrowType.Null => NullType
    case _: ArrowType.Bool => BooleanType
    case int: ArrowType.Int => ofInt(int)
    case float: ArrowType.FloatingPoint =>
      if (float.getPrecision == FloatingPointPrecision.DOUBLE) DoubleType else FloatType
    case decimal: ArrowType.Decimal if decimal.getPrecision <= DecimalType.MAX_PRECISION && decimal.getScale >= 0 &&
      decimal.getScale <= decimal.getPrecision => DecimalType(decimal.getPrecision, decimal.getScale)
    case _: ArrowType.Utf8 | _: ArrowType.LargeUtf8 => StringType
    case _: ArrowType.Binary | _: ArrowType.LargeBinary | _: ArrowType.FixedSizeBinary => BinaryType
    case _: ArrowType.Date => DateType
    case timestamp: ArrowType.Timestamp =>
      if (timestamp.getTimezone == null || timestamp.getTimezone.isEmpty) TimestampNTZType else TimestampType
    case _: ArrowType.Duration => DayTimeIntervalType()
    case time: ArrowType.Time => TimesOfDay.of(digitsOf(time.getUnit)).getOrElse(throw new NoSuchType(time))
    case _: ArrowType.List | _: ArrowType.LargeList | _: ArrowType.FixedSizeList =>
      ArrayType(of(field.getChildren.get(0)))
    case _: ArrowType.Struct if isVariant(field) => VariantType
    case _: ArrowType.Struct => StructType(field.getChildren.asScala.toSeq.map(f => StructField(f.getName, of(f))))
    case _: ArrowType.Map =>
      val parts = field.getChildren.get(0).getChildren
      MapType(of(parts.get(0)), of(parts.get(1)))
    case other => throw new NoSuchType(other)
  }

  /** As Arrow's extension type of variants has it, of which no part is stored as a column of its own. */
  def isVariant(field: Field): Boolean =
    field.getMetadata.get(ExtensionName) == Variant && field.getChildren.size == 2 &&
      VariantParts.forall(name => field.getChildren.asScala.exists(part => part.getName == name && part.getType == ArrowType.Binary.INSTANCE))

  val ExtensionName = "ARROW:extension:name"
  val Variant = "arrow.parquet.variant"
  /** In the order in which Spark reads them. */
  val VariantParts: Seq[String] = Seq("value", "metadata")

  private def digitsOf(unit: TimeUnit): Int = unit match {
    case TimeUnit.SECOND => 0
    case TimeUnit.MILLISECOND => 3
    case TimeUnit.MICROSECOND => 6
    case TimeUnit.NANOSECOND => 9
  }

  private def ofInt(int: ArrowType.Int): DataType = (int.getBitWidth, int.getIsSigned) match {
    case (8, true) => ByteType
    case (16, true) | (8, false) => ShortType
    case (32, true) | (16, false) => IntegerType
    case (64, true) | (32, false) => LongType
    case _ => DecimalType(20, 0)
  }
}
