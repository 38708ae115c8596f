package org.apache.spark.sql.cecstore.format

/**
 * The first 128 bytes of a frame. docs/format.md §4.
 *
 * @param chainCrc the segment's running CRC before the frame
 */
private[cecstore] final case class FrameHeader(
    kind: Byte, codec: Byte, flags: Short, streamId: Int, chainCrc: Int, seq: Long, firstOffset: Long, prevSegment: Long,
    prevByte: Long, schemaByte: Long, durableUpto: Long, salt: Long, minTimestampUs: Long,
    maxTimestampUs: Long, extentRecords: Long, inputUpto: Long, recordCount: Int, openWindows: Int,
    bodyBytes: Int, rawBytes: Int, bodyCrc: Int) {
  import Format._

  def frameBytes: Long = HeaderBytes.toLong + bodyBytes
  def endOffset: Long = firstOffset + recordCount
  def isBatch: Boolean = kind == Batch
  /** The number of the frame behind it. */
  def nextSeq: Long = if (isBatch) seq + 1 else seq
  /** Whether both are one frame, perhaps with another address: maintenance has copied it into a merged segment. */
  def isCopyOf(other: FrameHeader): Boolean = copy(chainCrc = other.chainCrc, prevSegment = other.prevSegment,
    prevByte = other.prevByte, schemaByte = other.schemaByte, durableUpto = other.durableUpto, salt = other.salt) == other
  /** Whether its step goes on in the next frame. */
  def continues: Boolean = (flags & Continues) != 0
  /** Whether a version ends with this frame: only there the windows are counted. */
  def endsVersion: Boolean = (flags & Counted) != 0
  def endsVersion(version: Long): Boolean = endsVersion && inputUpto == version

  /** Raises BadFrame unless these are the stored bytes of its body. */
  def proveBody(bytes: Array[Byte], from: Int = 0): Unit =
    if (crc32c(bytes, bodyBytes, from) != bodyCrc) throw new BadFrame("body fails its checksum")

  def encoded: Array[Byte] = {
    val bytes = new Array[Byte](HeaderBytes)
    val out = littleEndian(bytes)
    out.putInt(FrameHeader.Magic).put(kind).put(codec).putShort(flags).putInt(streamId)
    out.putInt(chainCrc).putLong(seq).putLong(firstOffset).putLong(prevSegment).putLong(prevByte)
    out.putLong(schemaByte).putLong(durableUpto).putLong(salt).putLong(minTimestampUs)
    out.putLong(maxTimestampUs).putLong(extentRecords).putLong(inputUpto).putInt(recordCount)
    out.putInt(openWindows).putInt(bodyBytes).putInt(rawBytes).putInt(bodyCrc)
    out.putInt(124, crc32c(bytes, 124))
    bytes
  }
}

private[cecstore] object FrameHeader {
  import Format._

  val Magic: Int = 0x46434543 // "CECF"
  private val OfSegments = Set(Batch, Schema)

  /** Of a queue of operators or of many partitions. */
  def decodeOfQueue(bytes: Array[Byte]): FrameHeader = decode(bytes, CodecColumns, Continues | Counted)

  /** Of an object of `log/`. */
  def decodeOfCommit(bytes: Array[Byte]): FrameHeader = decode(bytes, CodecZstd, kinds = Set(Commit))

  /**
   * The CRC is proven before anything in the header is believed.
   *
   * @param codecMax state logs have none of the later codecs
   * @param flagsKnown that a BATCH frame may have; steps of state logs are told by their versions
   */
  def decode(bytes: Array[Byte], codecMax: Byte = CodecBlocks, flagsKnown: Int = Counted,
      kinds: Set[Byte] = OfSegments): FrameHeader = {
    if (bytes.length < HeaderBytes) throw new BadFrame("frame header cut short")
    val in = littleEndian(bytes)
    if (in.getInt(0) != Magic) throw new BadFrame("frame magic is wrong")
    if (in.getInt(124) != crc32c(bytes, 124)) throw new BadFrame("frame header fails its checksum")
    val h = FrameHeader(in.get(4), in.get(5), in.getShort(6), in.getInt(8), in.getInt(12), in.getLong(16), in.getLong(24),
      in.getLong(32), in.getLong(40), in.getLong(48), in.getLong(56), in.getLong(64), in.getLong(72), in.getLong(80),
      in.getLong(88), in.getLong(96), in.getInt(104), in.getInt(108), in.getInt(112), in.getInt(116),
      in.getInt(120))
    if (!kinds(h.kind)) throw new NewerFrame(s"frame of unknown type ${h.kind}")
    val (codec, unknown) = (h.codec & 0xff, h.flags & ~(if (h.isBatch) flagsKnown else 0))
    if (codec > codecMax || unknown != 0) throw new NewerFrame(s"frame with flags ${h.flags}, codec $codec: unknown")
    if (h.seq < 0 || h.firstOffset < 0 || h.recordCount < 0 || h.endOffset < 0) {
      throw new BadFrame(s"number ${h.seq}, offset ${h.firstOffset} or ${h.recordCount} records: beyond the limits")
    }
    if (h.continues && h.endsVersion) throw new BadFrame("a step that goes on has no open windows to count yet")
    if (!h.endsVersion && (h.openWindows != 0 || h.extentRecords != 0)) {
      throw new BadFrame(s"${h.openWindows} open windows, extent ${h.extentRecords}: not counted")
    }
    if (h.bodyBytes < 0 || h.bodyBytes > bodyBytesMax(h.recordCount) || h.rawBytes < 0 ||
        h.rawBytes > rawBytesMax(h.bodyBytes, h.recordCount)) {
      throw new BadFrame(s"frame of ${h.bodyBytes} bytes, ${h.rawBytes} inflated: beyond the limits")
    }
    h
  }
}
