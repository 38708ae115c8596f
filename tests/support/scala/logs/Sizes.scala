package org.apache.spark.sql.cecstore.testing

import java.nio.file.{Files, Path, Paths}
import java.util.Random
import java.util.zip.CRC32C

import org.apache.spark.sql.cecstore.log.{Base, SegmentWriter, StateLog}
import org.apache.spark.sql.cecstore.state.{ExtentTarget, Instance, LiveState, StateLoader}

/** Values above what many records of a frame may have, and what dead rows take of the heap. */
private[cecstore] object Sizes {
  private val clock = () => System.currentTimeMillis() * 1000

  /** Writes a value of so many bytes between two small ones, and reads it, and that of another writer. */
  def large(words: Arguments): Programs.Result = {
    val path = Files.createDirectories(Paths.get(words.text("root"), "scala"))
    val value = new Array[Byte](words.number("bytes", 1).toInt)
    new Random(7).nextBytes(value)
    val instance = made(path, StateLoader.empty(_ => false), ExtentTarget(2.0, None, None))
    instance.begin()
    Seq("a" -> Array[Byte](1), "b" -> value, "c" -> Array[Byte](2)).foreach { case (key, bytes) => put(instance, key, bytes) }
    instance.commit(1)
    instance.close()
    Map("crc" -> crcOf(value), "scala" -> read(path), "python" -> read(Paths.get(words.text("root"), "python")))
  }

  private def read(path: Path): Map[String, Long] = {
    val log = new StateLog(Logs.onDisk(path))
    try {
      val state = StateLoader.load(log, log.find(1, None), _ => false, log.location)
      Seq("a", "b", "c").map { name =>
        val key = name.getBytes("UTF-8")
        val reference = state.find(1, key, 0, key.length)
        name -> crcOf(state.rowsOf(reference).value(reference.toInt))
      }.toMap
    } finally log.close()
  }

  private def crcOf(bytes: Array[Byte]): Long = {
    val crc = new CRC32C
    crc.update(bytes, 0, bytes.length)
    crc.getValue
  }

  /**
   * Keys that are put again and again, and one that never is, by a target that would let the extent grow: what it came
   * to at most.
   */
  def heap(words: Arguments): Programs.Result = {
    val target = words.text("target") match {
      case "time" => ExtentTarget(2.0, None, Some(60000))
      case "records" => ExtentTarget(2.0, Some(1000000), None)
    }
    val (keys, value) = (words.number("keys", 1).toInt, new Array[Byte](words.number("bytes", 1).toInt))
    val instance = made(Files.createDirectories(Paths.get(words.text("root"))), StateLoader.empty(_ => false), target)
    val most = (1 to words.number("commits", 1).toInt).map { version =>
      instance.begin()
      (if (version == 1) 0 else 1).until(keys).foreach { key => new Random(version * keys + key).nextBytes(value); put(instance, s"key $key", value) }
      instance.commit(version)
      (instance.extentRecords, instance.state.memoryBytes)
    }
    instance.close()
    Map("extentRecords" -> most.map(_._1).max, "memoryBytes" -> most.map(_._2).max)
  }

  private def made(path: Path, state: LiveState, target: ExtentTarget): Instance = {
    val writer = new SegmentWriter(Logs.onDisk(path), 64L << 20, false, false, 0, new Random(1), clock)
    new Instance(state, Base.empty(0), writer, target, 10000, 1, clock, 0, 0)
  }

  private def put(instance: Instance, name: String, value: Array[Byte]): Unit = {
    val key = name.getBytes("UTF-8")
    instance.state.put(1, key, 0, key.length, value, 0, value.length)
  }
}
