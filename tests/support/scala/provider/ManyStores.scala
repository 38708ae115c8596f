package org.apache.spark.sql.cecstore.testing

import java.io.File
import java.lang.management.ManagementFactory
import java.nio.file.Files
import java.util.concurrent._

import scala.util.Try

import org.apache.spark.sql.execution.streaming.state._

/** As many stores as a large executor has: what each of them holds beside its memory. */
object ManyStores {
  private val family = Family.kinds("plain")("default", false)

  def run(words: Arguments): Programs.Result = {
    val stores = new Stores(words.text("root"), words.text("provider"), words.settings)
    val count = words.number("stores", 200).toInt
    val tasks = Executors.newFixedThreadPool(4)
    def each(partitions: Range)(body: Int => Unit): Unit =
      partitions.map(n => tasks.submit[Unit](() => Tasks.run(body(n)))).foreach(_.get())
    val providers = new Array[StateStoreProvider](count)
    def work(partitions: Range): Unit = {
      each(partitions)(n => providers(n) = stores.provider(family, partition = n))
      for (version <- 0 until 6) {
        each(partitions)(n => commit(providers(n), n, version))
        partitions.foreach(providers(_).doMaintenance())
      }
      // A restart of half of them, which load what is there.
      each(partitions.by(2)) { n =>
        providers(n).close()
        providers(n) = stores.provider(family, partition = n)
      }
      each(partitions)(n => commit(providers(n), n, 6))
      each(partitions)(n => refused(providers(n)))
    }
    work(0 until 8)
    val threads = liveThreads
    work(8 until count)
    val root = words.text("root")
    val found = Map(
      "files" -> openFiles(root), "threads" -> (liveThreads - threads), "stores" -> count)
    providers.foreach(_.close())
    found + ("filesAfter" -> openFiles(root))
  }

  /** A reader of changes that cannot begin, either. */
  private def refused(provider: StateStoreProvider): Unit = {
    val replay = provider.asInstanceOf[SupportsFineGrainedReplay]
    val said = Try(replay.getStateStoreChangeDataReader(1, 99, None, None))
    Check.that(s"a change reader for a version that is not there: $said", said.isFailure)
  }

  private def commit(provider: StateStoreProvider, partition: Int, version: Int): Unit = {
    val store = Stores.open(provider, Version(version, None))
    Check.equal(s"keys of store $partition", StoreReader.content(store, family).size, version)
    store.put(family.key(version), Values.row(partition % Values.size), family.name)
    store.commit()
  }

  /** Of the files below `root`. Others are the JVM's own: it opens a jar when it first needs it. */
  private def openFiles(root: String): Int = {
    val below = new File(root).getCanonicalPath
    new File("/proc/self/fd").listFiles()
      .count(link => Try(Files.readSymbolicLink(link.toPath).startsWith(below)).getOrElse(false))
  }

  private def liveThreads: Int = ManagementFactory.getThreadMXBean.getThreadCount
}
