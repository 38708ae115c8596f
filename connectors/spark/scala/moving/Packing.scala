package org.apache.spark.sql.cecstore.moving

import java.util.Arrays
import scala.collection.mutable
import org.apache.spark.Partitioner
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/** Sends a pack to the partition that it names. */
private[moving] final class ByPlace(override val numPartitions: Int) extends Partitioner {
  override def getPartition(key: Any): Int = key.asInstanceOf[Int]
}

/**
 * Rows of state as they go through Spark's exchange: many in an array, with the partition they go to. A row by itself
 * costs more on the way than it takes to read and to write it. Rows of one key stay in their order.
 */
private[moving] final class Packing(rows: Iterator[MovedRow], place: NewPlace) extends Iterator[(Int, Array[Byte])] {
  import Packing._

  private val open = mutable.HashMap.empty[Int, Pack]
  private val full = mutable.Queue.empty[(Int, Array[Byte])]
  private var openBytes = 0L

  override def hasNext: Boolean = {
    while (full.isEmpty && rows.hasNext) add(rows.next())
    if (full.isEmpty) finishAll()
    full.nonEmpty
  }

  override def next(): (Int, Array[Byte]) = { if (!hasNext) Iterator.empty.next(); full.dequeue() }

  private def add(row: MovedRow): Unit = {
    val to = place(row)
    val pack = open.getOrElseUpdate(to, new Pack)
    val before = pack.size
    pack.add(row)
    openBytes += pack.size - before
    if (pack.size >= PackBytes) { open.remove(to); finish(to, pack) }
    else if (openBytes > OpenBytesMax) finishAll()
  }

  private def finishAll(): Unit = { open.foreach { case (to, pack) => finish(to, pack) }; open.clear() }
  private def finish(to: Int, pack: Pack): Unit = { openBytes -= pack.size; full += ((to, pack.bytes)) }
}

private[moving] object Packing {
  private val PackBytes = 1 << 20
  /** Of all packs in the making, however many partitions there are. */
  private val OpenBytesMax = 64L << 20
  /** Family, and bytes of key and value; with room behind them that lets rows stand at multiples of 8. */
  private val HeadBytes = 16

  private final class Pack {
    private var array = new Array[Byte](1 << 10)
    var size = 0

    def bytes: Array[Byte] = Arrays.copyOf(array, size)

    def add(row: MovedRow): Unit = {
      val needed = size.toLong + HeadBytes + row.key.getSizeInBytes + row.value.getSizeInBytes
      if (needed > array.length) array = Arrays.copyOf(array, Math.toIntExact(math.max(needed, math.min(array.length * 2L, Int.MaxValue - 64L))))
      put(row.family)
      put(row.key.getSizeInBytes)
      put(row.value.getSizeInBytes)
      size += 4
      put(row.key)
      put(row.value)
    }

    private def put(number: Int): Unit = { Platform.putInt(array, Platform.BYTE_ARRAY_OFFSET + size.toLong, number); size += 4 }

    private def put(row: UnsafeRow): Unit = {
      Platform.copyMemory(row.getBaseObject, row.getBaseOffset, array, Platform.BYTE_ARRAY_OFFSET + size.toLong, row.getSizeInBytes)
      size += row.getSizeInBytes
    }
  }

  /** The rows as they were read. */
  def unpacked(packs: Iterator[Array[Byte]], kind: StoreKind): Iterator[MovedRow] = {
    val moved = new MovedRow
    val keys = kind.families.map(family => new UnsafeRow(family.key.length)).toArray
    val values = kind.families.map(family => new UnsafeRow(family.value.length)).toArray
    packs.flatMap { bytes =>
      var at = 0
      def number(): Int = { at += 4; Platform.getInt(bytes, Platform.BYTE_ARRAY_OFFSET + at - 4L) }
      def pointed(row: UnsafeRow, size: Int): UnsafeRow = {
        row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET + at.toLong, size)
        at += size
        row
      }
      Iterator.continually(()).takeWhile(_ => at < bytes.length).map { _ =>
        val (family, keyBytes, valueBytes) = (number(), number(), number())
        at += HeadBytes - 12
        moved.set(family, pointed(keys(family), keyBytes), pointed(values(family), valueBytes))
      }
    }
  }
}
