package org.apache.spark.sql.cecstore.keys

import java.util.{AbstractMap, AbstractSet, Arrays, Comparator, Iterator => JIterator, Map => JMap, Set => JSet, SortedMap}

/**
 * Keys in the order of their bytes, each with its reference, for another map to be made of: nothing else can be asked. They are put
 * in order by four bytes behind those that all begin with, and compared where these are equal: a restart has millions at once.
 *
 * @param keys no two are equal
 */
private[keys] final class SortedKeys(keys: Array[Array[Byte]], references: Array[Long])
  extends AbstractMap[Array[Byte], java.lang.Long] with SortedMap[Array[Byte], java.lang.Long] {
  private val order = inOrder()

  private def inOrder(): Array[Int] = {
    val common = commonBytes
    val first = new Array[Long](keys.length)
    var i = 0
    while (i < keys.length) { first(i) = SortedKeys.fourBytes(keys(i), common) << 32 | i; i += 1 }
    val sorted = new HashOrder().sort(first, first.length, common = 0)
    val order = new Array[Integer](keys.length)
    i = 0
    while (i < keys.length) { order(i) = sorted(i).toInt; i += 1 }
    var from = 0
    while (from < keys.length) {
      var until = from + 1
      while (until < keys.length && sorted(until) >>> 32 == sorted(from) >>> 32) until += 1
      if (until - from > 1) Arrays.sort(order, from, until, (a: Integer, b: Integer) => KeyIndex.Unsigned.compare(keys(a), keys(b)))
      from = until
    }
    order.map(_.intValue)
  }

  /** How many bytes all keys begin with. */
  private def commonBytes: Int = {
    var common = if (keys.isEmpty) 0 else keys(0).length
    var i = 1
    while (i < keys.length) {
      val differs = Arrays.mismatch(keys(0), 0, common, keys(i), 0, math.min(common, keys(i).length))
      if (differs >= 0) common = differs
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
  /** As a number without sign, zeros behind the key's end. */
  def fourBytes(key: Array[Byte], from: Int): Long = {
    var (number, i) = (0L, from)
    while (i < from + 4) { number = number << 8 | (if (i < key.length) key(i) & 0xffL else 0L); i += 1 }
    number
  }
}
