package org.apache.spark.sql.cecstore.state

import java.io.Closeable
import java.nio.ByteBuffer
import scala.collection.mutable.ArrayBuffer
import org.apache.spark.sql.cecstore.format.{BadFrame, Format, FramePlace, Rows, RowsSummary}
import org.apache.spark.sql.cecstore.keys.HashIndex
import org.apache.spark.sql.cecstore.log.SegmentInput

/** What a key file says of a frame, beside the hashes of its keys: where it is, and what is known of its rows. */
private[state] final case class KeyFrame(place: FramePlace, rows: RowsSummary, families: Array[Short])

/** Successive frames, oldest first, with the hash of each of their keys. It says nothing that these frames do not say. docs/format.md §16. */
private[state] final class KeyFile(file: SealedFile) extends Closeable {
  val frames: Seq[KeyFrame] = file.head(in => Vector.fill(in.getInt)(KeyFile.frame(in)))
  if (file.bodyBytes != frames.map(_.rows.count * 4L).sum) throw new BadFrame(s"a key file has ${file.bodyBytes} bytes of hashes")

  def seal: Seal = file.seal

  /** Call with the hashes of each frame, which are known to be right once it returns. Raises BadFrame. */
  def eachFrame(take: Array[Byte] => Unit): Unit = file.body(frames.iterator.map(_.rows.count * 4))(take)

  override def close(): Unit = file.close()
}

private[state] object KeyFile {
  val Suffix = "keys"
  private val Magic = 0x4b434543 // CECK

  def open(input: SegmentInput): KeyFile = {
    val file = SealedFile.open(Magic, input)
    try new KeyFile(file) catch { case e: Throwable => file.close(); throw e }
  }

  /** The bytes of the file for these frames, oldest first, piece by piece. */
  def encoded(frames: Iterator[Rows]): Iterator[Array[Byte]] = {
    val known = ArrayBuffer.empty[KeyFrame]
    def head(): HeadBytes = {
      val out = new HeadBytes
      out.int(known.size)
      known.foreach(add(out, _))
      out
    }
    SealedFile.encoded(Magic, frames.map { rows => known += KeyFrame(rows.place, rows.summary, rows.families); hashes(rows) }, head)
  }

  private def hashes(rows: Rows): Array[Byte] = {
    val out = Format.littleEndian(new Array[Byte](rows.count * 4))
    var row = 0
    while (row < rows.count) { out.putInt(HashIndex.hash(rows.keyArray(row), rows.keyFrom(row), rows.keyLength(row))); row += 1 }
    out.array
  }

  private def add(out: HeadBytes, frame: KeyFrame): Unit = {
    val (place, of) = (frame.place, frame.rows)
    out.long(place.segment).long(place.byte).int(place.bodyBytes).int(place.rawBytes).int(place.codec)
    out.int(of.count).long(of.firstOffset).long(of.storedBytes).int(of.keyWidth).int(of.valueWidth).int(of.keyBytes).int(of.valueBytes)
    out.int(if (frame.families == null) 0 else 1)
    if (frame.families != null) (0 until of.count).foreach(row => out.short(frame.families(row)))
  }

  private def frame(in: ByteBuffer): KeyFrame = {
    val place = FramePlace(in.getLong, in.getLong, in.getInt, in.getInt, in.getInt.toByte)
    val rows = RowsSummary(in.getInt, in.getLong, in.getLong, in.getInt, in.getInt, in.getInt, in.getInt)
    KeyFrame(place, rows, if (in.getInt == 0) null else Array.fill(rows.count)(in.getShort))
  }
}
