package org.apache.spark.sql.cecstore.testing

import java.nio.file.{Files, Path, Paths}
import java.util.Random

import org.apache.spark.sql.cecstore.log.{Base, Maintenance, SegmentFolder, SegmentInput, SegmentWriter, StateLog}
import org.apache.spark.sql.cecstore.state.{ExtentTarget, Instance, LiveState, StateLoader}

/** How much of a log is read: by a load, and by maintenance that has seen it before. */
private[cecstore] object Reads {
  private val clock = () => System.currentTimeMillis() * 1000

  def run(words: Arguments): Programs.Result = {
    val commits = words.number("commits", 5000).toInt
    val small = fill(Paths.get(words.text("root"), "small"), commits, 64L << 20)
    val (load, seen) = counted(small) { folder => loaded(folder, commits); folder }
    val many = Paths.get(words.text("root"), "many")
    fill(many, commits, 64L << 10)
    val folder = new CountingFolder(Logs.onDisk(many))
    val segments = folder.list().length
    val maintenance = new Maintenance(folder, 64L << 10, commits, 10, -1)
    // Versions beyond the newest are asked about, so that some are too old each time.
    val rounds = (1 to 3).map { round =>
      maintenance.loaded(commits + round * (commits / 10 + 1))
      val before = folder.opens
      maintenance.forget()
      folder.opens - before
    }
    Map("segments" -> segments, "left" -> folder.list().length, "load" -> (load + ("extentBytes" -> seen)),
      "maintenanceOpens" -> rounds, "openAtOnce" -> folder.openAtOnce)
  }

  /** Milliseconds of a load after so many commits of ten rows, and after one of as many; by turns, the best of each. */
  def load(words: Arguments): Programs.Result = {
    val commits = words.number("commits", 50000).toInt
    val keys = words.number("keys", commits * 10L).toInt
    val logs = Seq("small" -> (commits, 10), "one" -> (1, commits * 10)).map { case (name, (count, rows)) =>
      (name, Logs.onDisk(fill(Paths.get(words.text("root"), name), count, 1L << 30, rows, keys)), count)
    }
    val times = for (_ <- 0 until words.number("rounds", 9).toInt; (name, folder, count) <- logs) yield {
      val started = System.nanoTime()
      val found = loaded(folder, count).openWindows
      val ms = (System.nanoTime() - started) / 1e6
      Check.equal(s"open windows of $name", found, keys)
      name -> ms
    }
    times.groupMap(_._1)(_._2).map { case (name, all) => s"${name}Ms" -> all.min }
  }

  private def loaded(folder: SegmentFolder, version: Long): LiveState = {
    val log = new StateLog(folder)
    try StateLoader.load(log, log.find(version, None), _ => false, log.location) finally log.close()
  }

  private def counted(folder: Path)(work: CountingFolder => CountingFolder): (Map[String, Long], Long) = {
    val counting = work(new CountingFolder(Logs.onDisk(folder)))
    val log = new StateLog(Logs.onDisk(folder))
    val id = log.ids.last
    val extent = try log.extent(log.reader(id).backward.next()).map(_._1.header.frameBytes).sum finally log.close()
    (Map("opens" -> counting.opens, "bytes" -> counting.bytes, "size" -> counting.open(id).size), extent)
  }

  /** Commits as the provider makes them, over so many keys in turn. */
  private def fill(path: Path, commits: Int, segmentBytes: Long, rows: Int = 10, keys: Int = 40): Path = {
    Files.createDirectories(path)
    val writer = new SegmentWriter(Logs.onDisk(path), segmentBytes, false, false, 0, new Random(1), clock)
    val instance = new Instance(StateLoader.empty(_ => false), Base.empty(0), writer, ExtentTarget(2.0, None, None),
      100, 1, clock, 0, 0)
    val (key, value) = (new Array[Byte](16), new Array[Byte](16))
    var next = 0
    for (version <- 1 to commits) {
      instance.begin()
      for (_ <- 0 until rows) {
        for (i <- 0 until 4) key(i) = (next >> 8 * i).toByte
        value(version % 16) = (value(version % 16) + 1).toByte
        instance.state.put(1, key, 0, key.length, value, 0, value.length)
        next = (next + 1) % keys
      }
      instance.commit(version)
    }
    instance.close()
    path
  }
}

/** Counts what is opened and read. */
private[cecstore] final class CountingFolder(inner: SegmentFolder) extends ThroughFolder(inner) {
  var (opens, bytes, openAtOnce) = (0L, 0L, 0)
  private var isOpen = 0

  override def open(id: Long): SegmentInput = {
    val input = inner.open(id)
    opens += 1
    isOpen += 1
    openAtOnce = openAtOnce.max(isOpen)
    new ThroughInput(input) {
      override def read(from: Long, length: Int): Array[Byte] = {
        val found = input.read(from, length)
        bytes += found.length
        found
      }
      override def close(): Unit = { isOpen -= 1; input.close() }
    }
  }
}
