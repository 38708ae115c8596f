package org.apache.spark.sql.cecstore.source

import org.apache.arrow.vector.types.TimeUnit
import org.apache.arrow.vector.types.pojo.ArrowType
import org.apache.spark.sql.cecstore.columns.RecordFields
import org.apache.spark.sql.connector.expressions.{Literal, NamedReference}
import org.apache.spark.sql.connector.expressions.filter.Predicate

/**
 * The moments that filters on time leave: outside of `lowUs` to `highUs`, both included, no record is wanted.
 *
 * @param stored the name in the queue of a column that the query names
 */
private[cecstore] final class TimeFilters(
    fields: RecordFields, options: SourceOptions, stored: String => Option[String]) {
  var lowUs: Long = Long.MinValue
  var highUs: Long = Long.MaxValue

  private val columns =
    fields.timestampColumn.toSet ++ (if (options.includeMetadata) Set(RecordFields.Timestamp) else Set.empty)
  /** Spark sees nanoseconds without their last three digits, which `_timestamp` may have rounded the other way. */
  private val slackUs: Long = fields.timestampColumn.flatMap(fields.place).map(fields.fields(_).getType) match {
    case Some(timestamp: ArrowType.Timestamp) if timestamp.getUnit == TimeUnit.NANOSECOND => 1
    case _ => 0
  }

  /** Narrow the moments by a filter; whether it says anything about them. */
  def narrow(filter: Predicate): Boolean = filter.children match {
    case Array(column: NamedReference, literal: Literal[_]) => narrow(filter.name, column, literal)
    case Array(literal: Literal[_], column: NamedReference) =>
      narrow(Mirrored.getOrElse(filter.name, ""), column, literal)
    case _ => false
  }

  private val Mirrored = Map("=" -> "=", "<=>" -> "<=>", "<" -> ">", "<=" -> ">=", ">" -> "<", ">=" -> "<=")

  private def narrow(operator: String, column: NamedReference, literal: Literal[_]): Boolean =
    (column.fieldNames, literal.value) match {
      case (Array(name), moment: Long) if stored(name).exists(columns) && Mirrored.contains(operator) =>
        val (isLeast, isGreatest) = (!operator.startsWith("<") || operator == "<=>", !operator.startsWith(">"))
        if (isLeast && moment > Long.MinValue) lowUs = math.max(lowUs, moment - slackUs)
        if (isGreatest && moment < Long.MaxValue) highUs = math.min(highUs, moment + slackUs)
        true
      case _ => false
    }
}
