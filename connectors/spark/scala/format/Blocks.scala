package org.apache.spark.sql.cecstore.format

import java.util.Arrays
import com.github.luben.zstd.ZstdDecompressCtx
import org.apache.spark.sql.cecstore.format.Format.littleEndian
import org.apache.spark.unsafe.Platform

/**
 * Where the blocks of a body are: behind its head, which has the time and the version of all rows, how many rows a block has, and
 * of each block where it ends as stored and as an image. docs/format.md §6, codec 2.
 *
 * @param rows how many there are in all
 * @param places where each block begins in the body, and behind them where the last one ends
 * @param images the same of the images, one behind the other
 */
private[cecstore] final case class BlockTable(rows: Int, rowsPerBlock: Int, places: Array[Int], images: Array[Int]) {
  def count: Int = places.length - 1
  def rowsIn(block: Int): Int = math.min(rowsPerBlock, rows - block * rowsPerBlock)
  def imageBytes(block: Int): Int = images(block + 1) - images(block)
  def storedBytes(block: Int): Int = places(block + 1) - places(block)
}

/**
 * Rows in blocks of a few KB, each of which is inflated without the others: of its n rows the kinds, the families, a bit for each
 * renewed one, the lengths of the keys and of the values, the keys, and the values.
 */
private[cecstore] object Blocks {
  /** A block is to have so many bytes before compression, and at most as many rows as a zone. Tests make them smaller. */
  @volatile private[cecstore] var blockBytes: Int = 16 << 10
  /** Of a block. */
  val RowsMax = 256
  /** Of the head of a body, without its table. */
  val HeadBytes = 20
  private val EntryBytes = 8
  /** Of a row in a block, beside its key, its value and its bit. */
  private val RowBytes = 11

  /** How many bytes the head takes, table included, of a body of so many rows; the first 20 say how many there are in a block. */
  def headBytes(rows: Int, rowsPerBlock: Int): Int = HeadBytes + countOf(rows, rowsPerBlock) * EntryBytes
  def rowsPerBlock(head: Array[Byte]): Int =
    if (head.length < HeadBytes) throw new BadFrame("body: no room for the head of its blocks") else littleEndian(head).getInt(16)

  private def countOf(rows: Int, rowsPerBlock: Int): Int =
    if (rowsPerBlock < 1) throw new BadFrame(s"body: blocks of $rowsPerBlock rows") else ((rows + rowsPerBlock - 1L) / rowsPerBlock).toInt

  /** The head of a body, of which nothing else is read. Raises BadFrame. */
  def table(stored: Array[Byte], rows: Int, bodyBytes: Int, rawBytes: Int): BlockTable = {
    val perBlock = rowsPerBlock(stored)
    if (rows.toLong * RowBytes > rawBytes) throw new BadFrame(s"body: no room for $rows rows") // before there is an array of that size
    val (count, head) = (countOf(rows, perBlock), headBytes(rows, perBlock))
    if (stored.length < head) throw new BadFrame(s"body: no room for the table of $count blocks")
    val (places, images) = (new Array[Int](count + 1), new Array[Int](count + 1))
    places(0) = head
    (0 until count).foreach { block =>
      val entry = Platform.BYTE_ARRAY_OFFSET + HeadBytes + block.toLong * EntryBytes
      places(block + 1) = head + Platform.getInt(stored, entry)
      images(block + 1) = Platform.getInt(stored, entry + 4)
      val isWithin = places(block + 1) > places(block) && places(block + 1) <= bodyBytes &&
        images(block + 1) > images(block) && images(block + 1) <= rawBytes
      if (!isWithin) throw new BadFrame(s"body: block $block of $count lies outside of it")
    }
    if (places(count) != bodyBytes || images(count) != rawBytes) throw new BadFrame(
      s"body: its $count blocks are ${places(count)} bytes of $bodyBytes, and ${images(count)} of $rawBytes before compression")
    BlockTable(rows, perBlock, places, images)
  }

  /** Rows `from` until `until` as one body; rows from `renewedFrom` on are renewed footprints. */
  def encode(rows: Rows, from: Int, until: Int, renewedFrom: Int, version: Long, timestampUs: Long, level: Int): StoredBody =
    ZstdFrames.compressing(level) { zstd =>
      val raw = rawBytes(rows, from, until)
      val perBlock = if (from == until) 1 else rowsIn((raw / (until - from)).toInt)
      val starts = Array.range(from, until, perBlock)
      val sizes = starts.map(start => rawBytes(rows, start, math.min(until, start + perBlock)).toInt)
      val head = headBytes(until - from, perBlock)
      val out = new Array[Byte](Math.toIntExact(head + sizes.iterator.map(ZstdFrames.bytesMax).sum))
      littleEndian(out).putLong(timestampUs).putLong(version).putInt(perBlock)
      val image = new Array[Byte](if (sizes.isEmpty) 0 else sizes.max)
      var (end, imageEnd) = (head, 0)
      starts.indices.foreach { block =>
        putImage(rows, starts(block), math.min(until, starts(block) + perBlock), renewedFrom, image)
        end += zstd.compressByteArray(out, end, out.length - end, image, 0, sizes(block))
        imageEnd += sizes(block)
        littleEndian(out).putInt(HeadBytes + block * EntryBytes, end - head).putInt(HeadBytes + block * EntryBytes + 4, imageEnd)
      }
      StoredBody(Arrays.copyOf(out, end), imageEnd, Format.CodecBlocks)
    }

  private def rowsIn(rowBytes: Int): Int = Integer.highestOneBit(math.max(1, math.min(RowsMax, blockBytes / math.max(1, rowBytes))))

  /** Bytes of these rows before compression, in one block; of several a few more. */
  def rawBytes(rows: Rows, from: Int, until: Int): Long =
    fixedBytes(until - from) + rows.keyEnds(until) - rows.keyEnds(from) + rows.valueEnds(until) - rows.valueEnds(from)

  private def fixedBytes(n: Int): Long = n.toLong * RowBytes + (n + 7) / 8

  private def putImage(rows: Rows, from: Int, until: Int, renewedFrom: Int, image: Array[Byte]): Unit = {
    val n = until - from
    val at = new ImagePlaces(0, n)
    System.arraycopy(rows.kinds, from, image, at.kinds, n)
    Arrays.fill(image, at.renewed, at.keyLengths, 0.toByte)
    var row = 0
    while (row < n) {
      Platform.putShort(image, Platform.BYTE_ARRAY_OFFSET + at.families + row * 2L, rows.family(from + row).toShort)
      if (from + row >= renewedFrom) image(at.renewed + (row >> 3)) = (image(at.renewed + (row >> 3)) | 1 << (row & 7)).toByte
      Platform.putInt(image, Platform.BYTE_ARRAY_OFFSET + at.keyLengths + row * 4L, rows.keyLength(from + row))
      Platform.putInt(image, Platform.BYTE_ARRAY_OFFSET + at.valueLengths + row * 4L, rows.valueLength(from + row))
      row += 1
    }
    rows.copyKeys(from, until, image, at.keys)
    rows.copyValues(from, until, image, at.keys + rows.keyEnds(until) - rows.keyEnds(from))
  }

  /** The image of one block, of which these are the stored bytes. Raises BadFrame. */
  def image(table: BlockTable, block: Int, stored: Array[Byte]): Array[Byte] = ZstdFrames.inflate(stored, table.imageBytes(block))

  /** All rows of a body. Raises BadFrame. */
  def decode(stored: Array[Byte], count: Int, rawBytes: Int, id: Int): Rows = {
    val found = table(stored, count, stored.length, rawBytes)
    val raw = new Array[Byte](rawBytes)
    ZstdFrames.decompressing(inflateAll(_, found, stored, raw))
    val rows = new Rows(id, count, 0, 0)
    rows.renewed = new Array[Byte]((count + 7) / 8)
    rows.valueEnds = new Array[Int](count + 1)
    (0 until found.count).foreach(block => takeLengths(rows, raw, found, block))
    rows.keys = new Array[Byte](rows.keyEnds(count))
    rows.values = new Array[Byte](rows.valueEnds(count))
    (0 until found.count).foreach(block => takeBytes(rows, raw, found, block))
    rows.finishDecoding(count)
    rows
  }

  private def inflateAll(zstd: ZstdDecompressCtx, table: BlockTable, stored: Array[Byte], raw: Array[Byte]): Unit =
    (0 until table.count).foreach { block =>
      ZstdFrames.inflate(zstd, stored, table.places(block), table.storedBytes(block), raw, table.images(block), table.imageBytes(block))
    }

  // Loops: a restart runs this code before it is compiled well.
  private def takeLengths(rows: Rows, raw: Array[Byte], table: BlockTable, block: Int): Unit = {
    val (from, n) = (block * table.rowsPerBlock, table.rowsIn(block))
    val at = new ImagePlaces(table.images(block), n)
    if (at.keys > table.images(block + 1)) throw new BadFrame(s"body: block $block has no room for $n rows")
    System.arraycopy(raw, at.kinds, rows.kinds, from, n)
    var row = 0
    while (row < n) {
      val kind = raw(at.kinds + row)
      if (kind < Format.Open || kind > Format.Result) throw new BadFrame("body: a record of no kind")
      val family = Platform.getShort(raw, Platform.BYTE_ARRAY_OFFSET + at.families + row * 2L)
      if (family != Format.DefaultFamily || rows.families != null) rows.setFamily(from + row, family)
      val (key, value) = (Platform.getInt(raw, Platform.BYTE_ARRAY_OFFSET + at.keyLengths + row * 4L),
        Platform.getInt(raw, Platform.BYTE_ARRAY_OFFSET + at.valueLengths + row * 4L))
      rows.keyEnds(from + row + 1) = sum(rows.keyEnds(from + row), key)
      rows.valueEnds(from + row + 1) = sum(rows.valueEnds(from + row), value)
      row += 1
    }
    takeRenewed(rows, raw, at.renewed, from, n)
    val (keys, values) = (rows.keyEnds(from + n) - rows.keyEnds(from), rows.valueEnds(from + n) - rows.valueEnds(from))
    if (at.keys.toLong + keys + values != table.images(block + 1)) throw new BadFrame(
      s"body: the $n rows of block $block take $keys and $values bytes, and it has ${table.images(block + 1) - at.keys}")
  }

  private def takeRenewed(rows: Rows, raw: Array[Byte], at: Int, from: Int, n: Int): Unit =
    if ((from & 7) == 0) System.arraycopy(raw, at, rows.renewed, from >> 3, (n + 7) >> 3)
    else (0 until n).foreach { row =>
      val to = from + row
      if ((raw(at + (row >> 3)) & (1 << (row & 7))) != 0) rows.renewed(to >> 3) = (rows.renewed(to >> 3) | 1 << (to & 7)).toByte
    }

  private def sum(end: Int, length: Int): Int = {
    if (length < 0 || length > Int.MaxValue - end) throw new BadFrame(s"body: a key or value of $length bytes")
    end + length
  }

  private def takeBytes(rows: Rows, raw: Array[Byte], table: BlockTable, block: Int): Unit = {
    val (from, n) = (block * table.rowsPerBlock, table.rowsIn(block))
    val keysAt = new ImagePlaces(table.images(block), n).keys
    val keys = rows.keyEnds(from + n) - rows.keyEnds(from)
    System.arraycopy(raw, keysAt, rows.keys, rows.keyEnds(from), keys)
    System.arraycopy(raw, keysAt + keys, rows.values, rows.valueEnds(from), rows.valueEnds(from + n) - rows.valueEnds(from))
  }
}

/** Where the parts of an image of n rows begin, which begins at `start`. */
private[cecstore] final class ImagePlaces(start: Int, n: Int) {
  val kinds: Int = start
  val families: Int = kinds + n
  val renewed: Int = families + n * 2
  val keyLengths: Int = renewed + (n + 7) / 8
  val valueLengths: Int = keyLengths + n * 4
  val keys: Int = valueLengths + n * 4
}
