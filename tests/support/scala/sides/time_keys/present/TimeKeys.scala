package org.apache.spark.sql.cecstore.testing

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** Keys that begin or end with a time, which lies in order. */
object TimeKeys {
  val first: Option[StructType => KeyStateEncoderSpec] = Some(TimestampAsPrefixKeyStateEncoderSpec(_))
  val last: Option[StructType => KeyStateEncoderSpec] = Some(TimestampAsPostfixKeyStateEncoderSpec(_))
}
