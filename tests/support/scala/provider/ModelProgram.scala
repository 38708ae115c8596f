package org.apache.spark.sql.cecstore.testing

import java.io.File
import java.nio.file.Paths

import scala.util.Random

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.cecstore.format.Blocks
import org.apache.spark.sql.cecstore.keys.{HashIndex, KeyRun}
import org.apache.spark.sql.cecstore.local.LocalSpace
import org.apache.spark.sql.cecstore.log.LoggedBytes
import org.apache.spark.sql.cecstore.state.{Instance, KeyDirectories, LiveState, SortedKeys}
import org.apache.spark.sql.execution.streaming.state._

/** Random calls against a provider and a model, one seed after the other. */
private[cecstore] object ModelProgram {
  private val Flags = Seq("families", "v2", "maintenance")

  /** `every=true`: with each of the flags and without, all in this JVM; else with the flags given. */
  def run(words: Arguments): Programs.Result = {
    if (words.flag("parts")) {
      // As if a version were larger than an array can be.
      LiveState.partBytes = 300
      Instance.bodyBytes = 200
    }
    if (words.flag("directories")) { Blocks.blockBytes = ModelRun.SmallBlocks; SortedKeys.unsortedBytesMax = 500; SortedKeys.blockRowsMax = 5 }
    if (!words.flag("every")) runAs(words)
    else (0 until 1 << Flags.size).map { bits =>
      val chosen = Flags.zipWithIndex.map { case (flag, bit) => flag -> s"${(bits >> bit & 1) == 1}" }
      val name = chosen.collect { case (flag, "true") => flag }.mkString(" ")
      name -> runAs(words ++ (chosen :+ ("root" -> s"${words.text("root")}/$bits")))
    }.toMap
  }

  private def runAs(words: Arguments): Programs.Result = {
    val before = LocalSpace.ofProcess.writtenBytes
    val (written, used, refused) = (KeyDirectories.written.get, KeyDirectories.used.get, KeyDirectories.refused.get)
    val runs = Seeded.run(words, until = 1) { seed =>
      // Runs of a few keys, and of each second seed keys that look alike.
      KeyRun.keysMin = 1 + (seed % 7).toInt
      KeyDirectories.keysMin = KeyRun.keysMin
      HashIndex.hashBits = if (seed % 2 == 0) ModelRun.FourBits else -1
      new ModelRun(words, seed)
    }
    Map(
      "local" -> (LocalSpace.ofProcess.writtenBytes - before),
      "directories" -> (KeyDirectories.written.get - written),
      "byDirectory" -> (KeyDirectories.used.get - used),
      "blocks" -> LoggedBytes.blocksRead.getAndSet(0),
      "refused" -> (KeyDirectories.refused.get - refused),
      "seeds" -> runs.size,
      "calls" -> runs.map(_.calls).sum,
      "commits" -> runs.map(_.commits).sum,
      "aborts" -> runs.map(_.aborts).sum,
      "back" -> runs.map(_.back).sum,
      "loads" -> runs.map(_.loads).sum,
      "renewed" -> runs.map(_.renewed).sum) ++ NarrowFiles.counts
  }
}

/** One checkpoint of one operator: batches on any version that may be built on, until it is enough. */
final class ModelRun(words: Arguments, seed: Long) extends Seeded {
  private val random = new Random(seed)
  private val v2 = words.text("v2", "false") match {
    case "both" => seed % 2 == 1
    case word => word.toBoolean
  }
  private val maintained = words.flag("maintenance")
  /** Often loaded anew, mostly by a key directory. */
  private val restarts = words.flag("directories")
  private val useFamilies = words.flag("families")
  private val kinds = Family.kinds.toVector.sortBy(_._1)
  // Of each kind, either those of one value or those of several.
  private val tight = words.flag("tight") && (seed + seed / kinds.size) % 2 == 1
  private val stores = new Stores(
    Paths.get(words.text("root"), s"seed-$seed").toString, words.text("provider"),
    words.settings ++ Option.when(tight)(ModelRun.Tight).toSeq.flatten ++ Option.when(seed / 2 % 2 == 1)(ModelRun.NoHeap), v2 = v2)

  private val default = {
    val (_, make) = kinds((seed % kinds.size).toInt)
    make("default", seed / kinds.size % 2 == 1)
  }
  private val others: Vector[Family] =
    if (!useFamilies) Vector.empty
    else for ((kind, make) <- kinds; multi <- Vector(false, true)) yield make(s"$kind-$multi", multi)

  private var provider = make()
  private var known = Map(Stores.Start -> Model.Empty)
  private var newest = Stores.Start
  private val written = new Expectations(default +: others, useFamilies)
  private var newestEver = 0L

  var (calls, commits, aborts, loads, back) = (0, 0, 0, 0, 0)
  /** Footprints that commits wrote again. */
  var renewed = 0L
  var where = "start"

  private def make() = stores.provider(default, useFamilies)

  def all(): Unit = {
    (0 until words.number("batches", 30).toInt).foreach(batch)
    provider.close()
    provider = make()
    for ((version, model) <- random.shuffle(known.toVector)) {
      where = s"$version at the end"
      val store = open(version, model)
      StoreReader.sameAll(where, store, default +: others, model)
      store.abort()
    }
    if (words.flag("dump")) written.write(Paths.get(stores.root, "expected.json"), known)
    provider.close()
  }

  private def batch(number: Int): Unit = {
    if (random.nextInt(if (restarts) 3 else 7) == 0) {
      if (words.flag("cuts")) SyncedFiles.powerCut(new File(new Path(stores.root).toUri.getPath), random)
      else provider.close()
      provider = make()
    }
    if (maintained && random.nextInt(if (restarts) 2 else 5) == 0) provider.doMaintenance()
    val base = chooseBase()
    if (base != newest) back += 1
    val model = known(base)
    where = s"batch $number on $base"
    val store = open(base, model)
    StoreReader.sameAll("just opened", store, default +: others, model)
    val steps = new Steps(random, store, changeFamilies(store, model))
    val present = (default +: others).filter(f => steps.result.families.contains(f.name))
    for (_ <- 0 until random.nextInt(60)) steps.take(present(random.nextInt(present.size)))
    StoreReader.sameAll("before the end", store, default +: others, steps.result)
    calls += steps.count
    if (random.nextInt(5) == 0) {
      store.abort()
      aborts += 1
    } else commit(store, base, steps.result)
  }

  /** With V1 a version is committed again only when nothing was built on it: what came after it is
   *  no longer anybody's. With V2 each attempt has its id and stays.
   */
  private def chooseBase(): Version =
    if (random.nextInt(4) > 0) newest
    else {
      val choice = known.keys.filter(_.number >= newest.number - 3).toVector.sortBy(_.toString)
      choice(random.nextInt(choice.size))
    }

  private def commit(store: StateStore, base: Version, model: Model): Unit = {
    Check.equal("committed before commit", store.hasCommitted, false)
    val made = Stores.commit(store, v2)
    Check.equal("version committed", made.number, base.number + 1)
    Check.equal("committed after commit", store.hasCommitted, true)
    if (v2) {
      val info = store.getStateStoreCheckpointInfo()
      Check.equal("base in the checkpoint info", info.baseStateStoreCkptId, base.id)
      Check.equal("version in the checkpoint info", info.batchVersion, made.number)
      Check.that(s"an id of its own: $made", made.id.isDefined && !known.contains(made))
    } else known = known.filter(_._1.number <= base.number)
    renewed += store.metrics.customMetrics.collect {
      case (metric, value) if metric.name == "cecCheckRecordsWritten" => value
    }.sum
    // RocksDB loses count when a range is deleted.
    if (words.flag("counted")) {
      Check.equal("keys in the metrics", store.metrics.numKeys,
        (default +: others).filter(f => model.families.contains(f.name)).map(model(_).size).sum)
    }
    newestEver = newestEver.max(made.number)
    known = known.updated(made, model).filter(_._1.number >= newestEver - stores.conf.minVersionsToRetain)
    written.measured(made, store.metrics)
    newest = made
    commits += 1
  }

  /** Any of the three ways in which Spark opens a store. */
  private def open(version: Version, model: Model): StateStore = {
    loads += 1
    val store = random.nextInt(3) match {
      case 0 =>
        val reading = provider.getReadStore(version.number, version.id)
        prepare(reading, model)
        StoreReader.sameAll("read only", reading, default +: others, model)
        if (random.nextBoolean()) {
          reading.release()
          Stores.open(provider, version)
        } else {
          provider.upgradeReadStoreToWriteStore(reading, version.number, version.id, false)
        }
      case _ => Stores.open(provider, version)
    }
    Check.equal("version opened", store.version, version.number)
    for (family <- others if model.families.contains(family.name)) create(store, family)
    if (useFamilies) {
      Check.equal("column families", store.allColumnFamilyNames, model.families.keySet)
    }
    store
  }

  private def prepare(store: ReadStateStore, model: Model): Unit =
    for (family <- others if model.families.contains(family.name)) {
      store.registerColFamily(family.name, family.keySchema, Values.schema, family.spec,
        family.multi, false)
    }

  private def create(store: StateStore, family: Family): Unit =
    store.createColFamilyIfAbsent(family.name, family.keySchema, Values.schema, family.spec,
      family.multi, false)

  private def changeFamilies(store: StateStore, model: Model): Model =
    others.foldLeft(model) { (sofar, family) =>
      val present = sofar.families.contains(family.name)
      random.nextInt(8) match {
        case 0 if present =>
          Check.equal(s"${family.name} removed", store.removeColFamilyIfExists(family.name), true)
          sofar.drop(family)
        case 1 | 2 if !present =>
          create(store, family)
          sofar.create(family)
        case _ => sofar
      }
    }
}

object ModelRun {
  /** Each has a key or two. */
  private[testing] val SmallBlocks = 200
  /** Two bits of a hash say where a key stands in a run, two where it stands in a table. */
  private[testing] val FourBits = 0xc0000003
  /** Fewer records than there are keys: each commit writes all older footprints again. */
  private val Tight = Map("extentMaxRecords" -> "1", "checkTimeMs" -> "10000")
    .map { case (name, value) => s"spark.sql.streaming.stateStore.cec.$name" -> value }
  /** Rows of versions that are over and indexes go to local files: half of the seeds. */
  private val NoHeap = "spark.sql.streaming.stateStore.cec.memoryBytes" -> "0"
}
