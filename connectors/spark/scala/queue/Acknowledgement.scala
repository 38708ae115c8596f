package org.apache.spark.sql.cecstore.queue

import java.util.Arrays
import org.apache.spark.sql.cecstore.format.{BadFrame, Format, NewerFrame}

/**
 * How far a consumer of a queue is, as an object: next-unread offsets, one of each partition. docs/format.md §11.
 *
 * @param number of this object among the consumer's
 * @param holder 16 random bytes of whoever acts under the name
 * @param effectsSaved no record below is asked for again, whatever crashes; at or below `received`
 */
private[cecstore] final case class Acknowledgement(logId: IndexedSeq[Byte], number: Long, holder: IndexedSeq[Byte],
    acknowledgedUs: Long, received: IndexedSeq[Long], effectsSaved: IndexedSeq[Long]) {
  import Acknowledgement._

  def encoded: Array[Byte] = {
    val bytes = new Array[Byte](HeaderBytes + 16 * received.size + CrcBytes)
    val out = Format.littleEndian(bytes)
    out.put(Magic).putShort(Version).putShort(HeaderBytes.toShort).putInt(received.size).put(logId.toArray)
    out.putLong(number).putLong(acknowledgedUs).put(holder.toArray)
    (received ++ effectsSaved).foreach(out.putLong)
    out.putInt(Format.crc32c(bytes, bytes.length - CrcBytes))
    bytes
  }
}

private[cecstore] object Acknowledgement {
  private val Magic = "CECACKP\u0000".getBytes("US-ASCII")
  private val Version: Short = 1
  private val HeaderBytes = 64
  private val CrcBytes = 4

  /** Raises BadFrame where they are damaged, or a later format wrote them. */
  def decode(bytes: Array[Byte]): Acknowledgement = {
    if (bytes.length < HeaderBytes + CrcBytes || !bytes.startsWith(Magic)) throw new BadFrame(
        "no acknowledgement of a consumer")
    val in = Format.littleEndian(bytes)
    if (!Format.isSealed(bytes)) throw new BadFrame("the acknowledgement fails its checksum")
    if (in.getShort(8) != Version) throw new NewerFrame(s"format version ${in.getShort(8)}")
    val count = in.getInt(12)
    if (in.getShort(10) != HeaderBytes || count < 0 || bytes.length != HeaderBytes + 16L * count + CrcBytes) {
      throw new BadFrame(s"${bytes.length} bytes for $count partitions")
    }
    def offsets(from: Int) = (0 until count).map(n => in.getLong(from + 8 * n))
    val (received, saved) = (offsets(HeaderBytes), offsets(HeaderBytes + 8 * count))
    if (received.zip(saved).exists { case (got, safe) => safe < 0 || safe > got }) {
      throw new BadFrame("an acknowledgement that says what cannot be")
    }
    Acknowledgement(Arrays.copyOfRange(bytes, 16, 32).toIndexedSeq, in.getLong(32),
        Arrays.copyOfRange(bytes, 48, 64).toIndexedSeq,
      in.getLong(40), received, saved)
  }
}
