package org.apache.spark.sql.cecstore.format

import java.util.concurrent.ConcurrentLinkedQueue
import com.github.luben.zstd.{Zstd, ZstdCompressCtx, ZstdDecompressCtx, ZstdException}

/** Zstd's contexts, one for each thread that is at it: making one takes longer than a small body does. */
private[cecstore] object ZstdFrames {
  private val compressing_ = new ConcurrentLinkedQueue[ZstdCompressCtx]
  private val decompressing_ = new ConcurrentLinkedQueue[ZstdDecompressCtx]

  /** The most that so many bytes take as one frame with a checksum. */
  def bytesMax(rawBytes: Int): Long = Zstd.compressBound(rawBytes) + 4

  /** Frames state their content size and have a checksum. */
  def compressing[A](level: Int)(use: ZstdCompressCtx => A): A = {
    val context = Option(compressing_.poll()).getOrElse(new ZstdCompressCtx().setChecksum(true))
    try use(context.setLevel(level)) finally compressing_.offer(context)
  }

  def decompressing[A](use: ZstdDecompressCtx => A): A = {
    val context = Option(decompressing_.poll()).getOrElse(new ZstdDecompressCtx)
    try use(context) finally decompressing_.offer(context)
  }

  /** One frame of exactly so many bytes. */
  def inflate(stored: Array[Byte], rawBytes: Int): Array[Byte] = {
    checkClaim(stored, 0, stored.length, rawBytes) // before there is an array of that size
    val raw = new Array[Byte](rawBytes)
    decompressing(inflate(_, stored, 0, stored.length, raw, 0, rawBytes))
    raw
  }

  /** One frame of exactly so many bytes, to `at` in `raw`. Raises BadFrame. */
  def inflate(zstd: ZstdDecompressCtx, stored: Array[Byte], from: Int, length: Int, raw: Array[Byte], at: Int, rawBytes: Int): Unit = {
    checkClaim(stored, from, length, rawBytes)
    val size = try zstd.decompressByteArray(raw, at, rawBytes, stored, from, length) catch {
      case e: ZstdException => throw new BadFrame(s"body: zstd: ${e.getMessage}")
    }
    if (size != rawBytes) throw new BadFrame(s"body: zstd frame of $size bytes, not $rawBytes")
  }

  private def checkClaim(stored: Array[Byte], from: Int, length: Int, rawBytes: Int): Unit = {
    val claimed = Zstd.getFrameContentSize(stored, from, length)
    if (claimed != rawBytes) throw new BadFrame(s"body: zstd frame claims $claimed bytes, $rawBytes are due")
  }
}
