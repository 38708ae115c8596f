package org.apache.spark.sql.cecstore.sparks

import org.apache.spark.sql.types.DataType

/** This Spark has no times of day. */
private[cecstore] object TimesOfDay {
  def of(digits: Int): Option[DataType] = None
}
