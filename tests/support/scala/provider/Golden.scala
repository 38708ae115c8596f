package org.apache.spark.sql.cecstore.testing

import java.nio.file.{Files, Paths}
import java.util.Random

import org.apache.spark.sql.cecstore.format.Body
import org.apache.spark.sql.cecstore.log.{Base, Commit, SegmentWriter}
import org.apache.spark.sql.cecstore.state.{ExtentTarget, LiveState, StateLoader}
import org.apache.spark.sql.cecstore.store.Settings

/** Writes the golden state log of the provider: the same bytes every time. */
private[cecstore] object Golden {
  private val settings = Settings.parse(Map(
    "compressionLevel" -> "0", "segmentBytes" -> "64k", "syncMode" -> "none")
    .map { case (name, value) => Settings.Prefix + name -> value })
  private type Change = (Int, String, Option[Seq[Int]])

  /** What each version changes, in the order of the calls. */
  private val versions: Seq[Seq[Change]] = Seq(
    Seq((0, "timers", Some(Seq(2, 0))), (1, "a", Some(Seq(1))), (1, "b", Some(Nil)), (2, "ü", Some(Seq(3, 0)))),
    Seq((1, "c", Some(Seq(4))), (1, "a", None), (1, "gone", Some(Seq(5))), (1, "gone", None)),
    Seq((1, "b", Some(Seq(6, 7))), (1, "d", Some(Seq(8))), (2, "ü", None), (1, "e", Some(Seq(9)))),
    Seq((0, "timers", None), (1, "c", None)),
    Nil,
    Seq((1, "d", Some(Seq(255, 254)))))
  /** Versions that write all older footprints again. */
  private val renewing = Set(2, 4)
  private val inTwoFrames = 3
  private val rolledBefore = 5

  def run(words: Arguments): Programs.Result = {
    val path = Files.createDirectories(Paths.get(words.text("into")))
    val random = new Random(13)
    var now = 1357016400000000L // 2013-01-01 05:00 UTC
    val clock = () => { now += 1000000; now }
    def writer(seen: Long) = new SegmentWriter(
      Logs.onDisk(path), settings.segmentBytes, settings.isSynced, isLastToCount = false, seen, random, clock)
    val state = StateLoader.empty(_ => false)
    var writing = writer(0)
    var base = Base.empty(0)
    val ids = versions.zip(1 to versions.size).map { case (changes, number) =>
      if (number == rolledBefore) { writing.close(); writing = writer(1) }
      base = commit(state, writing, base, number, changes, clock())
      base.uniqueId
    }
    writing.close()
    Map("unique_ids" -> ids)
  }

  private def commit(
      state: LiveState, writing: SegmentWriter, base: Base, number: Int, changes: Seq[Change], now: Long): Base = {
    state.begin()
    changes.foreach { case (family, name, value) =>
      val key = name.getBytes("UTF-8")
      value match {
        case Some(bytes) => state.put(family, key, 0, key.length, bytes.map(_.toByte).toArray, 0, bytes.size)
        case None => state.remove(family, key, 0, key.length)
      }
    }
    val changed = state.compact().head.count
    if (renewing(number)) {
      Check.that(s"version $number renews none", state.renew(ExtentTarget(2.0, Some(1), None), System.nanoTime() + 60000000000L) > 0)
    }
    val rows = state.compact().head
    val middle = if (number == inTwoFrames) Seq(0, 2, rows.count) else Seq(0, rows.count)
    val bodies = middle.zip(middle.tail).map { case (from, until) =>
      Body.encode(rows, from, until, changed, number, now, settings.compressionLevel) -> (until - from)
    }
    val made = writing.append(base, Commit(number, bodies.iterator, state.extentRecords, state.openWindows, now))
    made.run()
    state.markCommitted(Seq(bodies.size), made.writtenBytes)
    made.end
  }
}
