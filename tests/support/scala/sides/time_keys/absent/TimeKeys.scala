package org.apache.spark.sql.cecstore.testing

import org.apache.spark.sql.execution.streaming.state.KeyStateEncoderSpec
import org.apache.spark.sql.types.StructType

/** This Spark has no keys that begin or end with a time. */
object TimeKeys {
  val first: Option[StructType => KeyStateEncoderSpec] = None
  val last: Option[StructType => KeyStateEncoderSpec] = None
}
