package org.apache.spark.sql.cecstore.keys

import scala.collection.mutable.ArrayBuffer
import org.apache.spark.sql.cecstore.local.{Extent, LocalSpace}
import org.apache.spark.unsafe.Platform

/**
 * Hashes with their references, by the first bits of the hashes: of each share they come back in the order in which they were added.
 * A block is in the heap until it is full, then in a local file.
 */
private[keys] final class HashShares(val bits: Int, space: () => LocalSpace) {
  import HashShares._

  private val hashes = new Array[Int](blockEntries)
  private val references = new Array[Long](hashes.length)
  private var filled = 0
  private val blocks = ArrayBuffer.empty[Block]

  def count: Int = 1 << bits
  private def shareOf(hash: Int): Int = ((hash & 0xffffffffL) >>> (32 - bits)).toInt

  /** Raises an IOException where there is no room for a block. */
  def add(hash: Int, reference: Long): Unit = {
    if (filled == hashes.length) putAside()
    hashes(filled) = hash
    references(filled) = reference
    filled += 1
  }

  /** All are in: from now on they can be read. */
  def finish(): Unit = putAside()

  private def putAside(): Unit = if (filled > 0) {
    val starts = new Array[Int](count + 1)
    var i = 0 // loops: a restart runs this code before it is compiled well
    while (i < filled) { starts(shareOf(hashes(i)) + 1) += 1; i += 1 }
    (1 to count).foreach(share => starts(share) += starts(share - 1))
    val (ends, hashesOfShares, referencesOfShares) = (starts.clone, new Array[Int](filled), new Array[Long](filled))
    i = 0
    while (i < filled) {
      val share = shareOf(hashes(i))
      hashesOfShares(ends(share)) = hashes(i)
      referencesOfShares(ends(share)) = references(i)
      ends(share) += 1
      i += 1
    }
    val (extent, addresses) = space().write(Seq((hashesOfShares, filled * 4L), (referencesOfShares, filled * 8L)))
    blocks += Block(starts, extent, addresses.head, addresses.last)
    filled = 0
  }

  def size(share: Int): Int = blocks.iterator.map(block => block.starts(share + 1) - block.starts(share)).sum

  def foreach(share: Int)(each: (Int, Long) => Unit): Unit = blocks.foreach { block =>
    var i = block.starts(share)
    while (i < block.starts(share + 1)) {
      each(Platform.getInt(null, block.hashesAt + i * 4L), Platform.getLong(null, block.referencesAt + i * 8L))
      i += 1
    }
  }

  def letGo(): Unit = blocks.foreach(_.extent.release())
}

private[cecstore] object HashShares {
  /** Three megabytes, and as much again while they are put in order. Tests lower it. */
  @volatile private[cecstore] var blockEntries: Int = 1 << 18
  private val ShareKeys = 1 << 14
  private val BitsMax = 10

  /** By so many bits the processor's cache has room for a share of so many keys; at least one. */
  private[keys] def bitsFor(keys: Int): Int = math.min(BitsMax, math.max(1, 32 - Integer.numberOfLeadingZeros(keys / ShareKeys)))

  /** @param starts where each share begins in the block, and the last one ends */
  private final case class Block(starts: Array[Int], extent: Extent, hashesAt: Long, referencesAt: Long)
}
