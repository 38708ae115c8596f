package org.apache.spark.sql.cecstore.queue

import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.{NoSuchFileException, Path, StandardOpenOption}
import java.nio.file.LinkOption.NOFOLLOW_LINKS
import java.util.Arrays
import scala.util.control.NonFatal
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.Format
import org.apache.spark.sql.cecstore.log.Mounts

/**
 * The newest commit of a local queue, noted in a second place: the file `log/mark`, in two slots, which its committers
 * write in turn. docs/format.md §11. In a store there is none, nor on a network file system, where a file may be seen
 * late.
 */
private[cecstore] final class CommitMark(store: Store) extends Logging {
  import CommitMark._

  private val file: Option[Path] = store.localRoot.filterNot(Mounts.isRemote).map(_.resolve(Names.Mark))
  val path: String = s"${store.url}/${Names.Mark}"

  /** The slot of the highest commit of this queue; without an id, of any. Raises CecLogException where it is no file. */
  def newest(logId: Option[IndexedSeq[Byte]]): Option[DurableNote] =
    slots.filter(slot => logId.forall(_ == slot.logId)).maxByOption(_.segment)

  private def slots: Seq[DurableNote] = file.flatMap(_ => store.readIfThere(Names.Mark, 0, DurableNote.FileBytes))
    .fold(Seq.empty[DurableNote])(DurableNote.decoded(_, path))

  /**
   * The file, open for one commit, before that is proven: if another queue takes this one's place afterwards, the slot
   * goes into the old file. None without a folder, and so without a queue, which the proof finds out.
   */
  def open(): Option[FileChannel] = file.flatMap { path =>
    LocalStore.requireRegular(path)
    try Some(FileChannel.open(path, Options)) catch { case _: NoSuchFileException => None }
  }

  /** Note a commit that is durable and proven. If that fails, the queue goes on without. */
  def write(open: FileChannel, logId: IndexedSeq[Byte], number: Long, salt: Long, bytes: Long): Unit = try {
    val place = (number % DurableNote.SlotsAt.size).toInt
    // A committer that was quicker may have noted a later one there.
    val isLater = slots.exists(slot => slot.logId == logId && slot.segment > number &&
      slot.segment % DurableNote.SlotsAt.size == place)
    if (!isLater) {
      open.write(ByteBuffer.wrap(DurableNote(0, logId, number, salt, bytes).encodedAsMark), DurableNote.SlotsAt(place))
    }
  } catch { case NonFatal(e) => logWarning(s"cec: $path: commit $number is not noted: $e") }
}

private object CommitMark {
  private val Options = java.util.Set.of(StandardOpenOption.CREATE, StandardOpenOption.WRITE, NOFOLLOW_LINKS)
}

/**
 * How far a log is on disk, as its writer noted it apart from the log: everything below `byte` of this segment.
 * docs/format.md §2. In the mark of a partitioned queue the segment is its newest commit (§11).
 */
private[cecstore] final case class DurableNote(epoch: Long, logId: IndexedSeq[Byte], segment: Long, salt: Long,
    byte: Long) {

  /** A slot of the mark: what a commit has not is 0. */
  def encodedAsMark: Array[Byte] = {
    val bytes = new Array[Byte](DurableNote.SlotBytes)
    val out = Format.littleEndian(bytes)
    out.put(DurableNote.Magic).putShort(1).putShort(DurableNote.SlotBytes.toShort).putInt(epoch.toInt)
    out.put(logId.toArray)
    out.putLong(segment).putLong(salt).putLong(byte)
    out.putInt(124, Format.crc32c(bytes, 124))
    bytes
  }
}

private[cecstore] object DurableNote {
  private val Magic = "CECDURA\u0000".getBytes("US-ASCII")
  private val SlotBytes = 128
  /** Where the two slots of a file stand: in sectors and pages of their own. */
  val SlotsAt: Seq[Int] = Seq(0, 4096)
  val FileBytes: Int = SlotsAt.last + SlotBytes

  /** The sound slots of a file; one that is torn, lost or was never written is absent. Raises CecLogException. */
  def decoded(bytes: Array[Byte], path: String): Seq[DurableNote] =
    SlotsAt.map(at => bytes.slice(at, at + SlotBytes)).filter(isSound).map { slot =>
      val in = Format.littleEndian(slot)
      if (in.getShort(8) != 1) {
        throw new CecLogException(s"$path: format version ${in.getShort(8)}: upgrade cec-store", named = Map("path" -> path.toString))
      }
      DurableNote(in.getInt(12) & 0xffffffffL, Arrays.copyOfRange(slot, 16, 32).toIndexedSeq, in.getLong(32),
        in.getLong(40), in.getLong(48))
    }

  private def isSound(slot: Array[Byte]): Boolean =
    slot.length == SlotBytes && slot.startsWith(Magic) && Format.isSealed(slot)
}
