package org.apache.spark.sql.cecstore.columns

import org.apache.arrow.memory.util.Float16
import org.apache.arrow.vector.types.{DateUnit, FloatingPointPrecision, TimeUnit}
import org.apache.arrow.vector.types.pojo.ArrowType
import org.apache.spark.sql.cecstore.format.BadFrame
import org.apache.spark.sql.cecstore.sparks.NanoTimestamps
import org.apache.spark.sql.types.VariantType
import org.apache.spark.sql.vectorized.ColumnVector
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

/**
 * Columns of one frame: buffers where Spark has the type, values made wider where it has only another
 * (SparkTypes says which).
 *
 * @param dictionaries those of the fields that are stored as indices, by number
 */
private[cecstore] final class ColumnDecoder(message: BatchMessage, scratch: Scratch,
    dictionaries: Map[Int, BatchMessage]) {
  /** The column, or what is asked for of it; nothing of the rest is decompressed. */
  def column(layout: Layout, rows: Int, part: Part): ColumnVector = vector(layout, rowsOf(layout, rows), part)

  /** Numbers of a column that has no nulls. */
  def numbers(layout: Layout, rows: Int, width: Int): ByteSpan = {
    if (message.nullsOf(layout.number) != 0) throw new BadFrame(s"body: ${layout.field.getName} has nulls")
    Checks.enough(message.buffer(layout.buffer + 1), rowsOf(layout, rows).toLong * width, layout.field.getName)
  }

  private def rowsOf(layout: Layout, rows: Int): Int = {
    val found = message.rowsOf(layout.number)
    if (found != rows) throw new BadFrame(s"body: ${layout.field.getName} has $found rows of $rows")
    rows
  }

  private def vector(layout: Layout, n: Int, part: Part): ColumnVector = {
    val found = stored(layout, n, part)
    if (part.isWider) new WiderVector(part.kind, found) else found
  }

  private def stored(layout: Layout, n: Int, part: Part): ColumnVector = {
    lazy val kind = layout.sparkType
    lazy val nulls = nullsOf(layout, n)
    def fixed(width: Int) = new FixedVector(kind, nulls, values(layout, n * width.toLong), width)
    layout.kind match {
      case _ if layout.indexBytes > 0 => dictionary(layout, n, nulls)
      case _: ArrowType.Null => new NullVector(n)
      case _: ArrowType.Bool => new FixedVector(kind, nulls, values(layout, (n + 7L) / 8), 0)
      case int: ArrowType.Int if int.getIsSigned => fixed(int.getBitWidth / 8)
      case int: ArrowType.Int => unsigned(layout, n, nulls, int.getBitWidth)
      case float: ArrowType.FloatingPoint if float.getPrecision == FloatingPointPrecision.HALF =>
        widened(layout, n, nulls, 2, 4) { (in, at, out, to) =>
          Platform.putFloat(out, to, Float16.toFloat(Platform.getShort(in, at)))
        }
      case float: ArrowType.FloatingPoint => fixed(if (float.getPrecision == FloatingPointPrecision.SINGLE) 4 else 8)
      case decimal: ArrowType.Decimal => fixed(decimal.getBitWidth / 8)
      case date: ArrowType.Date if date.getUnit == DateUnit.DAY => fixed(4)
      case _: ArrowType.Date => widened(layout, n, nulls, 8, 4) { (in, at, out, to) =>
        Platform.putInt(out, to, Math.floorDiv(Platform.getLong(in, at), 86400000L).toInt)
      }
      case timestamp: ArrowType.Timestamp if NanoTimestamps.isOne(part.kind) =>
        val isFine = timestamp.getUnit == TimeUnit.NANOSECOND
        val numbers = if (isFine) fixed(8) else microseconds(layout, n, nulls, timestamp.getUnit)
        NanoTimestamps.of(part.kind, numbers, if (isFine) 1000 else 1)
      case timestamp: ArrowType.Timestamp => microseconds(layout, n, nulls, timestamp.getUnit)
      case duration: ArrowType.Duration => microseconds(layout, n, nulls, duration.getUnit)
      case time: ArrowType.Time => nanoseconds(layout, n, nulls, time)
      case fixedBytes: ArrowType.FixedSizeBinary => fixedBytesOf(layout, n, nulls, fixedBytes.getByteWidth)
      case _: ArrowType.Utf8 | _: ArrowType.LargeUtf8 | _: ArrowType.Binary | _: ArrowType.LargeBinary =>
        val (offsets, data) = bytesOf(message, layout, layout.buffer, n)
        new BytesVector(kind, nulls, offsets, data)
      case _ => nested(layout, n, nulls, part)
    }
  }

  def nullsIn(layout: Layout): Long = message.nullsOf(layout.number)

  private def nullsOf(layout: Layout, n: Int): Nulls = {
    val said = nullsIn(layout)
    val bits = message.buffer(layout.buffer)
    if (bits.length == 0 && said == 0) Nulls.None
    else {
      Checks.enough(bits, (n + 7L) / 8, s"validity of ${layout.field.getName}")
      val count = n - Checks.setBits(bits, n)
      if (count != said) throw new BadFrame(s"body: ${layout.field.getName} has $count nulls, and says $said")
      if (count == 0) Nulls.None else new Nulls(count, bits)
    }
  }

  private def values(layout: Layout, needed: Long): ByteSpan =
    Checks.enough(message.buffer(layout.buffer + 1), needed, layout.field.getName)

  private def dictionary(layout: Layout, n: Int, nulls: Nulls): ColumnVector = {
    val entries = dictionaries(layout.number)
    val count = entries.rows
    if (entries.nodes != 1 || entries.buffers != 3 || entries.nullsOf(0) != 0 || entries.rowsOf(0) != count) {
      throw new BadFrame(s"body: the dictionary of ${layout.field.getName} is no column without nulls")
    }
    val (offsets, data) = bytesOf(entries, layout, 0, count.toInt)
    val strings = Array.tabulate(count.toInt) { i =>
      val from = Platform.getInt(offsets.array, offsets.base + i * 4L)
      UTF8String.fromAddress(data.array, data.base + from,
          Platform.getInt(offsets.array, offsets.base + i * 4L + 4) - from)
    }
    val indices = message.buffer(layout.buffer + 1)
    Checks.indices(indices, n, layout.indexBytes, strings.length, nulls, layout.field.getName)
    new DictionaryVector(layout.sparkType, nulls, indices, layout.indexBytes, strings)
  }

  /** Offsets of 4 bytes, and what they point into; both proven. `buffer`: the field's first in this message. */
  private def bytesOf(from: BatchMessage, layout: Layout, buffer: Int, n: Int): (ByteSpan, ByteSpan) = {
    val name = layout.field.getName
    val isLarge = layout.kind.isInstanceOf[ArrowType.LargeUtf8] || layout.kind.isInstanceOf[ArrowType.LargeBinary]
    val offsets = offsetsOf(from.buffer(buffer + 1), n, isLarge, name)
    val data = from.buffer(buffer + 2)
    Checks.offsets(offsets, n, data.length, name)
    (offsets, Checks.withRoom(data, scratch))
  }

  private def offsetsOf(stored: ByteSpan, n: Int, isLarge: Boolean, name: String): ByteSpan =
    if (!isLarge) stored
    else {
      Checks.enough(stored, if (n == 0) 0 else (n + 1) * 8L, s"offsets of $name")
      Checks.narrowed(stored, n, scratch.take(if (n == 0) 0 else (n + 1) * 4), name)
    }

  private def nested(layout: Layout, n: Int, nulls: => Nulls, part: Part): ColumnVector = {
    val kind = part.kind
    def rowsBelow(below: Layout, least: Long): Int = {
      val rows = message.rowsOf(below.number)
      if (rows < least) throw new BadFrame(s"body: ${layout.field.getName} needs $least values, and has $rows")
      rows
    }
    def child(of: Layout, least: Long)(wanted: Part): ColumnVector = {
      val below = of.children(wanted.place)
      vector(below, rowsBelow(below, least), wanted)
    }
    def offsets(isLarge: Boolean): (ByteSpan, Int) = {
      val found = offsetsOf(message.buffer(layout.buffer + 1), n, isLarge, layout.field.getName)
      Checks.offsets(found, n, Int.MaxValue, layout.field.getName)
      (found, if (n == 0) 0 else Platform.getInt(found.array, found.base + n * 4L))
    }
    layout.kind match {
      case _: ArrowType.Struct if kind == VariantType =>
        new StructVector(kind, nulls, SparkTypes.VariantParts.toIndexedSeq.map { name =>
          val place = layout.children.indexWhere(_.field.getName == name)
          child(layout, n)(Part.whole(layout.children(place).field, place))
        })
      case _: ArrowType.Struct => new StructVector(kind, nulls, part.parts.map(child(layout, n)))
      case list: ArrowType.FixedSizeList =>
        new FixedListVector(kind, nulls, list.getListSize, child(layout, n.toLong * list.getListSize)(part.parts.head))
      case _: ArrowType.List | _: ArrowType.LargeList =>
        val (found, least) = offsets(layout.kind.isInstanceOf[ArrowType.LargeList])
        new ListVector(kind, nulls, found, child(layout, least)(part.parts.head))
      case _: ArrowType.Map =>
        val (found, least) = offsets(isLarge = false)
        val entries = layout.children(0)
        val rows = rowsBelow(entries, least)
        if (nullsOf(entries, rows).count > 0) {
          throw new BadFrame(s"body: ${layout.field.getName} has entries that are null")
        }
        val Seq(keys, values) = part.parts.map(child(entries, rows))
        new MapVector(kind, nulls, found, keys, values)
      case other => throw new BadFrame(s"body: ${layout.field.getName} is $other") // the schema was refused before
    }
  }

  // -- types that Spark has wider only ------------------------------------------------------------

  private def widened(layout: Layout, n: Int, nulls: Nulls, from: Int, to: Int)(
      put: (Array[Byte], Long, Array[Byte], Long) => Unit): ColumnVector = {
    val in = values(layout, n.toLong * from)
    val out = scratch.take(Math.multiplyExact(n, to))
    var i = 0
    while (i < n) {
      put(in.array, in.base + i.toLong * from, out, Platform.BYTE_ARRAY_OFFSET + i.toLong * to)
      i += 1
    }
    new FixedVector(layout.sparkType, nulls, new ByteSpan(out, 0, n * to), to)
  }

  private def unsigned(layout: Layout, n: Int, nulls: Nulls, bits: Int): ColumnVector = bits match {
    case 8 => widened(layout, n, nulls, 1, 2)((in, at, out, to) =>
      Platform.putShort(out, to, (Platform.getByte(in, at) & 0xff).toShort))
    case 16 => widened(layout, n, nulls, 2, 4)((in, at, out, to) =>
      Platform.putInt(out, to, Platform.getShort(in, at) & 0xffff))
    case 32 => widened(layout, n, nulls, 4, 8)((in, at, out, to) =>
      Platform.putLong(out, to, Platform.getInt(in, at) & 0xffffffffL))
    case _ => widened(layout, n, nulls, 8, 16) { (in, at, out, to) =>
      Platform.putLong(out, to, Platform.getLong(in, at))
      Platform.putLong(out, to + 8, 0)
    }
  }

  private def microseconds(layout: Layout, n: Int, nulls: Nulls, unit: TimeUnit): ColumnVector = unit match {
    case TimeUnit.MICROSECOND => new FixedVector(layout.sparkType, nulls, values(layout, n * 8L), 8)
    case TimeUnit.NANOSECOND =>
      widened(layout, n, nulls, 8, 8)((in, at, out, to) => Platform.putLong(out, to, Platform.getLong(in, at) / 1000))
    case _ =>
      val factor = if (unit == TimeUnit.SECOND) 1000000L else 1000L
      widened(layout, n, nulls, 8, 8)((in, at, out, to) => Platform.putLong(out, to, Platform.getLong(in, at) * factor))
  }

  private def nanoseconds(layout: Layout, n: Int, nulls: Nulls, time: ArrowType.Time): ColumnVector = {
    val factor = time.getUnit match {
      case TimeUnit.SECOND => 1000000000L
      case TimeUnit.MILLISECOND => 1000000L
      case TimeUnit.MICROSECOND => 1000L
      case TimeUnit.NANOSECOND => 1L
    }
    if (factor == 1) new FixedVector(layout.sparkType, nulls, values(layout, n * 8L), 8)
    else if (time.getBitWidth == 64) widened(layout, n, nulls, 8, 8)((in, at, out, to) =>
        Platform.putLong(out, to, Platform.getLong(in, at) * factor))
    else widened(layout, n, nulls, 4, 8)((in, at, out, to) =>
        Platform.putLong(out, to, Platform.getInt(in, at) * factor))
  }

  private def fixedBytesOf(layout: Layout, n: Int, nulls: Nulls, width: Int): ColumnVector = {
    val data = values(layout, n.toLong * width)
    val out = scratch.take(Math.multiplyExact(n + 1, 4))
    (0 to n).foreach(i => Platform.putInt(out, Platform.BYTE_ARRAY_OFFSET + i * 4L, i * width))
    new BytesVector(layout.sparkType, nulls, new ByteSpan(out, 0, (n + 1) * 4), data)
  }
}
