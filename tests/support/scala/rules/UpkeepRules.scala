package org.apache.spark.sql.cecstore.testing

import java.io.IOException
import java.nio.file.Files
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataInputStream, FileStatus, Path}
import org.apache.logging.log4j.{Level, LogManager}
import org.apache.logging.log4j.core.{LogEvent, Logger}
import org.apache.logging.log4j.core.appender.AbstractAppender
import org.apache.logging.log4j.core.config.{Configurator, Property}
import org.apache.spark.sql.cecstore.CecStateStoreProvider
import org.apache.spark.sql.cecstore.log.{FrameAt, StateLog}
import org.apache.spark.sql.cecstore.queue.{LocalStore, Store}
import org.apache.spark.sql.cecstore.state.{ExtentTarget, LoadRate}
import org.apache.spark.sql.cecstore.store.SparksSettings
import org.apache.spark.sql.execution.streaming.state._

/** Maintenance, Spark's settings, and the figures that a store gives of itself. */
object UpkeepRules {
  val rules: Seq[(String, Setting => Unit)] = Seq(
    "an error in maintenance is counted and tried again" -> failing,
    "a fatal error in maintenance passes" -> fatal,
    "maintenance deletes no more versions at a time than Spark says" -> fewAtATime,
    "maintenance deletes nothing while a segment that is needed does not begin as one" -> damagedBeginning,
    "changes behind a damaged frame are not passed over" -> hiddenChanges,
    "settings of Spark's that change nothing are told once" -> ignored,
    "an interrupt in a commit to a queue is an interrupt" -> interrupted,
    "a load is told, and one of more than a second is a warning" -> loads,
    "a target counts as unmet by what loads have taken" -> unmet,
    "gets, puts and removals of a task are counted" -> counts,
    "an extent is told for each partition" -> instances)

  private val keep = Map("spark.sql.streaming.minBatchesToRetain" -> "2",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot" -> "3")

  private def customs(metrics: StateStoreMetrics): Map[String, Long] =
    metrics.customMetrics.map { case (metric, value) => metric.name -> value }

  private def failing(setting: Setting): Unit = {
    import setting._
    val provider = stores(keep, "flaky").provider(family)
    var head: Version = Stores.Start
    def grow(): StateStoreMetrics = Tasks.run {
      val store = Stores.open(provider, head)
      put(store, 1, head.number.toInt % 60)
      head = commit(store)
      store.metrics
    }
    for (_ <- 0 until 30) grow()
    for (error <- Seq(new IOException("503 Slow Down"), new RuntimeException("a client's own"))) {
      FlakyFiles.error = Some(error)
      provider.doMaintenance()
      provider.doSnapshotMaintenance()
    }
    FlakyFiles.error = None
    Check.equal("failures told", customs(grow())("cecMaintenanceFailures"), 6L)
    val before = LoadingRules.segments(folder).size
    provider.doMaintenance()
    Check.that("nothing was deleted by the next run", LoadingRules.segments(folder).size < before)
    Check.equal("the state is still in memory", customs(grow())("cecLoadedRecords"), 0L)
    Check.equal("failures told later", customs(grow())("cecMaintenanceFailures"), 6L)
  }

  private def fatal(setting: Setting): Unit = {
    import setting._
    val provider = stores(keep, "flaky").provider(family)
    version(provider, Stores.Start, 1 -> 1)
    for (n <- 1 to 9) version(provider, Version(0, None), 1 -> n)
    for (error <- Seq(new OutOfMemoryError("heap"), new InterruptedException)) {
      FlakyFiles.error = Some(error)
      val passed = try { provider.doSnapshotMaintenance(); None } catch { case e: Throwable => Some(e) }
      FlakyFiles.error = None
      Check.equal("what passes", passed, Some(error))
    }
  }

  private def fewAtATime(setting: Setting): Unit = {
    import setting._
    val few = stores(keep + ("spark.sql.streaming.stateStore.maxVersionsToDeletePerMaintenance" -> "3"), "objects")
    val provider = few.provider(family)
    var head: Version = Stores.Start
    for (n <- 0 until 30) head = version(provider, head, 1 -> n)
    val before = LoadingRules.segments(folder).size
    Check.equal("segments of one version each", before, 30)
    provider.doCleanupMaintenance()
    Check.equal("left after one run", LoadingRules.segments(folder).size, before - 3)
    for (_ <- 0 until 12) provider.doCleanupMaintenance()
    Check.that("the rest stays for ever", LoadingRules.segments(folder).size <= 5)
  }

  /** Of one segment that goes on, and of three of which each builds on the one before. */
  private def damagedBeginning(setting: Setting): Unit = for (writers <- Seq(1, 3)) {
    import setting._
    def provider(): StateStoreProvider = stores(keep).provider(family, partition = writers)
    var (head, last) = (Stores.Start, provider())
    for (writer <- 0 until writers) {
      if (writer > 0) { last.close(); last = provider() }
      // The last of three has one version, so that the one before is kept whole.
      for (n <- 0 until (if (writer == 2) 1 else 5)) head = version(last, head, 1 -> n)
    }
    val files = LoadingRules.segments(folder.resolve(s"0/$writers")).sorted
    Check.equal("segments", files.size, writers)
    for (at <- Seq(30, 300)) {
      val damaged = files((writers - 1) / 2)
      val whole = Files.readAllBytes(damaged)
      Files.write(damaged, whole.updated(at, (whole(at) ^ 4).toByte))
      last.doCleanupMaintenance()
      Check.equal(s"segments after a run while byte $at is damaged", LoadingRules.segments(folder.resolve(s"0/$writers")).sorted, files)
      Files.write(damaged, whole)
    }
    last.doCleanupMaintenance()
    Check.that("what is needed is gone", LoadingRules.segments(folder.resolve(s"0/$writers")).contains(files.last))
  }

  private def hiddenChanges(setting: Setting): Unit = {
    import setting._
    val provider = stores().provider(family)
    var head: Version = Stores.Start
    for (n <- 0 until 10) head = version(provider, head, n -> n)
    val Vector(file) = LoadingRules.segments(folder)
    def changes(first: Long): Seq[FrameAt] = Using.resource(new StateLog(Logs.onDisk(file.getParent)))(log => log.changes(first, log.find(10, head.id)))
    val frames = changes(0)
    Check.equal("versions", frames.map(_.header.inputUpto), (1L to 10).toVector)
    val whole = Files.readAllBytes(file)
    for (version <- 2 to 9; byte = frames(version - 1).byte.toInt + 20) {
      Files.write(file, whole.updated(byte, (whole(byte) ^ 4).toByte))
      for (first <- 0 until version) {
        val error = Setting.refused(changes(first))
        Check.that(s"changes from $first on, with version $version damaged: $error", error.getMessage.contains("damaged"))
      }
    }
  }

  /** It comes while the commit is written, so that its name is put on disk by a thread that is interrupted. */
  private def interrupted(setting: Setting): Unit = {
    val store = new LocalStore(java.nio.file.Files.createTempDirectory("queue"))
    val bytes = Iterator(Array[Byte](1)).map { part => Thread.currentThread.interrupt(); part }
    val raised = try { store.create("log/1.commit", bytes); None } catch { case e: Exception => Some(e) }
    Check.that("the interrupt stays", Thread.interrupted())
    Check.that(raised.toString, raised.exists(_.isInstanceOf[java.nio.channels.ClosedByInterruptException]))
    Check.equal("there", store.size("log/1.commit"), 1L)
    val configuration = new Configuration(false)
    configuration.set("fs.broken.impl", classOf[BrokenOffFiles].getName)
    val folder = java.nio.file.Files.createTempDirectory("remote")
    val remote = Store.at(new Path(s"broken://$folder"), configuration, singleWriter = true)
    val told = try { remote.create("log/1.commit", Iterator(Array[Byte](1))); None } catch { case e: Exception => Some(e) }
    Check.that(told.toString, told.exists(_.isInstanceOf[java.io.InterruptedIOException]))
  }

  private def ignored(setting: Setting): Unit = {
    import setting._
    val prefix = "spark.sql.streaming.stateStore."
    val told = Map(s"${prefix}compression.codec" -> "zstd", s"${prefix}rowChecksum.enabled" -> "true",
      s"${prefix}rocksdb.blockSizeKB" -> "64",
      "spark.sql.streaming.maxBatchesToRetainInMemory" -> "5")
    val defaults = Map(s"${prefix}coordinatorReportSnapshotUploadLag" -> "false",
      s"${prefix}autoSnapshotRepair.enabled" -> "true", s"${prefix}rocksdb.formatVersion" -> "5")
    val conf = stores(told ++ defaults ++ keep).conf
    val unasked = Set(s"${prefix}rocksdb.changelogCheckpointing.enabled") // Stores sets it
    Check.equal("told", SparksSettings.ignored(conf).keySet -- unasked, told.keySet)
    val said = Said.during {
      stores(told ++ defaults).provider(family)
      stores(told ++ defaults).provider(family)
    }
    // The process says each once, and another run of this rule may have been the one.
    for (key <- told.keys) Check.that(s"$key: $said", said.count(_._2.contains(key)) == (if (v2) 0 else 1))
  }

  private def loads(setting: Setting): Unit = {
    import setting._
    val base = version(stores(scheme = "flaky").provider(family), Stores.Start, 1 -> 1, 2 -> 2)
    val few = version(stores(scheme = "flaky").provider(family, partition = 1), Stores.Start, 1 -> 1)
    def load(from: Version = base, partition: Int = 0): Seq[(Level, String)] = Said.during {
      Tasks.run(stores(scheme = "flaky").provider(family, partition = partition).getReadStore(from.number, from.id))
    }.filter(_._2.contains("loaded version 1"))
    val quick = load()
    Check.that(quick.toString, quick.size == 1 && quick.head._1 == Level.INFO && quick.head._2.contains("2 windows from 2 records"))
    FlakyFiles.openMs = 1100
    val none = try load(few, partition = 1) finally FlakyFiles.openMs = 0
    Check.that(s"no advice of a few records: $none", none.size == 1 && none.head._1 == Level.INFO)
    val (target, longer) = (ExtentTarget(2.0, None, None), ExtentTarget(2.0, None, Some(2000)))
    Check.that("more than a second is slow", target.isSlow(8193, 1001) && !target.isSlow(8193, 1000))
    Check.that("few records are not", !target.isSlow(8192, 60000))
    Check.that("as long as was asked for is not", !longer.isSlow(8193, 2000) && longer.isSlow(8193, 2001))
  }

  /** Two seconds are asked for; windows that have been loaded in one do not call for a warning. */
  private def unmet(setting: Setting): Unit = {
    val target = ExtentTarget(2.0, None, Some(2000))
    val records = 1400000L
    val stores = LoadRate.stores.getAndSet(1) // other rules leave theirs open
    if (!setting.v2) Check.that("by the first guess", target.unmet(records).exists(_.contains("no load has been timed")))
    for (_ <- 0 until 40) LoadRate.measured(records, 1000)
    Check.equal("once it was loaded in a second", target.unmet(records), None)
    Check.that("three times as many", target.unmet(3 * records).exists(_.contains("were measured")))
    LoadRate.stores.set(stores)
    Check.equal("a number of records", ExtentTarget(2.0, Some(10), None).unmet(10), None)
    Check.that("one record more", ExtentTarget(2.0, Some(10), None).unmet(11).nonEmpty)
  }

  private def counts(setting: Setting): Unit = {
    import setting._
    val provider = setting.provider()
    val base = version(provider, Stores.Start, 1 -> 1)
    for (_ <- 0 until 2) Tasks.run {
      val reader = provider.getReadStore(base.number, base.id)
      for (key <- 0 until 5) reader.get(family.key(key), "default")
      val store = Stores.open(provider, base)
      store.keyExists(family.key(1), "default")
      for (key <- 0 until 7) put(store, key, 1)
      for (key <- 0 until 3) remove(store, key)
      commit(store)
      val told = customs(store.metrics)
      Check.equal("counts", Seq("cecGetCount", "cecPutCount", "cecRemoveCount").map(told), Seq(6L, 7L, 3L))
    }
  }

  private def instances(setting: Setting): Unit = {
    import setting._
    val provider = stores().provider(family, partition = 3)
    val told = Tasks.run {
      val store = Stores.open(provider, Stores.Start)
      put(store, 1, 1)
      put(store, 2, 2)
      commit(store)
      store.metrics.instanceMetrics.map { case (metric, value) => metric.name -> value }
    }
    Check.equal("instance metrics", told, Map("CecExtentRecords.partition_3_default" -> 2L))
    Check.equal("supported", provider.supportedInstanceMetrics.map(_.withNewId(3, "default").name), told.keys.toSeq)
  }
}

/** An object store that fails every call with what it is told to. */
final class FlakyFiles extends ObjectStore("flaky") {
  private def failed(): Unit = FlakyFiles.error.foreach(error => throw error)
  override def listStatus(path: Path): Array[FileStatus] = { failed(); super.listStatus(path) }
  override def open(path: Path, buffer: Int): FSDataInputStream = { Thread.sleep(FlakyFiles.openMs); super.open(path, buffer) }
  override def delete(path: Path, recursive: Boolean): Boolean = { failed(); super.delete(path, recursive) }
}

object FlakyFiles {
  @volatile var error = Option.empty[Throwable]
  @volatile var openMs = 0L
}

/** What the provider writes into the log. */
object Said {
  def during(work: => Any): Seq[(Level, String)] = {
    val found = new ConcurrentLinkedQueue[(Level, String)]
    val appender = new AbstractAppender("said", null, null, true, Property.EMPTY_ARRAY) {
      override def append(event: LogEvent): Unit = found.add(event.getLevel -> event.getMessage.getFormattedMessage)
    }
    appender.start()
    val name = classOf[CecStateStoreProvider].getPackageName
    Configurator.setLevel(name, Level.INFO)
    val logger = LogManager.getLogger(name).asInstanceOf[Logger]
    logger.addAppender(appender)
    try work finally { logger.removeAppender(appender); Configurator.setLevel(name, Level.ERROR) }
    found.asScala.toSeq
  }
}

/** A remote file system whose uploads are broken off by an interrupt at their end. */
final class BrokenOffFiles extends NarrowFiles("broken") {
  override protected def output(path: Path): java.io.OutputStream = new java.io.ByteArrayOutputStream {
    override def close(): Unit = throw new IOException("broken off", new InterruptedException)
  }
}
