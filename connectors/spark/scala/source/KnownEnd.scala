package org.apache.spark.sql.cecstore.source

import java.io.FileNotFoundException
import java.util.Arrays
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.{DamagedLog, Format, FrameHeader, Scan, SegmentHeader}
import org.apache.spark.sql.cecstore.log.SegmentFolder
import org.apache.spark.sql.cecstore.queue.{DurableNote, NotAQueue, Store}
import scala.util.Try

/** Segments `first` to `newest` exist. docs/format.md §2. */
private[cecstore] final case class Manifest(epoch: Long, logId: IndexedSeq[Byte], first: Long, newest: Long)

/** Which segments a log has, and how far the newest is on disk at least. */
private[cecstore] final case class KnownEnd(manifest: Manifest, noted: Option[DurableNote])

private[cecstore] object KnownEnd {
  private val ManifestName = """manifest-(\d{10})""".r
  private val NoteName = """durable-(\d{10})""".r
  private val ManifestMagic = "CECMANI\u0000".getBytes("US-ASCII")
  private val ManifestBytes = 64
  private val Advice = "restore it from a copy as new as the rest of the queue; to go on without what is lost, move " +
    "away the `durable-…` files, and the segments above the manifest's newest"

  /**
   * Look beside a live writer or without one. Raises NotAQueue, and CecLogException where the manifest is damaged, or
   * older than segments or notes that are there.
   *
   * @param folder below the store; ends with a slash, or is empty
   */
  def read(store: Store, folder: String): KnownEnd = {
    // Before the manifest, which is then at least as new as all that is found here.
    val names = store.list(folder.stripSuffix("/")).map(_.name)
    val notes = names.collect { case name @ NoteName(epoch) => (name, epoch.toLong, notesIn(store, folder + name)) }
    val manifest = readManifest(store, folder)
    try {
      refuseUnknownNotes(store, folder, manifest, notes)
      names.find(SegmentFolder.idOf(_).exists(isUnknown(store, folder, manifest, _)))
        .foreach(name => throw older(store, folder, manifest, name))
      val ofNewest = notes.flatMap(_._3).filter(_.segment == manifest.newest)
      KnownEnd(manifest, ofNewest.maxByOption(note => (note.byte, note.epoch)))
    } catch {
      // What was a segment in the making may have been published and written to meanwhile.
      case _: CecLogException if readManifest(store, folder) != manifest => read(store, folder)
    }
  }

  /** The manifest of the newest epoch. */
  def readManifest(store: Store, folder: String): Manifest = {
    val names = store.list(folder.stripSuffix("/")).map(_.name).filter(ManifestName.matches)
    val name = names.maxOption.getOrElse(throw new NotAQueue(
      s"${store.url}/${folder.stripSuffix("/")}", s"no queue here (there is no file manifest-…)"))
    // Where it is gone a new writer has just published its own.
    store.readIfThere(folder + name, 0, ManifestBytes + 1).fold(readManifest(store, folder))(decoded(_, s"${store.url}/$folder$name", name.takeRight(10).toLong))
  }

  private def decoded(bytes: Array[Byte], path: String, epoch: Long): Manifest = {
    if (!bytes.startsWith(ManifestMagic)) throw new NotAQueue(path, "not a manifest of cec-store")
    if (bytes.length != ManifestBytes || !Format.isSealed(bytes)) throw DamagedLog(path, 0, "the manifest fails its checksum")
    val in = Format.littleEndian(bytes)
    val version = in.getShort(8)
    if (version != 1) {
      throw new CecLogException(s"$path: format version $version: upgrade cec-store", named = Map("path" -> path))
    }
    val found = Manifest(in.getInt(12) & 0xffffffffL, Arrays.copyOfRange(bytes, 16, 32).toIndexedSeq, in.getLong(32),
      in.getLong(40))
    if (found.epoch != epoch) throw DamagedLog(path, 12, s"the manifest is of epoch ${found.epoch}")
    if (found.first < 0 || found.first > found.newest) {
      throw DamagedLog(path, 32, s"first segment ${found.first} above newest segment ${found.newest}")
    }
    found
  }

  private def notesIn(store: Store, name: String): Seq[DurableNote] =
    store.readIfThere(name, 0, DurableNote.FileBytes).toSeq.flatMap(DurableNote.decoded(_, s"${store.url}/$name"))

  private def refuseUnknownNotes(store: Store, folder: String, manifest: Manifest,
      notes: Seq[(String, Long, Seq[DurableNote])]): Unit = notes.foreach { case (name, epoch, ends) =>
    if (ends.exists(_.logId != manifest.logId)) {
      throw DamagedLog(s"${store.url}/$folder$name", 16, "the file belongs to another queue")
    }
    val later = ends.filter(_.segment > manifest.newest)
    if (epoch > manifest.epoch || later.nonEmpty) throw older(store, folder, manifest, name)
  }

  /**
   * A writer makes its file before it appends, and removes those before it afterwards. Raises CecLogException where there
   * is none: the last group would be missing in silence.
   */
  def refuseWithoutNote(store: Store, folder: String, manifest: Manifest): Unit = {
    val own = f"${folder}durable-${manifest.epoch}%010d"
    val isThere = try store.size(own) > 0 catch { case _: FileNotFoundException => false }
    if (!isThere && !store.list(folder.stripSuffix("/")).exists(entry => NoteName.matches(entry.name))) {
      throw new DamagedLog(s"${store.url}/$own", "damage at byte 0: the note of how far the log is on disk is missing; " +
        "open the queue for append once: whole frames are kept, and noted anew; or restore the file from a copy as new as " +
        "the rest of the queue")
    }
  }

  /** Above the newest segment there may be one that was being born, and nothing else. */
  private def isUnknown(store: Store, folder: String, manifest: Manifest, id: Long): Boolean =
    id > manifest.newest && (id > manifest.newest + 1 || holdsAcknowledged(store, folder + SegmentFolder.name(id)))

  /** Whether a header vouches for more than the SCHEMA that the segment begins with: in one never published none does. */
  private def holdsAcknowledged(store: Store, name: String): Boolean = {
    val bytes = store.readIfThere(name).getOrElse(Array.emptyByteArray)
    val salt = Try(SegmentHeader.decode(bytes.take(Format.HeaderBytes)).salt).toOption
    val headers = Scan.of(bytes, salt, FrameHeader.decodeOfQueue).intactIn(bytes, 0).map(_.header).toSeq
    val published = headers.filter(_.kind == Format.Schema).map(h => h.schemaByte + h.frameBytes)
      .foldLeft(Format.HeaderBytes.toLong)(math.max)
    headers.exists(header => header.kind != Format.Schema && header.durableUpto > published)
  }

  private def older(store: Store, folder: String, manifest: Manifest, name: String) = new CecLogException(
    f"${store.url}/${folder}manifest-${manifest.epoch}%010d: damage at byte 0: the manifest is older than $name, " +
      s"which it does not know of; $Advice", named = Map("queue" -> store.url))
}
