package org.apache.spark.sql.cecstore.columns

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.sql.types.{ArrayType, DataType, MapType, StructType}
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarArray}

/** Parts of structs, lists and maps that a query takes for NOT NULL: Spark's code does not look for nulls there. */
private[cecstore] object RequiredParts {
  /** Whether a type says of any of its parts that it has no nulls. */
  def areIn(kind: DataType): Boolean = kind match {
    case StructType(fields) => fields.exists(field => !field.nullable || areIn(field.dataType))
    case ArrayType(element, hasNulls) => !hasNulls || areIn(element)
    case MapType(key, value, hasNulls) => !hasNulls || areIn(key) || areIn(value)
    case _ => false
  }

  /** The first of so many rows with a null in such a part; −1 where there is none. */
  def firstNull(column: ColumnVector, kind: DataType, rows: Int): Int = {
    val values = new ColumnarArray(column, 0, rows)
    if (areIn(kind)) (0 until rows).indexWhere(lacks(values, _, kind, isRequired = false)) else -1
  }

  private def lacks(values: SpecializedGetters, at: Int, kind: DataType, isRequired: Boolean): Boolean =
    if (values.isNullAt(at)) isRequired
    else kind match {
      case struct: StructType =>
        val row = values.getStruct(at, struct.size)
        struct.indices.exists(place => lacks(row, place, struct(place).dataType, !struct(place).nullable))
      case ArrayType(element, hasNulls) =>
        val array = values.getArray(at)
        (0 until array.numElements).exists(lacks(array, _, element, !hasNulls))
      case MapType(key, value, hasNulls) =>
        val map = values.getMap(at)
        (0 until map.numElements).exists { place =>
          lacks(map.keyArray, place, key, isRequired = false) || lacks(map.valueArray, place, value, !hasNulls)
        }
      case _ => false
    }
}
