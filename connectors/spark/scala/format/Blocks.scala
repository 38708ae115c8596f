package org.apache.spark.sql.cecstore.format

import java.util.Arrays
import org.apache.spark.unsafe.Platform

/**
 * A body in blocks behind the table of their ends: each is a zstd frame with a checksum, and can be inflated without the
 * others. docs/format.md §6, codec 2.
 */
private[cecstore] object Blocks {
  /** Bytes of a block before compression, in all logs; the last one has what is left. Tests make them smaller. */
  @volatile private[cecstore] var blockBytes: Int = 16 << 10
  private val EndBytes = 4

  def deflate(raw: Array[Byte], level: Int): Array[Byte] = ZstdFrames.compressing(level) { zstd =>
    val blocks = countOf(raw.length)
    val out = new Array[Byte](Math.toIntExact(blocks * (EndBytes + ZstdFrames.bytesMax(blockBytes))))
    val first = blocks * EndBytes
    var end = first
    (0 until blocks).foreach { block =>
      val from = block * blockBytes
      end += zstd.compressByteArray(out, end, out.length - end, raw, from, math.min(blockBytes, raw.length - from))
      Platform.putInt(out, Platform.BYTE_ARRAY_OFFSET + block.toLong * EndBytes, end - first)
    }
    Arrays.copyOf(out, end)
  }

  /** What the blocks hold, which begin with their table at `from`. Raises BadFrame. */
  def inflate(stored: Array[Byte], from: Int, length: Int, raw: Array[Byte], rawBytes: Int): Unit = ZstdFrames.decompressing { zstd =>
    val places = placesIn(stored, from, length, rawBytes)
    (0 until places.length - 1).foreach { block =>
      val start = from + places(block)
      ZstdFrames.inflate(zstd, stored, start, places(block + 1) - places(block), raw, block * blockBytes, sizeOf(block, rawBytes))
    }
  }

  /**
   * Where each block stands in a body that begins with its table at `from`, and behind them where the last one ends. Raises
   * BadFrame. Of the body nothing but the table is read.
   */
  def placesIn(stored: Array[Byte], from: Int, bodyBytes: Int, rawBytes: Int): Array[Int] = {
    val places = new Array[Int](countOf(rawBytes) + 1)
    places(0) = tableBytes(rawBytes)
    if (bodyBytes < places(0)) throw new BadFrame(s"body: no room for the ends of ${places.length - 1} blocks")
    (1 until places.length).foreach { block =>
      places(block) = places(0) + Platform.getInt(stored, Platform.BYTE_ARRAY_OFFSET + from + (block - 1L) * EndBytes)
      if (places(block) <= places(block - 1) || places(block) > bodyBytes) throw new BadFrame(s"body: block ${block - 1} lies outside of it")
    }
    if (places.last != bodyBytes) throw new BadFrame(s"body: ${bodyBytes - places.last} bytes behind its last block")
    places
  }

  def tableBytes(rawBytes: Int): Int = countOf(rawBytes) * EndBytes
  /** Bytes before compression of the block with this number. */
  def sizeOf(block: Int, rawBytes: Int): Int = math.min(blockBytes, rawBytes - block * blockBytes)

  def countOf(rawBytes: Int): Int = ((rawBytes + blockBytes - 1L) / blockBytes).toInt
}
