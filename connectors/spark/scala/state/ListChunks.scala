package org.apache.spark.sql.cecstore.state

import java.nio.ByteBuffer
import java.util.Arrays
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.{Format, Rows}
import org.apache.spark.sql.cecstore.keys.KeyIndex
import org.apache.spark.unsafe.Platform

/**
 * The values of keys that have several. A short list is one record. A longer one is chunks, records of a family of
 * their own, and a head under its key that counts them: so an append writes the last chunk again and no more.
 * docs/format.md §9.
 *
 * @param chunks the number of the family that holds chunks; it gets one when it is first needed
 * @param where names the store in errors
 */
private[cecstore] final class ListChunks(view: StateView, family: Int, chunks: ListChunks.Family, where: String) {
  import KeyIndex.Absent
  import ListChunks._

  private def state: LiveState = view.state

  /** Spark's encoding of the values, piece by piece. The pieces are those of now, whatever is put later. */
  def pieces(reference: Long): Iterator[Array[Byte]] = {
    val rows = state.rowsOf(reference)
    val count = chunkCount(rows, reference.toInt)
    if (count == 0) Iterator.single(rows.value(reference.toInt))
    else {
      val key = rows.key(reference.toInt)
      val found = Array.tabulate(count)(n => chunkOf(key, n))
      found.iterator.map(at => valuesOf(state.rowsOf(at), at.toInt))
    }
  }

  /** The first piece: it has the first value. */
  def first(reference: Long): Array[Byte] = pieces(reference).next()

  private def chunkOf(key: Array[Byte], n: Int): Long = {
    val place = chunkKey(key, key.length, n)
    val found = chunks.number.fold(Absent)(view.find(_, place, 0, place.length))
    if (found == Absent) throw new CecLogException(
      s"$where: a list lacks its chunk $n, so that the version is not whole. Restore the store's folder from a copy, or restart from an " +
        "older batch; cec-store verify says what else is damaged", named = Map("path" -> where.toString))
    found
  }

  def replace(key: Array[Byte], length: Int, values: Array[Byte]): Unit = {
    removeChunks(view.find(family, key, 0, length))
    state.put(family, key, 0, length, values, 0, values.length)
  }

  def remove(key: Array[Byte], length: Int): Unit = {
    removeChunks(view.find(family, key, 0, length))
    state.remove(family, key, 0, length)
  }

  private def removeChunks(head: Long): Unit = if (head != Absent) {
    val rows = state.rowsOf(head)
    (0 until chunkCount(rows, head.toInt)).foreach { n =>
      val place = chunkKey(rows.key(head.toInt), rows.keyLength(head.toInt), n)
      chunks.number.foreach(state.remove(_, place, 0, place.length))
    }
  }

  def append(key: Array[Byte], length: Int, more: Array[Byte]): Unit = {
    val head = view.find(family, key, 0, length)
    if (head == Absent) state.put(family, key, 0, length, more, 0, more.length)
    else {
      val (rows, row) = (state.rowsOf(head), head.toInt)
      val count = chunkCount(rows, row)
      if (count > 0) appendChunk(Arrays.copyOf(key, length), count, more)
      else if (rows.valueLength(row) + 1L + more.length <= ChunkBytes || rows.valueLength(row) == 0) {
        val all = joined(Seq(rows.value(row), more))
        state.put(family, key, 0, length, all, 0, all.length)
      } else {
        val own = Arrays.copyOf(key, length)
        val there = rows.value(row)
        putChunk(own, 0, if (state.inDelta(head)) 0 else there.length, there)
        putChunk(own, 1, 0, more)
        putHead(own, 2)
      }
    }
  }

  private def appendChunk(key: Array[Byte], count: Int, more: Array[Byte]): Unit = {
    val last = chunkOf(key, count - 1)
    val (rows, row) = (state.rowsOf(last), last.toInt)
    val values = valuesOf(rows, row)
    if (values.length + 1L + more.length <= ChunkBytes) {
      val said = if (state.inDelta(last)) saidBytes(rows, row) else values.length
      putChunk(key, count - 1, said, joined(Seq(values, more)))
    } else { putChunk(key, count, 0, more); putHead(key, count + 1) }
  }

  private def putHead(key: Array[Byte], count: Int): Unit = {
    val head = Format.littleEndian(new Array[Byte](HeadBytes)).putInt(0).putInt(count).array
    state.put(family, key, 0, key.length, head, 0, head.length)
  }

  private def putChunk(key: Array[Byte], n: Int, said: Int, values: Array[Byte]): Unit = {
    val place = chunkKey(key, key.length, n)
    val value = Format.littleEndian(new Array[Byte](SaidBytes + values.length)).putInt(said).put(values).array
    state.put(chunks.orNew(), place, 0, place.length, value, 0, value.length)
  }
}

private[cecstore] object ListChunks {
  /** Up to so many bytes a chunk is written again for one more value; a single call may make a larger one. */
  private val ChunkBytes = 512
  private val HeadBytes = 8
  private val SaidBytes = 4
  private val NumberBytes = 4

  /** The family of chunks of one family of lists. */
  trait Family {
    def number: Option[Int]
    def orNew(): Int
  }

  /** How many chunks the list of a head has; 0 where the record has the values itself: a value is never 0 bytes long. */
  def chunkCount(rows: Rows, row: Int): Int =
    if (rows.valueLength(row) != HeadBytes) 0
    else {
      val (base, head) = (rows.valueBase, rows.valueOffset(row))
      if (Platform.getInt(base, head) == 0) Platform.getInt(base, head + 4) else 0
    }

  /** How many bytes of a chunk's values an older version had. */
  def saidBytes(rows: Rows, row: Int): Int = Platform.getInt(rows.valueBase, rows.valueOffset(row))

  /** A chunk's values as Spark encodes them. */
  def valuesOf(rows: Rows, row: Int): Array[Byte] = {
    val end = rows.valueFrom(row) + rows.valueLength(row)
    Arrays.copyOfRange(rows.valueArray(row), rows.valueFrom(row) + SaidBytes, end)
  }

  /** Which chunk it is. */
  def chunkNumber(rows: Rows, row: Int): Int =
    ByteBuffer.wrap(rows.keyArray(row)).getInt(rows.keyFrom(row) + rows.keyLength(row) - NumberBytes)

  /** The key of the list that a chunk is of. */
  def listKey(rows: Rows, row: Int): Array[Byte] = {
    Arrays.copyOf(rows.key(row), rows.keyLength(row) - NumberBytes)
  }

  /** Several values of one key, as Spark's merge operator joins them. */
  def joined(parts: Seq[Array[Byte]]): Array[Byte] = {
    val out = new java.io.ByteArrayOutputStream
    parts.filter(_.nonEmpty).zipWithIndex.foreach { case (part, i) => if (i > 0) out.write(','); out.write(part) }
    out.toByteArray
  }

  private def chunkKey(key: Array[Byte], length: Int, n: Int): Array[Byte] =
    ByteBuffer.wrap(Arrays.copyOf(key, length + NumberBytes)).putInt(length, n).array
}
