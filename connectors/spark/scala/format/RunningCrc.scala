package org.apache.spark.sql.cecstore.format

/** The running CRC of a segment: over the checksums of its headers so far, in order. docs/format.md §4. */
private[cecstore] object RunningCrc {
  private val Polynomial = 0x82f63b78 // Castagnoli's, reversed

  /**
   * The running CRC after one more header; 0 before the first. Java's own CRC cannot go on from a number.
   *
   * @param header as stored: its last 4 bytes are its checksum
   */
  def extended(before: Int, header: Array[Byte]): Int = {
    var crc = ~before
    var at = Format.HeaderBytes - 4
    while (at < Format.HeaderBytes) {
      crc ^= header(at) & 0xff
      var bit = 0
      while (bit < 8) { crc = (crc >>> 1) ^ (Polynomial & -(crc & 1)); bit += 1 }
      at += 1
    }
    ~crc
  }
}
