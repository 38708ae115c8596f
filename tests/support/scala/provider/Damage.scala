package org.apache.spark.sql.cecstore.testing

import java.nio.file.{Files, Path, Paths}
import java.util.Arrays.fill

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.cecstore.CecLogException

/** One way to damage a log: its words, by which others can do the same, and the log after it. */
private[cecstore] final case class Wound(words: String, folder: () => MemoryFolder) {
  val kind: String = words.takeWhile(_ != ' ')
}

/** Every damage to small logs, and what each version that is wanted then gives. */
private[cecstore] object Damage {
  private val ZeroedBytes = 64

  def run(words: Arguments): Programs.Result = {
    val folders = Files.list(Paths.get(words.text("logs")))
    val all = try folders.iterator.asScala.toVector.sorted finally folders.close()
    val runs = all.map { path =>
      val (run, name) = (new DamageRun(path), path.getFileName.toString)
      val bits = words.number(name, 8).toInt
      val lines = wounds(Logs.inMemory(path), words.number("every", 1).toInt, bits).map(wound => s"${wound.words} ${run.outcomes(wound)}")
      Files.write(path.resolve("outcomes"), lines.to(Iterable).asJava)
      name -> run.counts
    }
    runs.toMap
  }

  /**
   * @param every flips and cuts at each such byte
   * @param bits how many bits of a byte are flipped, each alone; the byte's place says which
   */
  private def wounds(log: MemoryFolder, every: Int, bits: Int): Iterator[Wound] = {
    val ids = log.all.keys.toVector.sorted
    val each = ids.iterator.flatMap { id =>
      val bytes = log.all(id)
      def changed(words: String)(change: Array[Byte] => Unit) = Wound(words, () => {
        val copy = bytes.clone()
        change(copy)
        log.updated(id, copy)
      })
      val flips = for (at <- bytes.indices.by(every).iterator; n <- 0 until bits; bit = 8 * at + (at + n) % 8)
        yield changed(s"flip $id $bit")(copy => copy(at) = (copy(at) ^ 1 << bit % 8).toByte)
      val zeros = for (at <- bytes.indices.by(ZeroedBytes).iterator)
        yield changed(s"zero $id $at")(copy => fill(copy, at, math.min(at + ZeroedBytes, copy.length), 0.toByte))
      val cuts = for (at <- bytes.indices.by(every).iterator)
        yield Wound(s"cut $id $at", () => log.updated(id, bytes.take(at)))
      val filled = for (at <- bytes.indices.by(7).iterator)
        yield changed(s"fill $id $at")(copy => fill(copy, at, copy.length, 0.toByte))
      flips ++ zeros ++ cuts ++ filled ++ Iterator(Wound(s"missing $id", () => log.without(id)))
    }
    val swaps = for (one <- ids.iterator; other <- ids if one < other) yield Wound(s"swap $one $other",
      () => log.updated(one, log.all(other)).updated(other, log.all(one)))
    val strays = for (stray <- Iterator(1L, ids.head + 2, ids.last + 2); what <- Seq("text", "first", "none"))
      yield Wound(s"stray $stray $what", () => log.updated(stray, what match {
        case "text" => Array.fill(300)('t'.toByte)
        case "first" => log.all(ids.head)
        case "none" => Array.emptyByteArray
      }))
    val lost = Iterator(Wound("lost", () => ids.foldLeft(log)(_ without _)))
    each ++ swaps ++ strays ++ lost
  }
}

/** A log with what each version of its `wanted` holds before the damage. */
private[cecstore] final class DamageRun(path: Path) {
  private val wanted = Logs.wanted(path.resolve("wanted")).toVector
  private val whole = Logs.inMemory(path)
  private val before = wanted.map(version => version -> Logs.read(whole, version)).toMap
  private val attempts = before.toVector.groupMap(_._1.number)(_._2)
  private val NewestSound = ".*the newest sound version is (\\d+).*".r
  private var tally = Map.empty[(String, Char), Int].withDefaultValue(0)

  def counts: Map[String, Int] = tally.map { case ((kind, outcome), n) => s"$kind $outcome" -> n }

  /** For each version wanted: `=` exactly what it was, `o` another attempt at it, `r` refused by name. */
  def outcomes(wound: Wound): String = {
    val folder = wound.folder()
    val found = wanted.map(version => version -> outcome(wound, folder, version))
    val numbers = found.collect { case (Version(number, None), (said, _)) if said != 'r' => number }
    for ((version, ('r', message)) <- found) {
      val named = message match { case NewestSound(number) => Some(number.toLong); case _ => None }
      Check.equal(s"${wound.words}: newest sound version, told to who wanted $version", named, numbers.maxOption)
    }
    found.foreach { case (_, (said, _)) => tally = tally.updated((wound.kind, said), tally((wound.kind, said)) + 1) }
    found.map(_._2._1).mkString
  }

  private def outcome(wound: Wound, folder: MemoryFolder, version: Version): (Char, String) = try {
    val got = Logs.read(folder, version)
    if (got == before(version)) ('=', "")
    else if (version.id.isEmpty && attempts(version.number).contains(got)) ('o', "")
    else throw new Wrong(s"${wound.words}: $version gives $got where ${before(version)} is right")
  } catch {
    case refused: CecLogException =>
      val message = refused.getMessage
      Check.that(s"${wound.words}: no file is named: $message", message.startsWith(folder.location))
      Check.that(s"${wound.words}: not the version wanted: $message",
        message.contains(s"version ${version.number} was wanted"))
      ('r', message)
    case other: Exception if !other.isInstanceOf[Wrong] =>
      throw new Wrong(s"${wound.words}: $version: ${other.getStackTrace.take(5).mkString(" ")} $other")
  }
}
