package org.apache.spark.sql.cecstore.testing

import java.io.{IOException, RandomAccessFile}
import java.nio.file.{Files, FileSystemException, Path}

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.SparkErrors
import org.apache.spark.sql.cecstore.log.StateLog
import org.apache.spark.sql.cecstore.queue.NotMade
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreProvider}
import org.apache.spark.unsafe.Platform

/** What is loaded, and what is said where it cannot be. */
object LoadingRules {
  import Setting.{causes, refused}

  val rules: Seq[(String, Setting => Unit)] = Seq(
    "a version that is not there has Spark's condition and our cause" -> missing,
    "a version below zero has Spark's condition" -> belowZero,
    "a damaged version has Spark's condition and our cause" -> damaged,
    "the last to commit a version counts" -> lastCounts,
    "a segment that is cut short while it is read is damage that names it" -> cutWhileRead,
    "errors of the storage say which path they are about" -> paths,
    "a row that is too large is refused with its key, operator and what to do" -> tooLarge)

  private def condition(error: Throwable): String = error match {
    case named: SparkThrowable => named.getCondition
    case other => throw other
  }

  private def ours(error: Throwable): String = causes(error).find(_.getClass.getSimpleName == "CecLogException")
    .getOrElse(throw new Wrong(s"no cause of ours: $error")).getMessage

  private def missing(setting: Setting): Unit = {
    import setting._
    val provider = setting.provider()
    val base = version(provider, Stores.Start, 1 -> 1)
    val id = base.id.map(_.replaceFirst("-[0-9a-f]+$", "-ff"))
    for (open <- Seq[() => Any](() => provider.getReadStore(7, id), () => Stores.open(provider, Version(7, id)))) {
      val error = refused(Tasks.run(open()))
      Check.equal("condition", condition(error), "CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE")
      val said = ours(error)
      Check.that(said, said.contains("version 7 was wanted") && said.contains("the newest sound version is 1"))
      val (kind, about) = told(causes(error).collectFirst { case e: CecLogException => e }.get)
      Check.equal("our condition", kind, "CEC_VERSION_MISSING")
      Check.equal("our parameters", about.keySet -> about("version"), Set("path", "version", "reason") -> "7")
    }
    segments(folder).foreach(Files.delete)
    val error = refused(loaded(base))
    Check.equal("condition without any file", condition(error), "CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE")
    ours(error)
  }

  /** The condition and the parameters that a program is told on the driver. */
  private def told(error: IOException): (String, Map[String, String]) =
    try SparkErrors.told(throw error) catch {
      case e: SparkThrowable => e.getCondition -> e.getMessageParameters.asScala.toMap
    }

  private def paths(setting: Setting): Unit = {
    val full = new FileSystemException("/q/log/1.commit", null, "No space left on device")
    val unknown = new org.apache.hadoop.fs.PathIOException("/q/log", "gone")
    for ((error, condition, path) <- Seq[(IOException, String, Option[String])](
      (full, "CEC_STORAGE", Some("/q/log/1.commit")), (unknown, "CEC_STORAGE", Some("/q/log")),
      (new IOException("reset"), "CEC_STORAGE", None), (new NotMade("/q/x", full), "CEC_NOT_MADE", Some("/q/x")))) {
      val (kind, about) = told(error)
      Check.equal(s"the condition of $error", kind, condition)
      Check.equal(s"the path of $error", about.get("path"), path)
      Check.that(s"the reason of $error", about("reason").nonEmpty)
    }
  }

  private def belowZero(setting: Setting): Unit = {
    val provider = setting.provider()
    for (open <- Seq[() => Any](() => provider.getReadStore(-1, None), () => Stores.open(provider, Version(-1, None)))) {
      Check.equal("condition", condition(refused(Tasks.run(open()))), "CANNOT_LOAD_STATE_STORE.UNEXPECTED_VERSION")
    }
  }

  private def damaged(setting: Setting): Unit = {
    import setting._
    val base = version(setting.provider(), Stores.Start, 1 -> 1)
    val file = new RandomAccessFile(segments(folder).head.toFile, "rw")
    file.seek(file.length - 3)
    val was = file.read()
    file.seek(file.length - 3)
    file.write(~was)
    file.close()
    val error = refused(loaded(base))
    Check.equal("condition", condition(error), "CANNOT_LOAD_STATE_STORE.UNCATEGORIZED")
    Check.that(ours(error), ours(error).contains("byte "))
  }

  def segments(folder: Path): Vector[Path] = {
    val found = Files.walk(folder)
    try found.iterator.asScala.filter(_.toString.endsWith(".seg")).toVector finally found.close()
  }

  /** Attempts that have all begun, with segments kept from before or without, commit in any order. */
  private def lastCounts(setting: Setting): Unit = {
    import setting._
    val random = new Random(7)
    val providers = Vector.fill(3)(setting.provider("spark.sql.streaming.stateStore.cec.syncMode" -> "none"))
    var head = version(providers(0), Stores.Start, 1 -> 0)
    for (round <- 0 until 40) {
      val begun = (0 until 3).toVector.map { n =>
        val provider = if (random.nextInt(5) == 0) providers(0) else providers(n)
        Setting.inThread(Stores.open(provider, head))
      }
      val order = random.shuffle(begun.indices.toVector)
      val made = order.map { n =>
        put(begun(n), 1, 10 + n)
        commit(begun(n)) -> (10 + n)
      }
      val (last, value) = if (v2) made(random.nextInt(made.size)) else made.last
      Check.equal(s"round $round, committed in the order $order", loaded(last), Map(1 -> value))
      providers.foreach(warm => Check.equal(s"round $round, elsewhere",
        Setting.inThread { val store = warm.getReadStore(last.number, last.id); try content(store) finally store.abort() }, Map(1 -> value)))
      head = last
    }
  }

  /** A reader lets go of the bytes of a segment when it goes to another one, and reads them again when it is back. */
  private def cutWhileRead(setting: Setting): Unit = {
    import setting._
    val base = version(setting.provider(), Stores.Start, 1 -> 1)
    version(setting.provider(), base, 2 -> 2)
    val Vector(cut, other) = segments(folder).sorted
    for (left <- Seq(0L, 60L, 130L)) {
      val bytes = Files.readAllBytes(cut)
      val log = new StateLog(Logs.onDisk(cut.getParent))
      try {
        val Array(id, otherId) = log.ids
        log.reader(id)
        log.reader(otherId)
        Files.write(cut, bytes.take(left.toInt))
        val error = refused(log.reader(id).backward.toVector)
        Check.that(s"cut to $left: $error", error.isInstanceOf[CecLogException] &&
          Seq(cut.getFileName.toString, "cut short", s"${bytes.length} bytes").forall(error.getMessage.contains))
      } finally log.close()
      Files.write(cut, bytes)
    }
    Check.that(s"$other is gone", Files.exists(other))
  }

  /** Rows that only say that they are so large: they are refused before anybody looks into them. */
  private def tooLarge(setting: Setting): Unit = {
    import setting._
    val row = new UnsafeRow(2)
    row.pointTo(new Array[Long](8), Platform.LONG_ARRAY_OFFSET, Int.MaxValue - 7)
    val lists = Family.kinds("plain")("default", true)
    val providers = Seq[(StateStoreProvider, StateStore => Any)](
      setting.provider() -> (_.put(family.key(20), row, "default")),
      stores().provider(lists, families = true, partition = 1) -> (_.putList(lists.key(20), Array(row), "default")),
      stores().provider(lists, families = true, partition = 2) -> (_.merge(lists.key(20), row, "default")))
    for (((provider, put), partition) <- providers.zipWithIndex) Tasks.run {
      val store = Stores.open(provider, Stores.Start)
      store.put(family.key(2), Values.row(2), "default")
      val error = refused(put(store))
      for (word <- Seq("operator 0", s"partition $partition", s"${Int.MaxValue / 1000000}", "bytes", "[aa,", "split")) {
        Check.that(s"no '$word' in: ${error.getMessage}", error.getMessage.contains(word))
      }
      commit(store)
      Check.equal("keys that are put", store.metrics.numKeys, 1L)
    }
  }
}
