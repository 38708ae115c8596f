package org.apache.spark.sql.cecstore.keys

import java.util.Arrays

/** Entries of one share after the other in the order of their hashes, among equal ones as they were added. */
private[keys] final class SortedShares(shares: HashShares) {
  private val order = new HashOrder
  private var hashes = new Array[Int](0)
  private var references = new Array[Long](0)
  private var unsorted = new Array[Long](0)
  /** Of each entry of the share its hash and, in the lower half, its number there. */
  var sorted: Array[Long] = unsorted

  def hash(number: Int): Int = hashes(number)
  def reference(number: Int): Long = references(number)

  /** Read a share and put it in order. Returns how many entries it has. */
  def read(share: Int): Int = {
    val count = shares.size(share)
    if (count > hashes.length) {
      hashes = new Array[Int](count)
      references = new Array[Long](count)
      unsorted = new Array[Long](count)
    }
    var i = 0
    shares.foreach(share) { (hash, reference) =>
      hashes(i) = hash
      references(i) = reference
      unsorted(i) = hash.toLong << 32 | i
      i += 1
    }
    sorted = order.sort(unsorted, count, shares.bits)
    count
  }

  /** Call with the hash and the reference of each entry, in the order of hashes without sign. */
  def foreach(each: (Long, Long) => Unit): Unit = (0 until shares.count).foreach { share =>
    val count = read(share)
    var i = 0
    while (i < count) { each(sorted(i) >>> 32, references(sorted(i).toInt)); i += 1 }
  }
}

/** Puts entries, hashes in their upper halves, in the order of hashes without sign: by counting their first bits. */
private[keys] final class HashOrder {
  import HashOrder.BitsMax

  private var ends = new Array[Int](0)
  private var sorted = new Array[Long](0)

  /**
   * The first `count` entries in order, in an array that the next call uses again.
   *
   * @param common how many first bits are the same in all hashes
   */
  def sort(entries: Array[Long], count: Int, common: Int): Array[Long] = {
    val bits = math.max(1, math.min(BitsMax, 32 - Integer.numberOfLeadingZeros(count)))
    val (shift, mask) = (64 - math.min(32, common + bits), (1 << bits) - 1)
    if (sorted.length < count) sorted = new Array[Long](count)
    if (ends.length <= mask + 1) ends = new Array[Int](mask + 2) else Arrays.fill(ends, 0, mask + 2, 0)
    var i = 0 // loops: a restart runs this code before it is compiled well
    while (i < count) { ends(((entries(i) >>> shift).toInt & mask) + 1) += 1; i += 1 }
    i = 0
    while (i <= mask) { ends(i + 1) += ends(i); i += 1 }
    i = 0
    while (i < count) {
      val bucket = (entries(i) >>> shift).toInt & mask
      sorted(ends(bucket)) = entries(i)
      ends(bucket) += 1 // it is then where the bucket ends
      i += 1
    }
    orderBuckets(mask + 1)
    sorted
  }

  /** Hashes of a bucket have the same first bit, so that their order with and without sign is one. */
  private def orderBuckets(buckets: Int): Unit = {
    var (bucket, start) = (0, 0)
    while (bucket < buckets) {
      val end = ends(bucket)
      if (end - start == 2) {
        if (sorted(start) > sorted(start + 1)) { val later = sorted(start); sorted(start) = sorted(start + 1); sorted(start + 1) = later }
      } else if (end - start > 2) Arrays.sort(sorted, start, end)
      start = end
      bucket += 1
    }
  }
}

private object HashOrder {
  /** More buckets than this would not be in the processor's cache. */
  private val BitsMax = 18
}
