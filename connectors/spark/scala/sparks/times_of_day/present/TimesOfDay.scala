package org.apache.spark.sql.cecstore.sparks

import org.apache.spark.sql.types.{DataType, TimeType}

/** This Spark has times of day. */
private[cecstore] object TimesOfDay {
  /** Of so many digits below a second, or of as many as this Spark has. */
  def of(digits: Int): Option[DataType] = Some(TimeType(math.min(digits, TimeType.MAX_PRECISION)))
}
