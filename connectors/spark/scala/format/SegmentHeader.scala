package org.apache.spark.sql.cecstore.format

/**
 * The first 128 bytes of a segment. docs/format.md §3; `epoch` is always 0 in state logs.
 *
 * @param flags of `SegmentHeader`, such as `Compacted`
 */
private[cecstore] final case class SegmentHeader(
    logId: Array[Byte], segmentId: Long, salt: Long, firstSeq: Long, prevSegment: Long, prevBytes: Long,
    prevSalt: Long, prevRunningCrc: Int, createdUs: Long, flags: Int = 0) {
  import Format._

  def encoded: Array[Byte] = {
    val bytes = new Array[Byte](HeaderBytes)
    val out = littleEndian(bytes)
    out.put(SegmentHeader.Magic).putShort(1).putShort(HeaderBytes.toShort).putInt(0).put(logId)
    out.putLong(segmentId).putLong(salt).putLong(firstSeq)
    out.putLong(prevSegment).putLong(prevBytes).putLong(prevSalt)
    out.putInt(prevRunningCrc).putInt(flags).putLong(createdUs)
    out.putInt(124, crc32c(bytes, 124))
    bytes
  }
}

private[cecstore] object SegmentHeader {
  import Format._

  /** Maintenance wrote it, of frames or records of other segments. */
  val Compacted = 1

  private val Magic = "CECSEGM\u0000".getBytes("US-ASCII")

  /** Checked in this order: length, magic, CRC, version, flags. */
  def decode(bytes: Array[Byte]): SegmentHeader = {
    if (bytes.length < HeaderBytes) throw new BadFrame(s"segment header cut short at ${bytes.length}")
    if (!bytes.startsWith(Magic)) throw new BadFrame("segment magic is wrong")
    val in = littleEndian(bytes)
    if (in.getInt(124) != crc32c(bytes, 124)) throw new BadFrame("segment header fails its checksum")
    if (in.getShort(8) != 1) throw new NewerFrame(s"format version ${in.getShort(8)}")
    if ((in.getInt(84) & ~Compacted) != 0) throw new NewerFrame(s"segment flags ${in.getInt(84)}: unknown")
    SegmentHeader(bytes.slice(16, 32), in.getLong(32), in.getLong(40), in.getLong(48), in.getLong(56),
      in.getLong(64), in.getLong(72), in.getInt(80), in.getLong(88), in.getInt(84))
  }
}
