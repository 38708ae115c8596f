package org.apache.spark.sql.cecstore.columns

import scala.jdk.CollectionConverters._
import org.apache.arrow.vector.TypeLayout
import org.apache.arrow.vector.types.pojo.{ArrowType, Field}
import org.apache.spark.sql.types.DataType

/**
 * A field of the record schema, and where it stands in a record batch message.
 *
 * @param number of the field, which is that of its node in the message of a body without dictionaries
 * @param buffer the first of its buffers
 * @param buffers how many it has itself
 * @param indexBytes where it is stored as dictionary and indices (docs/format.md §6, codec 3), else 0
 */
private[cecstore] final class Layout(val field: Field, val number: Int, val buffer: Int, val buffers: Int,
    val indexBytes: Int, val children: IndexedSeq[Layout]) {
  def kind: ArrowType = field.getType
  lazy val sparkType: DataType = SparkTypes.of(field)
  /** One beyond the last field, and one beyond the last buffer, of all below. */
  def endNumber: Int = if (children.isEmpty) number + 1 else children.last.endNumber
  def endBuffer: Int = if (children.isEmpty) buffer + buffers else children.last.endBuffer
}

private[cecstore] object Layout {
  /**
   * The columns of a message.
   *
   * @param listed index bytes of the fields that are stored as dictionary and indices, by number
   */
  def of(fields: Seq[Field], listed: Map[Int, Int]): IndexedSeq[Layout] = new Layouts(listed).siblings(fields, 0, 0)

  /** The fields that may be stored as dictionary and indices, by number: columns, and what is in structs only. */
  def strings(columns: Seq[Layout]): Set[Int] = columns.flatMap { column =>
    column.kind match {
      case _: ArrowType.Utf8 | _: ArrowType.Binary | _: ArrowType.LargeUtf8 | _: ArrowType.LargeBinary =>
        Set(column.number)
      case _: ArrowType.Struct => strings(column.children)
      case _ => Set.empty[Int]
    }
  }.toSet

  private final class Layouts(listed: Map[Int, Int]) {
    def siblings(fields: Seq[Field], number: Int, buffer: Int): IndexedSeq[Layout] = {
      var (nextNumber, nextBuffer) = (number, buffer)
      fields.toIndexedSeq.map { field =>
        val found = one(field, nextNumber, nextBuffer)
        nextNumber = found.endNumber
        nextBuffer = found.endBuffer
        found
      }
    }

    private def one(field: Field, number: Int, buffer: Int): Layout = {
      val indexBytes = listed.getOrElse(number, 0)
      val buffers = if (indexBytes > 0) 2 else ownBuffers(field.getType)
      val children = siblings(field.getChildren.asScala.toSeq, number + 1, buffer + buffers)
      new Layout(field, number, buffer, buffers, indexBytes, children)
    }

    private def ownBuffers(kind: ArrowType): Int = kind match {
      // Metadata of version 5: a union has no validity of its own.
      case union: ArrowType.Union => if (union.getMode == org.apache.arrow.vector.types.UnionMode.Dense) 2 else 1
      case _: ArrowType.Null => 0
      case _ => TypeLayout.getTypeBufferCount(kind)
    }
  }
}
