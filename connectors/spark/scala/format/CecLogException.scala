// Not in cecstore.format: users see this class by its name, in their logs and where they catch it.
package org.apache.spark.sql.cecstore

import java.io.IOException
import java.util.{Collections, Map => JMap}
import org.apache.spark.SparkThrowable

/** A log that cannot be read or written. The message names the file, the byte and what to do. */
class CecLogException(message: String, cause: Throwable = null) extends IOException(message, cause)
    with SparkThrowable {
  /** The error class, by which programs tell errors apart. */
  override def getCondition: String = "CEC_LOG"
  override def getMessageParameters: JMap[String, String] = Collections.singletonMap("reason", message)
}
