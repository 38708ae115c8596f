package org.apache.spark.sql.cecstore.format

import java.util.zip.CRC32C

/** The running CRC of a segment: over the checksums of its headers so far, in order. docs/format.md §4. */
private[cecstore] final class RunningCrc {
  private val crc = new CRC32C

  /** @param header as stored: its last 4 bytes are its checksum */
  def add(header: Array[Byte]): Unit = crc.update(header, Format.HeaderBytes - 4, 4)
  def value: Int = crc.getValue.toInt
}
