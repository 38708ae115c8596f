package org.apache.spark.sql.cecstore.keys

import java.util.{AbstractMap, AbstractSet, Arrays, Comparator, Iterator => JIterator, Map => JMap, Set => JSet, SortedMap}
import scala.collection.mutable.ArrayBuffer

/**
 * Keys in the order of their bytes, each with its reference, for another map to be made of: nothing else can be asked.
 *
 * They are put in order by the four bytes behind those that all begin with, and those of which these are equal in the same way: a
 * restart has millions at once, and comparing one with the other takes longer.
 *
 * @param keys no two are equal
 */
private[keys] final class SortedKeys(keys: Array[Array[Byte]], references: Array[Long])
  extends AbstractMap[Array[Byte], java.lang.Long] with SortedMap[Array[Byte], java.lang.Long] {
  import SortedKeys._

  private val order = keys.indices.toArray
  private val byBytes = new HashOrder
  private val first = new Array[Long](keys.length)
  sort(0, keys.length, 0)

  /** @param known how many bytes at least all of these begin with */
  private def sort(from: Int, until: Int, known: Int): Unit = if (until - from <= Few) sortFew(from, until)
    else {
      val (common, count) = (commonBytes(from, until, known), until - from)
      var i = 0
      while (i < count) { first(i) = fourBytes(keys(order(from + i)), common) << 32 | order(from + i); i += 1 }
      val sorted = byBytes.sort(first, count, common = 0)
      val equal = ArrayBuffer.empty[(Int, Int)]
      var start = 0
      i = 0
      while (i < count) {
        order(from + i) = sorted(i).toInt
        i += 1
        if (i == count || sorted(i) >>> 32 != sorted(start) >>> 32) {
          if (i - start > 1) equal += ((from + start, from + i))
          start = i
        }
      }
      // Of keys that end here, and others that go on with zeros.
      if (equal.headOption.contains((from, until))) sortWhole(from, until)
      else equal.foreach { case (start, end) => sort(start, end, common) }
    }

  private def sortFew(from: Int, until: Int): Unit = {
    var i = from + 1
    while (i < until) {
      val moved = order(i)
      var at = i
      while (at > from && KeyIndex.Unsigned.compare(keys(order(at - 1)), keys(moved)) > 0) { order(at) = order(at - 1); at -= 1 }
      order(at) = moved
      i += 1
    }
  }

  private def sortWhole(from: Int, until: Int): Unit =
    order.slice(from, until).sortWith((a, b) => KeyIndex.Unsigned.compare(keys(a), keys(b)) < 0).copyToArray(order, from)

  /** How many bytes all of these begin with. */
  private def commonBytes(from: Int, until: Int, known: Int): Int = {
    val one = keys(order(from))
    var common = one.length
    var i = from + 1
    while (i < until && common > known) {
      val other = keys(order(i))
      val differs = Arrays.mismatch(one, known, common, other, known, math.max(known, math.min(common, other.length)))
      if (differs >= 0) common = known + differs
      i += 1
    }
    common
  }

  override def entrySet(): JSet[JMap.Entry[Array[Byte], java.lang.Long]] = new AbstractSet[JMap.Entry[Array[Byte], java.lang.Long]] {
    override def size(): Int = order.length
    override def iterator(): JIterator[JMap.Entry[Array[Byte], java.lang.Long]] = new JIterator[JMap.Entry[Array[Byte], java.lang.Long]] {
      private var at = 0
      override def hasNext: Boolean = at < order.length
      override def next(): JMap.Entry[Array[Byte], java.lang.Long] = {
        val i = order(at)
        at += 1
        new AbstractMap.SimpleImmutableEntry[Array[Byte], java.lang.Long](keys(i), references(i))
      }
    }
  }

  override def comparator(): Comparator[_ >: Array[Byte]] = KeyIndex.Unsigned
  override def firstKey(): Array[Byte] = keys(order(0))
  override def lastKey(): Array[Byte] = keys(order.last)
  override def subMap(from: Array[Byte], until: Array[Byte]): SortedMap[Array[Byte], java.lang.Long] = throw new UnsupportedOperationException
  override def headMap(until: Array[Byte]): SortedMap[Array[Byte], java.lang.Long] = throw new UnsupportedOperationException
  override def tailMap(from: Array[Byte]): SortedMap[Array[Byte], java.lang.Long] = throw new UnsupportedOperationException
}

private object SortedKeys {
  private val Few = 16

  /** As a number without sign, zeros behind the key's end. */
  def fourBytes(key: Array[Byte], from: Int): Long = {
    var (number, i) = (0L, from)
    while (i < from + 4) { number = number << 8 | (if (i < key.length) key(i) & 0xffL else 0L); i += 1 }
    number
  }
}
