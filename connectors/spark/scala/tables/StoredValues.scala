package org.apache.spark.sql.cecstore.tables

import scala.jdk.CollectionConverters._
import org.apache.arrow.vector.types.pojo.Field
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, GenericInternalRow, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.util.{ArrayBasedMapData, ArrayData, GenericArrayData, MapData}
import org.apache.spark.sql.types.{ArrayType, BinaryType, DataType, MapType, StructField, StructType, VariantType}
import org.apache.spark.unsafe.types.VariantVal

/** Values of a row as a queue stores them: of a VARIANT its two parts, in the order that the queue has them in. */
private[tables] object StoredValues {
  /** Whether rows of such a type are stored as others. */
  def areOther(kind: DataType): Boolean = kind.existsRecursively(_ == VariantType)

  /** The column at a place of a row, as it is stored in this field. */
  def at(place: Int, column: StructField, field: Field): Expression = {
    val read = BoundReference(place, column.dataType, column.nullable)
    if (areOther(column.dataType)) StoredValue(read, field) else read
  }

  def typeOf(kind: DataType, field: Field): DataType = kind match {
    case VariantType => StructType(field.getChildren.asScala.toSeq.map(part => StructField(part.getName, BinaryType)))
    case StructType(fields) => StructType(fields.zip(field.getChildren.asScala).map { case (part, stored) =>
      part.copy(dataType = typeOf(part.dataType, stored))
    })
    case ArrayType(element, hasNulls) => ArrayType(typeOf(element, field.getChildren.get(0)), hasNulls)
    case MapType(key, value, hasNulls) =>
      val parts = field.getChildren.get(0).getChildren
      MapType(typeOf(key, parts.get(0)), typeOf(value, parts.get(1)), hasNulls)
    case other => other
  }

  def of(value: Any, kind: DataType, field: Field): Any = if (value == null) null else kind match {
    case VariantType =>
      val variant = value.asInstanceOf[VariantVal]
      InternalRow.fromSeq(field.getChildren.asScala.toSeq.map { part =>
        if (part.getName == "value") variant.getValue else variant.getMetadata
      })
    case StructType(fields) =>
      val row = value.asInstanceOf[InternalRow]
      new GenericInternalRow(fields.indices.map { place =>
        of(row.get(place, fields(place).dataType), fields(place).dataType, field.getChildren.get(place))
      }.toArray[Any])
    case ArrayType(element, _) => ofArray(value.asInstanceOf[ArrayData], element, field.getChildren.get(0))
    case MapType(key, mapped, _) =>
      val (map, parts) = (value.asInstanceOf[MapData], field.getChildren.get(0).getChildren)
      new ArrayBasedMapData(ofArray(map.keyArray, key, parts.get(0)), ofArray(map.valueArray, mapped, parts.get(1)))
    case _ => value
  }

  private def ofArray(values: ArrayData, kind: DataType, field: Field): ArrayData =
    new GenericArrayData(values.toObjectArray(kind).map(of(_, kind, field): Any))
}

private final case class StoredValue(child: Expression, field: Field) extends UnaryExpression with CodegenFallback {
  override def dataType: DataType = StoredValues.typeOf(child.dataType, field)
  override protected def nullSafeEval(value: Any): Any = StoredValues.of(value, child.dataType, field)
  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}
