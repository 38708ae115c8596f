package org.apache.spark.sql.cecstore.testing

import java.nio.file.{Files, Path, Paths}

import scala.jdk.CollectionConverters._

import org.apache.commons.io.FileUtils
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.queue._

/** Objects of `log/` and whole logs, read and written again. */
private[cecstore] object LogObjects {
  /** Read each `<number>.commit` of folder `in`, say what is in it, and write it anew to folder `out`. */
  def run(words: Arguments): Programs.Result = {
    val (in, out) = (Paths.get(words.text("in")), Paths.get(words.text("out")))
    files(in).map { path =>
      val name = path.getFileName.toString
      val number = name.stripSuffix(".commit")
      val said = try {
        val found = LogObject.decode(Files.readAllBytes(path), path.toString, number.toLong)
        Files.write(out.resolve(name), found.encode().reduce(_ ++ _))
        shown(found)
      } catch { case e: CecLogException => Map("refused" -> e.getMessage) }
      name -> said
    }.toMap
  }

  private def files(folder: Path): Vector[Path] = {
    val all = Files.list(folder)
    try all.iterator.asScala.toVector.sorted finally all.close()
  }

  private def shown(found: LogObject): Map[String, Any] = Map(
    "number" -> found.number, "log_id" -> found.logId.map(byte => f"$byte%02x").mkString, "created_us" -> found.createdUs,
    "since" -> found.since.map(since => Map("base" -> since.base.map(shownBase).orNull, "segments" -> since.segments.map(shown))).orNull,
    "salt" -> java.lang.Long.toUnsignedString(found.salt),
    "after" -> found.previous.map(shownBase).orNull,
    "commit" -> shown(found.commit), "segments" -> found.segments.map(shown))

  private def shownBase(base: (Long, Long)): String = s"${base._1} ${java.lang.Long.toUnsignedString(base._2)}"

  private def shown(commit: Commit): Map[String, Any] = Map(
    "operation" -> commit.operation.toInt, "query" -> commit.query.orNull, "batch" -> commit.query.map(_ => commit.batch).orNull,
    "starts" -> commit.starts, "ends" -> commit.ends, "queries" -> commit.queries, "consumed" -> commit.consumed,
    "settings" -> commit.settings, "schema_bytes" -> commit.schema.fold(0)(_.length))

  private def shown(s: Segment): Map[String, Any] = Map("partition" -> s.partition, "first_offset" -> s.firstOffset,
    "records" -> s.records, "file" -> s.file, "byte" -> s.byte, "bytes" -> s.bytes, "salt" -> java.lang.Long.toUnsignedString(s.salt),
    "least_us" -> s.leastUs, "greatest_us" -> s.greatestUs, "frames" -> s.frames, "written_us" -> s.writtenUs, "removed" -> s.removed)

  /**
   * Open each queue of folder `in`, put what is in folder `now` under the same name in its place, if anything, and say
   * what comes of looking again, of one more commit, and of opening it. Of a queue that is named after it the process
   * has slept for hours meanwhile.
   */
  def replaced(words: Arguments): Programs.Result = {
    val now = Paths.get(words.text("now"))
    files(Paths.get(words.text("in"))).map { path =>
      val log = new ReferenceLog(new LocalStore(path))
      val state = log.open()
      FileUtils.deleteDirectory(path.toFile)
      val other = now.resolve(path.getFileName)
      if (Files.exists(other)) Files.move(other, path)
      def sleep(): Unit = if (path.getFileName.toString.startsWith("slept")) {
        val at = state.look.getClass.getDeclaredField("at")
        at.setAccessible(true)
        at.set(state.look, (System.nanoTime, System.currentTimeMillis - 8 * 3600000L))
      }
      sleep()
      def outcome(call: => QueueState): String =
        try s"commit ${call.number}" catch { case e: CecLogException => s"${e.getClass.getSimpleName}: ${e.getMessage}" }
      val added = outcome(log.add(state) { before =>
        Some(before.next(Operation.set, IndexedSeq.empty, 7, Map("x" -> "y"), before.commit.starts))
      })
      path.getFileName.toString ->
        Map("refresh" -> { sleep(); outcome(log.refresh(state)) }, "add" -> added, "open" -> outcome(log.open()))
    }.toMap
  }

  /** Create the object `name` of the store at `path`, and say what came of it. */
  def create(words: Arguments): Programs.Result = {
    val store = new LocalStore(Paths.get(words.text("path")))
    val outcome = try { store.create(words.text("name"), Iterator("x".getBytes)); "made" } catch {
      case e: java.io.IOException => s"${e.getClass.getSimpleName}: ${e.getMessage}"
      case e: CecLogException => s"${e.getClass.getSimpleName}: ${e.getMessage}"
    }
    Map("outcome" -> outcome)
  }

  /** Delete the old commits of the queue at `path`, and say before which number. */
  def deleteOld(words: Arguments): Programs.Result = {
    val store = new LocalStore(Paths.get(words.text("path")))
    val log = new ReferenceLog(store)
    Map("before" -> Sweeping.commits(log, log.open(), Int.MaxValue).getOrElse(0L), "number" -> log.open().number)
  }

  /**
   * Open the queue at `path`, add `commits` commits of one segment each (`partition`, `records`), and say what it is
   * after them. Other processes may do the same at the same time.
   */
  def add(words: Arguments): Programs.Result = {
    val store = new LocalStore(Paths.get(words.text("path")))
    val log = new ReferenceLog(store)
    var state = log.open()
    val (query, partition, records) = (words.text("query", "scala"), words.number("partition", 0).toInt, words.number("records", 3))
    (0 until words.number("commits", 0).toInt).foreach { batch =>
      state = log.add(state) { now =>
        val start = now.commit.ends(partition)
        val ends = now.commit.ends.updated(partition, start + records)
        val commit = now.commit.copy(operation = Operation.append, query = Some(query), batch = batch, ends = ends,
          queries = now.commit.queries + (query -> batch), schema = None)
        val segment = Segment(partition, start, records, s"data/$query/$batch/x.seg", 0, 10, batch, 0, 9, 1, 5, removed = false)
        Some(LogObject(now.number + 1, now.logId, commit, IndexedSeq(segment), 7))
      }
    }
    val opened = log.open()
    if (words.number("alone", 1) == 1) Check.that("what was added is what is opened", opened.live.map(_.segment) == state.live.map(_.segment))
    Map("number" -> opened.number, "live" -> opened.live.map(each => shown(each.segment)), "gone" -> opened.gone.map(_.segment.file),
      "ends" -> opened.commit.ends, "queries" -> opened.commit.queries)
  }
}
