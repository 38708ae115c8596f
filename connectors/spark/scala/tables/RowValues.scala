package org.apache.spark.sql.cecstore.tables

import scala.jdk.CollectionConverters._
import org.apache.arrow.vector.{FieldVector, TimeNanoVector, ValueVector}
import org.apache.arrow.vector.complex.{ListVector, StructVector}
import org.apache.spark.sql.cecstore.format.SchemaMismatch
import org.apache.spark.sql.types.{DecimalType, StructType}

/** Values that readers would take for damage are refused before they are written. docs/format.md §6, *values*. */
private[tables] object RowValues {
  private val DayNs = 24L * 3600 * 1000000000

  /**
   * Raises SchemaMismatch, naming column and row.
   *
   * @param firstRow the number of the first row among those of its task
   */
  def check(columns: Seq[FieldVector], rows: Int, firstRow: Long): Unit = columns.foreach { column =>
    val row = firstBad(column, rows)
    if (row >= 0) throw SchemaMismatch(
      Seq(column.getName), s"column '${column.getName}', row ${firstRow + row} of its task: a time of " +
      "day that is not within 24 h, which no reader would take; mend the row")
  }

  /** Of a row with a decimal that Arrow refuses, whose column it does not say. */
  def decimalRefused(rowType: StructType, row: Long, reason: UnsupportedOperationException): SchemaMismatch = {
    val names = rowType.fields.filter(_.dataType.existsRecursively(_.isInstanceOf[DecimalType])).map(_.name)
    SchemaMismatch(names.toSeq, s"row $row of its task has a decimal of more digits than its type, in a column of " +
      s"${names.mkString(", ")} (${reason.getMessage}); mend the row, or cast the column")
  }

  /** The first row with such a value; −1 where there is none. */
  private def firstBad(vector: ValueVector, rows: Int): Int = vector match {
    case times: TimeNanoVector => (0 until rows).indexWhere { row =>
      !times.isNull(row) && (times.get(row) < 0 || times.get(row) >= DayNs)
    }
    case struct: StructVector =>
      val found = struct.getChildrenFromFields.asScala.map(firstBad(_, rows)).filter(_ >= 0)
      found.minOption.getOrElse(-1)
    case list: ListVector if rows > 0 => // maps as well
      val value = firstBad(list.getDataVector, list.getElementEndIndex(rows - 1))
      if (value < 0) -1 else (0 until rows).indexWhere(list.getElementEndIndex(_) > value)
    case _ => -1
  }
}
