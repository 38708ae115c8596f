// Not in cecstore.format: users see this class by its name, in their logs and where they catch it.
package org.apache.spark.sql.cecstore

import java.io.IOException
import java.util.{Map => JMap}
import scala.jdk.CollectionConverters._
import org.apache.spark.SparkThrowable

/**
 * A log that cannot be read or written. The message names the file, the byte and what to do.
 *
 * @param named what of it programs may want, beside the reason
 */
class CecLogException(message: String, cause: Throwable = null, named: Map[String, String] = Map.empty)
    extends IOException(message, cause) with SparkThrowable {
  /** The error class, by which programs tell errors apart. */
  override def getCondition: String = "CEC_LOG"
  override def getMessageParameters: JMap[String, String] = (named + ("reason" -> message)).asJava
}
