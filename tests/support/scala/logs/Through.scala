package org.apache.spark.sql.cecstore.testing

import java.nio.file.{Path => LocalPath}

import org.apache.spark.sql.cecstore.log.{DerivedFiles, SegmentFolder, SegmentInput, SegmentOutput}

/** A folder that hands all on to another one. Rules override what they watch, or let fail. */
private[cecstore] abstract class ThroughFolder(to: SegmentFolder) extends SegmentFolder {
  override def location: String = to.location
  override def localPath: Option[LocalPath] = to.localPath
  override def list(): Array[Long] = to.list()
  override def sizes(): Map[Long, Long] = to.sizes()
  override def open(id: Long): SegmentInput = to.open(id)
  override def create(id: Long, bytes: Iterator[Array[Byte]], sync: Boolean): SegmentOutput = to.create(id, bytes, sync)
  override def delete(id: Long): Unit = to.delete(id)
  override def settle(id: Long): Boolean = to.settle(id)
  override def derivedFiles: Option[DerivedFiles] = to.derivedFiles
}

/** The same of derived files. */
private[cecstore] abstract class ThroughFiles(to: DerivedFiles) extends DerivedFiles {
  override def names(): Seq[String] = to.names()
  override def open(name: String): SegmentInput = to.open(name)
  override def create(name: String, bytes: Iterator[Array[Byte]]): Unit = to.create(name, bytes)
  override def delete(name: String): Unit = to.delete(name)
}

/** The same of an input. */
private[cecstore] abstract class ThroughInput(to: SegmentInput) extends SegmentInput {
  override def size: Long = to.size
  override def read(from: Long, length: Int): Array[Byte] = to.read(from, length)
  override def close(): Unit = to.close()
}
