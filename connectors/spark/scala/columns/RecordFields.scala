package org.apache.spark.sql.cecstore.columns

import scala.jdk.CollectionConverters._
import org.apache.arrow.vector.types.pojo.Field
import org.apache.spark.sql.cecstore.format.{BadFrame, SchemaMessage}

/**
 * The record schema of a queue. docs/format.md §6.
 *
 * @param fields of all columns, `_kind` and `_timestamp` first
 * @param timestampColumn which of the user's columns fills `_timestamp`; none where the writer's clock does
 */
private[cecstore] final case class RecordFields(fields: IndexedSeq[Field], timestampColumn: Option[String]) {
  private val places = fields.map(_.getName).zipWithIndex.toMap

  /** The user's columns. */
  def data: IndexedSeq[Field] = fields.filterNot(_.getName.startsWith("_"))
  /** Where a column stands, and whether there is one. */
  def place(name: String): Option[Int] = places.get(name)
}

private[cecstore] object RecordFields {
  val Kind = "_kind"
  val Timestamp = "_timestamp"
  val Key = "_key"
  val State = "_state"
  val Determinant = "_determinant"
  val KindPlace = 0
  val TimestampPlace = 1
  private val TimestampColumn = "cec.timestamp_column"

  private def isKnown(name: String): Boolean =
    name == Key || name == State || name == Determinant || name.startsWith("_input_")

  /** From the body of a SCHEMA frame; raises BadFrame where it is no record schema. */
  def decode(message: Array[Byte]): RecordFields = {
    val schema = SchemaMessage.decode(message)
    val fields = schema.getFields.asScala.toIndexedSeq
    if (fields.map(_.getName).take(2) != Seq(Kind, Timestamp)) {
      throw new BadFrame(s"not a record schema: ${fields.map(_.getName).mkString(", ")}")
    }
    val unknown = fields.map(_.getName).drop(2).filter(name => name.startsWith("_") && !isKnown(name))
    if (unknown.nonEmpty) {
      throw new BadFrame(s"not a record schema of this version: it has the columns ${unknown.mkString(", ")}")
    }
    RecordFields(fields, Option(schema.getCustomMetadata).flatMap(said => Option(said.get(TimestampColumn))))
  }
}
