package org.apache.spark.sql.cecstore.sparks

import org.apache.spark.sql.types.{DataType, TimeType}

/** This Spark has times of day. */
private[cecstore] object TimesOfDay {
  val kind: Option[DataType] = Some(TimeType())
}
