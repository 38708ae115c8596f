package org.apache.spark.sql.cecstore.testing

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, Paths}
import java.util.HexFormat

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.module.scala.DefaultScalaModule
import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.cecstore.log.{SegmentFolder, SegmentInput, SegmentOutput, StateLog, VersionErrors}
import org.apache.spark.sql.cecstore.state.{LiveState, StateLoader}

/** What a version of a state log holds: family, key and value, in their order, and its figures. */
private[cecstore] final case class Content(
    state: Vector[(Int, String, String)], openWindows: Long, extentRecords: Long) {
  def plain: Map[String, Any] = Map(
    "state" -> state.map { case (family, key, value) => Seq(family, key, value) },
    "open_windows" -> openWindows, "extent_records" -> extentRecords)
}

/** Reads state logs as the provider does, by bytes, whatever Spark would make of them. */
private[cecstore] object Logs {
  private val hex = HexFormat.of()
  val json: ObjectMapper = new ObjectMapper().registerModule(DefaultScalaModule)

  def read(folder: SegmentFolder, version: Version): Content = {
    val log = new StateLog(folder)
    try VersionErrors.explained(log, version.number) {
      val last = log.find(version.number, version.id)
      contentOf(StateLoader.load(log, last, _ => false, log.location), last.header.extentRecords)
    } finally log.close()
  }

  def contentOf(state: LiveState, extentRecords: Long): Content = {
    val all = for (family <- 0 to 0xffff if state.keyCount(family) > 0; reference <- state.live(family, _.references)) yield {
      val (rows, row) = (state.rowsOf(reference), reference.toInt)
      (family, hex.formatHex(rows.key(row)), hex.formatHex(rows.value(row)))
    }
    Content(all.sorted.toVector, state.openWindows, extentRecords)
  }

  private val hadoop = new Configuration()

  def onDisk(path: Path): SegmentFolder = SegmentFolder(new org.apache.hadoop.fs.Path(path.toUri), hadoop)

  def inMemory(path: Path): MemoryFolder = {
    val files = Files.list(path)
    try new MemoryFolder(path.toString, files.iterator.asScala.flatMap(file =>
      SegmentFolder.idOf(file.getFileName.toString).map(_ -> Files.readAllBytes(file))).toMap)
    finally files.close()
  }

  /** Lines of a version, and after a blank its unique id where it is wanted by that. */
  def wanted(file: Path): Seq[Version] = Files.readAllLines(file).asScala.toSeq.map(_.split(" ") match {
    case Array(number) => Version(number.toLong, None)
    case Array(number, id) => Version(number.toLong, Some(id))
  })

  def write(file: Path, what: Any): Unit = Files.write(file, json.writeValueAsString(what).getBytes(UTF_8))

  /** Each folder under `logs` read at each version of its `wanted`; what is found goes to its `found.json`. */
  def run(words: Arguments): Programs.Result = {
    val folders = Files.list(Paths.get(words.text("logs")))
    val read_ = try folders.iterator.asScala.toVector.map { folder =>
      val versions = wanted(folder.resolve("wanted"))
      val segments = onDisk(folder)
      write(folder.resolve("found.json"), versions.map(read(segments, _).plain))
      versions.size
    } finally folders.close()
    Map("logs" -> read_.size, "versions" -> read_.sum)
  }
}

/** Segments in memory: quick to damage. Read only. */
private[cecstore] final class MemoryFolder(override val location: String, files: Map[Long, Array[Byte]])
  extends SegmentFolder {
  def all: Map[Long, Array[Byte]] = files
  def updated(id: Long, bytes: Array[Byte]): MemoryFolder = new MemoryFolder(location, files.updated(id, bytes))
  def without(id: Long): MemoryFolder = new MemoryFolder(location, files.removed(id))

  override def list(): Array[Long] = files.keys.toArray.sorted
  override def sizes(): Map[Long, Long] = files.map { case (id, bytes) => id -> bytes.length.toLong }

  override def open(id: Long): SegmentInput = {
    val bytes = files.getOrElse(id, throw new FileNotFoundException(pathOf(id)))
    new SegmentInput {
      override def size: Long = bytes.length
      override def read(from: Long, length: Int): Array[Byte] =
        bytes.slice(from.toInt, math.min(from + length, bytes.length).toInt)
      override def close(): Unit = ()
    }
  }

  override def create(id: Long, bytes: Iterator[Array[Byte]], sync: Boolean): SegmentOutput =
    throw new UnsupportedOperationException("read only")
  override def delete(id: Long): Unit = throw new UnsupportedOperationException("read only")
}
