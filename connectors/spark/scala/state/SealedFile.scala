package org.apache.spark.sql.cecstore.state

import java.io.Closeable
import java.nio.{BufferUnderflowException, ByteBuffer, ByteOrder}
import java.util.zip.CRC32C
import org.apache.spark.sql.cecstore.format.{BadFrame, Format, NewerFrame}
import org.apache.spark.sql.cecstore.log.SegmentInput

/**
 * A file that is derived from a log: a body, a head that says what is in it, and a footer with the checksums of both.
 * docs/format.md §16.
 */
private[state] final class SealedFile private (input: SegmentInput, head_ : Array[Byte], val seal: Seal, val bodyBytes: Long) extends Closeable {
  /** What a reader makes of the head. Raises BadFrame where it ends too early. */
  def head[A](read: ByteBuffer => A): A = try read(Format.littleEndian(head_)) catch {
    case e @ (_: BufferUnderflowException | _: NegativeArraySizeException | _: IllegalArgumentException) => throw new BadFrame(s"the head of a key directory's file: $e")
  }

  /** Read the body in pieces of these lengths, which together are all of it. Raises BadFrame after the last one, if its checksum fails. */
  def body(lengths: Iterator[Int])(each: Array[Byte] => Unit): Unit = {
    val crc = new CRC32C
    var at = 0L
    lengths.foreach { length =>
      val bytes = input.read(at, length)
      crc.update(bytes)
      each(bytes)
      at += length
    }
    if (at != bodyBytes || crc.getValue.toInt != seal.bodyCrc) throw new BadFrame("the body of a key directory's file fails its checksum")
  }

  /** A part of the body, or what there is of it. */
  def read(at: Long, bytes: Int): Array[Byte] = input.read(at, bytes)

  override def close(): Unit = input.close()
}

/** The checksums by which another file names this one. */
private[state] final case class Seal(headCrc: Int, bodyCrc: Int)

private[state] object SealedFile {
  private val Version: Short = 1
  private val FooterBytes = 28

  /** The bytes of a file, piece by piece; `head` is asked for once the body is through. */
  def encoded(magic: Int, body: Iterator[Array[Byte]], head: () => HeadBytes): Iterator[Array[Byte]] = {
    val crc = new CRC32C
    def ending(): Iterator[Array[Byte]] = {
      val bytes = head().taken
      val footer = Format.littleEndian(new Array[Byte](FooterBytes))
      footer.putInt(magic).putShort(Version).putShort(0).putLong(bytes.length).putInt(Format.crc32c(bytes, bytes.length)).putInt(crc.getValue.toInt)
      footer.putInt(Format.crc32c(footer.array, FooterBytes - 4))
      Iterator(bytes, footer.array)
    }
    body.map { bytes => crc.update(bytes); bytes } ++ ending()
  }

  /** Raises BadFrame where it is not whole; closes the file then. */
  def open(magic: Int, input: SegmentInput): SealedFile = try opened(magic, input) catch { case e: Throwable => input.close(); throw e }

  private def opened(magic: Int, input: SegmentInput): SealedFile = {
    val size = input.size
    val footer = input.read(math.max(0, size - FooterBytes), FooterBytes)
    val in = Format.littleEndian(footer)
    if (footer.length < FooterBytes || in.getInt(0) != magic || !Format.isSealed(footer)) throw new BadFrame("no file of a key directory, or its footer is damaged")
    if (in.getShort(4) != Version || in.getShort(6) != 0) throw new NewerFrame(s"a key directory of version ${in.getShort(4)}")
    val headBytes = in.getLong(8)
    val bodyBytes = size - FooterBytes - headBytes
    if (headBytes < 0 || bodyBytes < 0) throw new BadFrame("a file of a key directory is cut short")
    val head = input.read(bodyBytes, Math.toIntExact(headBytes))
    val seal = Seal(in.getInt(16), in.getInt(20))
    if (head.length < headBytes || Format.crc32c(head, head.length) != seal.headCrc) throw new BadFrame("the head of a key directory's file fails its checksum")
    new SealedFile(input, head, seal, bodyBytes)
  }

  /** The number of fields of this width, of which the head has as many. Raises BadFrame. */
  def checked(in: ByteBuffer, count: Int, width: Int): Int = {
    if (count < 0 || count > in.remaining / width) throw new BadFrame(s"the head of a key directory's file speaks of $count fields, and ends before")
    count
  }

  /** Behind how many there are. */
  def longs(in: ByteBuffer): Array[Long] = {
    val read = new Array[Long](checked(in, in.getInt, 8))
    in.asLongBuffer.get(read)
    in.position(in.position() + read.length * 8)
    read
  }
}

/** A head in the making. */
private[state] final class HeadBytes {
  private var out = ByteBuffer.allocate(1 << 16).order(ByteOrder.LITTLE_ENDIAN)

  private def room(bytes: Int): ByteBuffer = {
    if (out.remaining < bytes) {
      val larger = ByteBuffer.allocate(Math.toIntExact(math.max(out.capacity * 2L, out.position() + bytes.toLong))).order(ByteOrder.LITTLE_ENDIAN)
      out.flip()
      out = larger.put(out)
    }
    out
  }

  def short(value: Short): HeadBytes = { room(2).putShort(value); this }
  def int(value: Int): HeadBytes = { room(4).putInt(value); this }
  def long(value: Long): HeadBytes = { room(8).putLong(value); this }
  def bytes(values: Array[Byte]): HeadBytes = { room(values.length).put(values); this }
  /** Behind how many there are. */
  def longs(values: Array[Long]): HeadBytes = {
    int(values.length)
    room(values.length * 8)
    values.foreach(out.putLong)
    this
  }
  def taken: Array[Byte] = java.util.Arrays.copyOf(out.array, out.position())
}
