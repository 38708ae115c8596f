package org.apache.spark.sql.cecstore.tables

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import org.apache.arrow.vector.types.{DateUnit, FloatingPointPrecision, TimeUnit}
import org.apache.arrow.vector.types.pojo.{ArrowType, Field, FieldType, Schema}
import org.apache.spark.sql.cecstore.columns.SparkTypes
import org.apache.spark.sql.cecstore.format.SchemaMismatch
import org.apache.spark.sql.cecstore.sparks.NanoTimestamps
import org.apache.spark.sql.types._

/**
 * The columns of a queue: the user's, some of which say when and about what a row is. docs/format.md §6.
 *
 * @param isCaseSensitive whether names in another case are others, as the session says
 */
private[cecstore] final case class StoredColumns(
    data: Seq[Field], timestampColumn: Option[String], keyColumns: Seq[String], isCaseSensitive: Boolean) {

  /** The record schema, as SCHEMA frames have it. */
  def schema: Schema = new Schema((StoredColumns.ofLog ++ data).asJava, metadata.asJava)

  private def metadata: Map[String, String] = {
    val keys = Option.when(keyColumns.nonEmpty)(keyColumns.map(StoredColumns.quoted).mkString("[", ", ", "]"))
    timestampColumn.map(StoredColumns.TimestampColumn -> _).toMap ++ keys.map(StoredColumns.KeyColumns -> _)
  }

  /** Where each column of a queue is among these, which may be in another order; or what differs. */
  def placesIn(stored: Schema): Either[Seq[(String, String)], IndexedSeq[Int]] = {
    val theirs = stored.getFields.asScala.toIndexedSeq.drop(StoredColumns.ofLog.size)
    val places = placesOf(theirs.map(_.getName))
    val found = theirs.zip(places).collect { case (field, place) if place >= 0 => field -> data(place) }
    val missing = theirs.zip(places).collect { case (field, -1) => field.getName -> "not in the query" }
    val more = data.indices.filterNot(places.contains).map(at => data(at).getName -> "not in the queue")
    val others = found.collect { case (field, own) if !isSame(field, own) => StoredColumns.difference(field, own) }
    val renamed = copy(timestampColumn = timestampColumn.map(named(theirs, _)), keyColumns = keyColumns.map(named(theirs, _)))
    val said = stored.getCustomMetadata.asScala
    val roles = StoredColumns.Roles.collect { case (role, option) if said.get(role) != renamed.metadata.get(role) =>
      option -> s"${said.getOrElse(role, "none")} in the queue, ${renamed.metadata.getOrElse(role, "none")} in the query"
    }
    val differences = missing ++ more ++ others ++ roles
    Either.cond(differences.isEmpty, places, differences)
  }

  /** By the very name first; then one in another case, which is nobody's yet. -1 where there is none. */
  private def placesOf(names: IndexedSeq[String]): IndexedSeq[Int] = {
    val exact = names.map(name => data.indexWhere(_.getName == name))
    val taken = mutable.Set.from(exact)
    names.zip(exact).map {
      case (name, -1) =>
        val place = data.indices.find(at => !taken(at) && isSameName(data(at).getName, name)).getOrElse(-1)
        taken += place
        place
      case (_, place) => place
    }
  }

  private def isSameName(one: String, other: String): Boolean =
    if (isCaseSensitive) one == other else one.equalsIgnoreCase(other)

  private def named(fields: Seq[Field], name: String): String =
    fields.map(_.getName).find(_ == name).orElse(fields.map(_.getName).find(isSameName(_, name))).getOrElse(name)

  /** Nulls, metadata and the names of fields in lists and maps are not compared: the queue keeps its own. */
  private def isSame(one: Field, other: Field): Boolean = if (SparkTypes.isVariant(one) || SparkTypes.isVariant(other)) {
    SparkTypes.isVariant(one) && SparkTypes.isVariant(other) // its parts stand in either order
  } else {
    val areNamed = one.getType == ArrowType.Struct.INSTANCE
    isSameType(one.getType, other.getType) && one.getChildren.size == other.getChildren.size &&
      one.getChildren.asScala.zip(other.getChildren.asScala).forall { case (a, b) =>
        (!areNamed || isSameName(a.getName, b.getName)) && isSame(a, b)
      }
  }

  private def isSameType(one: ArrowType, other: ArrowType): Boolean = (one, other) match {
    case (_: ArrowType.Map, _: ArrowType.Map) => true // sorted keys or not
    case _ => one == other
  }
}

private[cecstore] object StoredColumns {
  val TimestampColumn = "cec.timestamp_column"
  val KeyColumns = "cec.key_columns"
  private val Roles = Seq(TimestampColumn -> "timestampColumn", KeyColumns -> "keyColumns")
  private def field(name: String, kind: ArrowType, children: Field*): Field =
    new Field(name, FieldType.nullable(kind), children.asJava)
  private val utc = new ArrowType.Timestamp(TimeUnit.MICROSECOND, "UTC")
  private val ofLog = Seq(field("_kind", new ArrowType.Int(8, false)), field("_timestamp", utc))

  /** Back from a record schema that this object has made. */
  def of(stored: Schema): StoredColumns = StoredColumns(stored.getFields.asScala.toSeq.drop(ofLog.size),
    Option(stored.getCustomMetadata.get(TimestampColumn)), Nil, isCaseSensitive = true)

  /** For the rows of a query. Raises SchemaMismatch for a column that would not come back as it is. */
  def of(columns: StructType, timestampColumn: Option[String], keyColumns: Seq[String], isCaseSensitive: Boolean):
      StoredColumns = {
    val data = columns.fields.toSeq.map { column =>
      val kind = column.dataType.simpleString
      arrow(column.name, column.dataType).getOrElse(refuse(column.name, s"column '${column.name}' is $kind, which " +
        s"a queue cannot hold: write ${RefusedTypes.instead(column.dataType).getOrElse("a column of another type")}"))
    }
    val names = data.map(_.getName)
    def isSame(one: String)(other: String) = if (isCaseSensitive) one == other else one.equalsIgnoreCase(other)
    names.find(name => names.count(isSame(name)) > 1).foreach(name => refuse(name, s"columns of one name: ${names.sorted.mkString(", ")}"))
    names.find(_.startsWith("_")).foreach(name => refuse(name, s"column '$name': names that start with _ are reserved"))
    val timestamps = timestampColumn.map { name =>
      val column = data.find(field => isSame(name)(field.getName)).getOrElse(refuse(name, s"there is no timestamp column '$name'"))
      if (!isTimestamp(column.getType)) refuse(name,
        s"column '$name': timestamps are an Arrow timestamp or int64 microseconds since 1970, not ${column.getType}")
      column.getName
    }
    val keys = keyColumns.map(name => names.find(isSame(name)).getOrElse(refuse(name, s"there is no key column '$name'")))
    StoredColumns(data, timestamps, keys, isCaseSensitive)
  }

  private def refuse(column: String, message: String): Nothing = throw SchemaMismatch(Seq(column), message)

  private def difference(stored: Field, own: Field): (String, String) = {
    val kinds = Seq(stored, own).map(field => try SparkTypes.of(field).sql catch {
      case _: SparkTypes.NoSuchType => field.getType.toString
    })
    // Units of times are not in Spark's types.
    val shown = if (kinds.distinct.size > 1) kinds else Seq(stored, own).map(_.toString)
    own.getName -> s"${shown(0)} in the queue, ${shown(1)} in the query"
  }

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
    case VariantType =>
      val parts = Seq("metadata", "value").map(part => new Field(part, FieldType.notNullable(ArrowType.Binary.INSTANCE), null))
      val said = Map(SparkTypes.ExtensionName -> SparkTypes.Variant, "ARROW:extension:metadata" -> "")
      Some(new Field(name, new FieldType(true, ArrowType.Struct.INSTANCE, null, said.asJava), parts.asJava))
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
    // Spark keeps all of them as nanoseconds, and all of these as microseconds: a table says how many digits and which fields.
    case time if SparkTypes.isTimeOfDay(time) => Some(new ArrowType.Time(TimeUnit.NANOSECOND, 64))
    case nanos if NanoTimestamps.isOne(nanos) =>
      Some(new ArrowType.Timestamp(TimeUnit.NANOSECOND, if (NanoTimestamps.hasZone(nanos)) "UTC" else null))
    case _: DayTimeIntervalType => Some(new ArrowType.Duration(TimeUnit.MICROSECOND))
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
