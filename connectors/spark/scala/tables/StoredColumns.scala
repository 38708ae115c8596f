package org.apache.spark.sql.cecstore.tables

import scala.jdk.CollectionConverters._
import org.apache.arrow.vector.types.{DateUnit, FloatingPointPrecision, TimeUnit}
import org.apache.arrow.vector.types.pojo.{ArrowType, Field, FieldType, Schema}
import org.apache.spark.sql.types._

/** Columns that a queue cannot hold, or that are not its own. */
private[cecstore] final class SchemaMismatch(message: String) extends IllegalArgumentException(message)

/** The columns of a queue: the user's, some of which say when and about what a row is. docs/format.md §6. */
private[cecstore] final case class StoredColumns(
    data: Seq[Field], timestampColumn: Option[String], keyColumns: Seq[String]) {

  /** The record schema, as SCHEMA frames have it. */
  def schema: Schema = new Schema((StoredColumns.ofLog ++ data).asJava, metadata.asJava)

  private def metadata: Map[String, String] = {
    val keys = Option.when(keyColumns.nonEmpty)(keyColumns.map(StoredColumns.quoted).mkString("[", ", ", "]"))
    timestampColumn.map(StoredColumns.TimestampColumn -> _).toMap ++ keys.map(StoredColumns.KeyColumns -> _)
  }

  /** Whether another schema is stored as this one. */
  def isAs(stored: Schema): Boolean =
    stored.getFields == schema.getFields && stored.getCustomMetadata == schema.getCustomMetadata
}

private[cecstore] object StoredColumns {
  val TimestampColumn = "cec.timestamp_column"
  val KeyColumns = "cec.key_columns"
  private def field(name: String, kind: ArrowType, children: Field*): Field =
    new Field(name, FieldType.nullable(kind), children.asJava)
  private val utc = new ArrowType.Timestamp(TimeUnit.MICROSECOND, "UTC")
  private val ofLog = Seq(field("_kind", new ArrowType.Int(8, false)), field("_timestamp", utc))

  /** Back from a record schema that this object has made. */
  def of(stored: Schema): StoredColumns = StoredColumns(stored.getFields.asScala.toSeq.drop(ofLog.size),
    Option(stored.getCustomMetadata.get(TimestampColumn)), Nil)

  /** For the rows of a query. Raises SchemaMismatch for a column that would not come back as it is. */
  def of(columns: StructType, timestampColumn: Option[String], keyColumns: Seq[String]): StoredColumns = {
    val data = columns.fields.toSeq.map { column =>
      val kind = column.dataType.simpleString
      arrow(column.name, column.dataType)
        .getOrElse(refuse(s"column '${column.name}' is $kind, which a queue cannot hold: cast it"))
    }
    val names = data.map(_.getName)
    if (names.distinct.size < names.size) refuse(s"columns of one name: ${names.sorted.mkString(", ")}")
    names.find(_.startsWith("_")).foreach(name => refuse(s"column '$name': names that start with _ are reserved"))
    timestampColumn.foreach { name =>
      val column = data.find(_.getName == name).getOrElse(refuse(s"there is no timestamp column '$name'"))
      if (!isTimestamp(column.getType)) refuse(
        s"column '$name': timestamps are an Arrow timestamp or int64 microseconds since 1970, not ${column.getType}")
    }
    keyColumns.find(!names.contains(_)).foreach(name => refuse(s"there is no key column '$name'"))
    StoredColumns(data, timestampColumn, keyColumns)
  }

  private def refuse(message: String): Nothing = throw new SchemaMismatch(message)

  private def isTimestamp(kind: ArrowType): Boolean = kind match {
    case _: ArrowType.Timestamp => true
    case int: ArrowType.Int => int.getBitWidth == 64 && int.getIsSigned
    case _ => false
  }

  /** A query may know that a column has no nulls, and its next version may not: nulls are allowed in all parts. */
  private def arrow(name: String, kind: DataType): Option[Field] = kind match {
    case ArrayType(element, _) => arrow("item", element).map(field(name, ArrowType.List.INSTANCE, _))
    case MapType(key, value, _) => for (keys <- arrow("key", key); values <- arrow("value", value)) yield {
      val required = new Field("key", FieldType.notNullable(keys.getType), keys.getChildren)
      val entries = new Field("entries", FieldType.notNullable(ArrowType.Struct.INSTANCE), Seq(required, values).asJava)
      field(name, new ArrowType.Map(false), entries)
    }
    case StructType(fields) =>
      val parts = fields.toSeq.map(each => arrow(each.name, each.dataType))
      val isClear = fields.map(_.name).distinct.length == fields.length
      Option.when(isClear && parts.forall(_.nonEmpty))(field(name, ArrowType.Struct.INSTANCE, parts.flatten: _*))
    case simple => arrowType(simple).map(field(name, _))
  }

  private def arrowType(kind: DataType): Option[ArrowType] = kind match {
    case BooleanType => Some(ArrowType.Bool.INSTANCE)
    case ByteType => Some(new ArrowType.Int(8, true))
    case ShortType => Some(new ArrowType.Int(16, true))
    case IntegerType => Some(new ArrowType.Int(32, true))
    case LongType => Some(new ArrowType.Int(64, true))
    case FloatType => Some(new ArrowType.FloatingPoint(FloatingPointPrecision.SINGLE))
    case DoubleType => Some(new ArrowType.FloatingPoint(FloatingPointPrecision.DOUBLE))
    case StringType => Some(ArrowType.Utf8.INSTANCE) // with another collation it is not this object
    case BinaryType => Some(ArrowType.Binary.INSTANCE)
    case decimal: DecimalType => Some(new ArrowType.Decimal(decimal.precision, decimal.scale, 128))
    case DateType => Some(new ArrowType.Date(DateUnit.DAY))
    case TimestampType => Some(utc)
    case TimestampNTZType => Some(new ArrowType.Timestamp(TimeUnit.MICROSECOND, null))
    case time if time.simpleString == "time(6)" => Some(new ArrowType.Time(TimeUnit.NANOSECOND, 64))
    case interval: DayTimeIntervalType =>
      Option.when(interval == DayTimeIntervalType.DEFAULT)(new ArrowType.Duration(TimeUnit.MICROSECOND))
    case NullType => Some(ArrowType.Null.INSTANCE)
    case _ => None
  }

  /** As Python's json writes a text. */
  private def quoted(text: String): String = text.flatMap {
    case '"' => "\\\""
    case '\\' => "\\\\"
    case '\n' => "\\n"
    case '\r' => "\\r"
    case '\t' => "\\t"
    case '\b' => "\\b"
    case '\f' => "\\f"
    case plain if plain >= ' ' && plain <= '~' => plain.toString
    case other => f"\\u${other.toInt}%04x"
  }.mkString("\"", "", "\"")
}
