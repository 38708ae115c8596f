package org.apache.spark.sql.cecstore.state

import java.io.Closeable
import java.nio.ByteBuffer
import scala.collection.mutable.ArrayBuffer
import org.apache.spark.sql.cecstore.format.{BadFrame, Format, FramePlace, Rows, RowsSummary}
import org.apache.spark.sql.cecstore.keys.HashIndex
import org.apache.spark.sql.cecstore.log.SegmentInput

/** What a key file says of a frame, beside the hashes of its keys: where it is, and what is known of its rows. */
private[state] final case class KeyFrame(place: FramePlace, rows: RowsSummary, families: Array[Short])

/**
 * Successive frames, oldest first, with the hash of each of their keys, and sorted runs of those that are kept in order. It says
 * nothing that these frames do not say. docs/format.md §16.
 */
private[state] final class KeyFile(file: SealedFile) extends Closeable {
  val (frames: Seq[KeyFrame], runs: Seq[SortedRun]) = file.head(in => (Vector.fill(in.getInt)(KeyFile.frame(in)), Vector.fill(in.getInt)(KeyFile.run(in))))
  private val hashBytes = frames.map(_.rows.count * 4L).sum
  if (file.bodyBytes != hashBytes + runs.map(_.storedBytes).sum) throw new BadFrame(s"a key file has ${file.bodyBytes} bytes of hashes and sorted runs")
  private val places = runs.scanLeft(hashBytes)(_ + _.storedBytes)

  def seal: Seal = file.seal

  /** Call with the hashes of each frame, which are known to be right once it returns. Raises BadFrame. */
  def eachFrame(take: Array[Byte] => Unit): Unit = {
    var left = frames.size
    file.body(frames.iterator.map(_.rows.count * 4) ++ runs.iterator.flatMap(_.blocks).map(_.storedBytes)) { bytes =>
      if (left > 0) take(bytes)
      left -= 1
    }
  }

  /** Whether each row of the family, if there is one, stands in a sorted run. */
  def hasSorted(family: Int): Boolean = rowsOf.getOrElse(family, 0L) == runs.iterator.filter(_.family == family).map(_.rows).sum

  /** How many rows of each family there are. */
  private lazy val rowsOf: Map[Int, Long] = {
    val counts = new Array[Long](1 << 16)
    frames.foreach(frame => if (frame.families == null) counts(Format.DefaultFamily) += frame.rows.count else frame.families.foreach(family => counts(family & 0xffff) += 1))
    counts.indices.iterator.filter(counts(_) > 0).map(family => family -> counts(family)).toMap
  }

  /** Where the first block of a run is. */
  def placeOf(run: SortedRun): Long = places(runs.indexWhere(_ eq run))
  def read(at: Long, bytes: Int): Array[Byte] = file.read(at, bytes)

  override def close(): Unit = file.close()
}

private[state] object KeyFile {
  private val Magic = 0x4b434543 // CECK

  def open(input: SegmentInput): KeyFile = {
    val file = SealedFile.open(Magic, input)
    try new KeyFile(file) catch { case e: Throwable => file.close(); throw e }
  }

  /**
   * The bytes of the file for these frames, oldest first, piece by piece.
   *
   * @param inOrder families whose keys are kept in order
   */
  def encoded(frames: Iterator[Rows], inOrder: Set[Int]): Iterator[Array[Byte]] = {
    val known = ArrayBuffer.empty[KeyFrame]
    val sorted = new SortedRunsWriter(inOrder)
    def head(): HeadBytes = {
      val out = new HeadBytes
      out.int(known.size)
      known.foreach(add(out, _))
      out.int(sorted.runs.size)
      sorted.runs.foreach(add(out, _))
      out
    }
    val ofFrames = frames.map { rows =>
      sorted.add(known.size, rows)
      known += KeyFrame(rows.place, rows.summary, rows.families)
      hashes(rows)
    }
    SealedFile.encoded(Magic, ofFrames ++ { sorted.finish(); sorted.blocks.iterator }, head)
  }

  private def add(out: HeadBytes, run: SortedRun): Unit = {
    out.int(run.family).int(run.blocks.size)
    run.blocks.foreach(block => out.int(block.rows).int(block.keyBytes).int(block.storedBytes))
  }

  private def run(in: ByteBuffer): SortedRun = SortedRun(in.getInt, Vector.fill(in.getInt) {
    val block = SortedBlock(in.getInt, in.getInt, in.getInt)
    if (block.rows <= 0 || block.keyBytes < 0 || block.storedBytes <= 0 || block.rawBytes > Int.MaxValue) throw new BadFrame(s"no block of sorted keys: $block")
    block
  })

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
    KeyFrame(place, rows, if (in.getInt == 0) null else Array.fill(SealedFile.checked(in, rows.count, 2))(in.getShort))
  }
}
