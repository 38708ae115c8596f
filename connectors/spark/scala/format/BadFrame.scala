package org.apache.spark.sql.cecstore.format

import org.apache.spark.sql.cecstore.CecLogException

/** These bytes are not the header or body asked for; who knows the file makes a CecLogException of it. */
private[cecstore] class BadFrame(val reason: String) extends Exception(reason)

/** A file whose bytes are not those that were acknowledged. */
private[cecstore] final class DamagedLog(file: String, what: String)
    extends CecLogException(s"$file: $what", named = Map("file" -> file)) {
  override def getCondition: String = "CEC_DAMAGED"
}

private[cecstore] object DamagedLog {
  def apply(path: String, byte: Long, reason: String): CecLogException =
    new DamagedLog(path, s"byte $byte: $reason. Restore this file from a copy")

  /** The error for bytes that ought to be sound. Those of a later format are no damage. */
  def apply(path: String, byte: Long, why: BadFrame): CecLogException = why match {
    case _: NewerFrame => new CecLogException(s"$path: byte $byte: ${why.reason}", named = Map("path" -> path))
    case _ => DamagedLog(path, byte, why.reason)
  }
}

/** They are sound, and of a later format. */
private[cecstore] final class NewerFrame(what: String) extends BadFrame(s"$what: upgrade cec-store")
