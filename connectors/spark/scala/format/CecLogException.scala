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
 * @param condition the error class, by which programs tell errors apart
 */
class CecLogException(message: String, cause: Throwable = null, named: Map[String, String] = Map.empty,
    condition: String = "CEC_LOG") extends IOException(message, cause) with SparkThrowable {
  override def getCondition: String = condition
  override def getMessageParameters: JMap[String, String] = (named + ("reason" -> message)).asJava

  /** The same error with another message, and these parameters beside its own. */
  private[cecstore] def told(message: String, more: Map[String, String]): CecLogException =
    new CecLogException(message, this, getMessageParameters.asScala.toMap ++ more, getCondition)
}
