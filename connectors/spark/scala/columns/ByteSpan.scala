package org.apache.spark.sql.cecstore.columns

import scala.collection.mutable.ArrayBuffer
import org.apache.spark.unsafe.Platform

/** Some bytes of an array. Whoever reads them raw has checked first that they are enough. */
private[cecstore] final class ByteSpan(val array: Array[Byte], val from: Int, val length: Int) {
  /** Where they begin, for `Platform`. */
  val base: Long = Platform.BYTE_ARRAY_OFFSET.toLong + from
}

private[cecstore] object ByteSpan {
  val Empty = new ByteSpan(Array.emptyByteArray, 0, 0)
}

/** Arrays that are used again for each frame: what was taken is valid until the next `rewind`. For one thread. */
private[cecstore] final class Scratch {
  private val arrays = new ArrayBuffer[Array[Byte]]
  private var taken = 0

  def rewind(): Unit = taken = 0

  /** An array of at least so many bytes, whose content is anything, and `RoomBytes` behind them. */
  def take(size: Int): Array[Byte] = {
    val bytes = Math.addExact(size, Scratch.RoomBytes)
    if (taken == arrays.length) arrays += new Array[Byte](bytes)
    // Frames hardly differ, and are taken apart in one order: with some room more, few arrays are made anew.
    else if (arrays(taken).length < bytes) {
      arrays(taken) = null // the garbage collector may have it before there is another
      arrays(taken) = new Array[Byte](math.min(bytes + (bytes.toLong >> 3), Int.MaxValue - 64L).toInt)
    }
    taken += 1
    arrays(taken - 1)
  }
}

private[cecstore] object Scratch {
  /** More than a character of UTF-8 has. */
  val RoomBytes = 8
}
