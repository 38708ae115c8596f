// Not in cecstore.format: users see this class by its name, in their logs and where they catch it.
package org.apache.spark.sql.cecstore

import java.io.IOException

/** A log that cannot be read or written. The message names the file, the byte and what to do. */
class CecLogException(message: String, cause: Throwable = null) extends IOException(message, cause)
