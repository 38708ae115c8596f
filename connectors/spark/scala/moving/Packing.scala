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
private[moving] final class Packing(rows: Iterator[MovedRow], place: NewPlace, partitions: Int)
  extends Iterator[(Int, Array[Byte])] {
  import Packing._

  /** By partition; null: none is open. */
  private val open = new Array[Pack](partitions)
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
    if (open(to) == null) open(to) = new Pack
    val pack = open(to)
    val before = pack.size
    pack.add(row)
    openBytes += pack.size - before
    if (pack.size >= PackBytes) finish(to)
    else if (openBytes > OpenBytesMax) finishAll()
  }

  private def finishAll(): Unit = open.indices.foreach(to => if (open(to) != null) finish(to))

  private def finish(to: Int): Unit = {
    openBytes -= open(to).size
    full += ((to, open(to).bytes))
    open(to) = null
  }
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

  /** The rows as they were read; each holds until the next. */
  def unpacked(packs: Iterator[Array[Byte]], kind: StoreKind): Iterator[MovedRow] = new Iterator[MovedRow] {
    private val moved = new MovedRow
    private val keys = kind.families.map(family => new UnsafeRow(family.key.length)).toArray
    private val values = kind.families.map(family => new UnsafeRow(family.value.length)).toArray
    private var pack = Array.emptyByteArray
    private var at = 0

    override def hasNext: Boolean = {
      while (at >= pack.length && packs.hasNext) { pack = packs.next(); at = 0 }
      at < pack.length
    }

    override def next(): MovedRow = {
      if (!hasNext) Iterator.empty.next()
      val (family, keyBytes, valueBytes) = (number(0), number(4), number(8))
      at += HeadBytes
      moved.set(family, pointed(keys(family), keyBytes), pointed(values(family), valueBytes))
    }

    private def number(after: Int): Int = Platform.getInt(pack, Platform.BYTE_ARRAY_OFFSET + at.toLong + after)

    private def pointed(row: UnsafeRow, size: Int): UnsafeRow = {
      row.pointTo(pack, Platform.BYTE_ARRAY_OFFSET + at.toLong, size)
      at += size
      row
    }
  }
}
