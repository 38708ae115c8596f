package org.apache.spark.sql.cecstore.format

/** These bytes are not the header or body asked for; who knows the file makes a CecLogException of it. */
private[cecstore] class BadFrame(val reason: String) extends Exception(reason)

/** They are sound, and of a later format. */
private[cecstore] final class NewerFrame(what: String) extends BadFrame(s"$what: upgrade cec-store")
