package org.apache.spark.sql.cecstore.format

import java.util.Arrays
import org.apache.spark.unsafe.Platform

/**
 * A body in blocks behind the table of their ends: each is a zstd frame with a checksum, and can be inflated without the
 * others. docs/format.md §6, codec 2.
 */
private[cecstore] object Blocks {
  /** Bytes of a block before compression; the last one has what is left. */
  val BlockBytes: Int = 16 << 10
  private val EndBytes = 4

  def deflate(raw: Array[Byte], level: Int): Array[Byte] = ZstdFrames.compressing(level) { zstd =>
    val blocks = countOf(raw.length)
    val out = new Array[Byte](Math.toIntExact(blocks * (EndBytes + ZstdFrames.bytesMax(BlockBytes))))
    val first = blocks * EndBytes
    var end = first
    (0 until blocks).foreach { block =>
      val from = block * BlockBytes
      end += zstd.compressByteArray(out, end, out.length - end, raw, from, math.min(BlockBytes, raw.length - from))
      Platform.putInt(out, Platform.BYTE_ARRAY_OFFSET + block.toLong * EndBytes, end - first)
    }
    Arrays.copyOf(out, end)
  }

  /** What the blocks hold, which begin with their table at `from`. Raises BadFrame. */
  def inflate(stored: Array[Byte], from: Int, length: Int, raw: Array[Byte], rawBytes: Int): Unit = ZstdFrames.decompressing { zstd =>
    val blocks = countOf(rawBytes)
    if (length < blocks.toLong * EndBytes) throw new BadFrame(s"body: no room for the ends of $blocks blocks")
    val first = from + blocks * EndBytes
    var start = first
    (0 until blocks).foreach { block =>
      val end = first.toLong + Platform.getInt(stored, Platform.BYTE_ARRAY_OFFSET + from + block.toLong * EndBytes)
      if (end <= start || end > from + length) throw new BadFrame(s"body: block $block of $blocks lies outside of it")
      val at = block * BlockBytes
      ZstdFrames.inflate(zstd, stored, start, end.toInt - start, raw, at, math.min(BlockBytes, rawBytes - at))
      start = end.toInt
    }
    if (start != from + length) throw new BadFrame(s"body: ${from + length - start} bytes behind its $blocks blocks")
  }

  private def countOf(rawBytes: Int): Int = ((rawBytes + BlockBytes - 1L) / BlockBytes).toInt
}
