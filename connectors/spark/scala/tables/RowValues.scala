package org.apache.spark.sql.cecstore.tables

import scala.jdk.CollectionConverters._
import org.apache.arrow.vector.{FieldVector, TimeNanoVector, ValueVector}
import org.apache.arrow.vector.complex.{ListVector, StructVector}
import org.apache.spark.sql.cecstore.format.SchemaMismatch
import org.apache.spark.sql.cecstore.sparks.NanoTimestamps
import org.apache.spark.sql.types.{DataType, DecimalType, StructType}

/** Values that readers would take for damage are refused before they are written. docs/format.md §6, *values*. */
private[tables] object RowValues {
  private val DayNs = 24L * 3600 * 1000000000

  /**
   * Raises SchemaMismatch, naming column and row.
   *
   * @param firstRow the number of the first row among those of its task
   */
  def check(columns: Seq[FieldVector], rows: Int, firstRow: Long): Unit = columns.foreach { column =>
    def refuse(row: Int, reason: String): Unit = if (row >= 0) throw SchemaMismatch(
      Seq(column.getName), s"column '${column.getName}', row ${firstRow + row} of its task: $reason")
    refuse(firstBad(column, rows), "a time of day that is not within 24 h, which no reader would take; mend the row")
    refuse(firstNull(column, rows, _ => true),
      "a null, and the column is NOT NULL; fill it in, or write to a queue whose schema allows nulls")
  }

  /** Of a row with a decimal that Arrow refuses, whose column it does not say. */
  def decimalRefused(rowType: StructType, row: Long, reason: UnsupportedOperationException): SchemaMismatch =
    refused(rowType, _.isInstanceOf[DecimalType], row, "a decimal of more digits than its type", reason)

  /** Of a row with a moment that 64 bits of nanoseconds do not reach, whose column Spark does not say. */
  def momentRefused(rowType: StructType, row: Long, reason: ArithmeticException): SchemaMismatch =
    refused(rowType, NanoTimestamps.isOne, row, "a time before 1677 or after 2262", reason)

  private def refused(rowType: StructType, isOne: DataType => Boolean, row: Long, what: String, reason: Exception) = {
    val names = rowType.fields.filter(_.dataType.existsRecursively(isOne)).map(_.name)
    SchemaMismatch(names.toSeq, s"row $row of its task has $what, in a column of " +
      s"${names.mkString(", ")} (${reason.getMessage}); mend the row, or cast the column")
  }

  /** The first row with a null in a field of the queue that has none, or in one below; −1 where there is none. */
  private def firstNull(vector: FieldVector, rows: Int, isThere: Int => Boolean): Int = {
    val own = if (vector.getField.isNullable || vector.getNullCount == 0) -1
      else (0 until rows).indexWhere(row => isThere(row) && vector.isNull(row))
    val below = vector match {
      case struct: StructVector => struct.getChildrenFromFields.asScala.toSeq
        .map(firstNull(_, rows, row => isThere(row) && !struct.isNull(row)))
      case list: ListVector if rows > 0 =>
        val value = firstNull(list.getDataVector, list.getElementEndIndex(rows - 1), _ => true)
        Seq(if (value < 0) -1 else (0 until rows).indexWhere(list.getElementEndIndex(_) > value))
      case _ => Nil
    }
    (own +: below).filter(_ >= 0).minOption.getOrElse(-1)
  }

  /** The first row with a time of day outside of a day; −1 where there is none. */
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
