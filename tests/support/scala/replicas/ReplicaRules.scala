package org.apache.spark.sql.cecstore.testing

import java.nio.file.{Path => LocalPath}
import java.util.concurrent.{CountDownLatch, FutureTask}
import scala.util.Using
import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.cecstore.keys.KeyRun
import org.apache.spark.sql.cecstore.local.LocalSpace
import org.apache.spark.sql.cecstore.log.{DerivedFiles, SegmentFolder, SegmentInput, SegmentOutput, StateLog}
import org.apache.spark.sql.cecstore.replicas._
import org.apache.spark.sql.cecstore.state.KeyDirectories
import org.apache.spark.sql.execution.streaming.state.{StateStoreId, StateStoreProvider}

/** One fact after the other about replicas on an executor. */
object ReplicaRules {
  val rules: Seq[(String, Setting => Unit)] = Seq(
    "a replica reads only the frames that it lacks" -> onlyWhatItLacks,
    "a replica begins by a key directory and what lies behind it" -> byDirectory,
    "a replica finds its place again in a merged segment" -> merged,
    "a frame of another lineage in a merged segment is not its place" -> mergedOfOthers,
    "a replica whose next frames are no longer kept is loaded anew" -> forgotten,
    "a replica of a store that stays empty is loaded" -> empty,
    "a replica that is further behind than the extent is loaded anew" -> beyondExtent,
    "the coldest replica goes first, and comes back when there is room" -> coldest,
    "a state that is larger than all replicas may be is not even read" -> tooLarge,
    "a provider that is closed leaves its state as a replica" -> leftBehind,
    "a provider that is left over gives its state to the replica" -> givenUp,
    "a replica that is not wanted for a moment is kept" -> notForAMoment,
    "an executor keeps the settings of no query whose stores are elsewhere" -> noSettings,
    "a replica that is of no use to a task gives back its room" -> noRoomForNothing,
    "a partition that has just moved here keeps the replicas that its task has not come to yet" -> arriving,
    "a follower ends no file that its writer has open" -> leases,
    "a replica waits for a core that no task uses, unless its partition is on its way" -> waits,
    "a core is waited for until a task ends, or for so long" -> cores,
    "two tasks never have one replica" -> onlyOnce,
    "a task that waits for a replica gets it once it has caught up" -> awaited,
    "a replica that a task took before it was loaded is not loaded" -> takenEarly)

  private final class Two(setting: Setting, scheme: String, more: (String, String)*) {
    private val all = setting.stores(Map("spark.sql.streaming.stateStore.minDeltasForSnapshot" -> "3",
      "spark.sql.streaming.minBatchesToRetain" -> "3") ++ more, scheme)
    def key(partition: Int, store: String = Default): StoreKey = StoreKey(StateStoreId(all.root, 0, partition, store))
    def folderOf(key: StoreKey, conf: Option[Configuration]): SegmentFolder =
      SegmentFolder.ofFollower(key.folder, conf.getOrElse(all.hadoop))
    def host(bytes: Long = Long.MaxValue): ReplicaHost = new ReplicaHost(bytes, folderOf)
    val (here, there) = (host(), host())

    def provider(on: ReplicaHost, partition: Int = 0, store: String = Default): StateStoreProvider = {
      ReplicaHost.ofProcess = Some(on)
      try all.provider(setting.family, partition = partition, store = store) finally ReplicaHost.ofProcess = None
    }
    def headOf(on: ReplicaHost, partition: Int, store: String = Default): Head = owned(on, partition, store).flatMap(_.head).get
    private def owned(on: ReplicaHost, partition: Int, store: String) =
      on.report("", "", 0).owned.find(_.key == key(partition, store))
    def load(on: ReplicaHost, store: String = Default): LoadFigures = owned(on, 0, store).flatMap(_.load).get
    def held(on: ReplicaHost): Map[Int, Report.Held] = on.report("", "", 0).replicas.map(held => held.key.partition -> held).toMap

    /** Have `on` follow the newest versions that `of` has made. */
    def follow(on: ReplicaHost = there, of: ReplicaHost = here, partitions: Seq[Int] = Seq(0)): Unit = {
      on.instructed(Instructions.Content(partitions.map(p => Wanted(key(p), headOf(of, p), isOrdered = false, isMoving = false)), Nil))
      on.follow()
    }

    def versions(provider: StateStoreProvider, base: Version, pairs: Seq[(Int, Int)]): Version =
      pairs.foldLeft(base)((last, pair) => setting.version(provider, last, pair))

    /** What a task at that version finds there. */
    def content(provider: StateStoreProvider, version: Version): Map[Int, Int] =
      Tasks.run(setting.content(provider.getReadStore(version.number, version.id)))
  }

  private val Default = StateStoreId.DEFAULT_STORE_NAME

  private def pairs(from: Int, until: Int, add: Int = 0): Seq[(Int, Int)] = (from until until).map(n => n -> (n + add))

  private def onlyWhatItLacks(setting: Setting): Unit = {
    val two = new Two(setting, "")
    import two._
    val owner = provider(here)
    val third = versions(owner, Stores.Start, pairs(0, 20))
    follow()
    val last = versions(owner, third, Seq(1 -> 50, 30 -> 3))
    Check.equal("content", content(provider(there), last), (pairs(0, 20) ++ Seq(1 -> 50, 30 -> 3)).toMap)
    Check.equal("load", load(there).copy(ms = 0), LoadFigures(22, isFromReplica = true, 2, 0))
  }

  private def byDirectory(setting: Setting): Unit = {
    val (keys, least) = (KeyDirectories.keysMin, KeyRun.keysMin)
    KeyDirectories.keysMin = 10
    KeyRun.keysMin = 10
    try {
      val two = new Two(setting, "")
      import two._
      val owner = provider(here)
      val described = versions(owner, Stores.Start, pairs(0, 30))
      owner.doMaintenance()
      val behind = versions(owner, described, Seq(1 -> 50, 31 -> 3))
      val used = KeyDirectories.used.get
      follow()
      Check.equal("loads by a directory", KeyDirectories.used.get - used, 1L)
      val last = versions(owner, behind, Seq(2 -> 60))
      Check.equal("content", content(provider(there), last), (pairs(0, 30) ++ Seq(1 -> 50, 31 -> 3, 2 -> 60)).toMap)
      Check.equal("load", load(there).copy(ms = 0), LoadFigures(33, isFromReplica = true, 1, 0))
    } finally { KeyDirectories.keysMin = keys; KeyRun.keysMin = least }
  }

  private def merged(setting: Setting): Unit = {
    val two = new Two(setting, "objects")
    import two._
    val owner = provider(here)
    val third = versions(owner, Stores.Start, pairs(0, 3))
    follow(there)
    // The replica has read the frame at which it stands, and stands in an object that is merged.
    val sixth = versions(owner, third, pairs(3, 6))
    owner.doMaintenance()
    val last = versions(owner, sixth, pairs(6, 7))
    Check.that("nothing was merged", LoadingRules.segments(setting.folder).exists(_.getFileName.toString.stripSuffix(".seg").toLong % 2 == 1))
    Check.equal("content", content(provider(there), last), pairs(0, 7).toMap)
    Check.equal("load", load(there).copy(ms = 0), LoadFigures(7, isFromReplica = true, 4, 0))
  }

  private def mergedOfOthers(setting: Setting): Unit = {
    val two = new Two(setting, "objects")
    import two._
    val owner = provider(here)
    val third = versions(owner, Stores.Start, pairs(0, 3))
    versions(owner, third, pairs(3, 5))
    follow()
    owner.close()
    val again = provider(here)
    val sixth = versions(again, third, pairs(3, 7, add = 30))
    again.doMaintenance()
    val last = versions(again, sixth, pairs(7, 8))
    Check.equal("content", content(provider(there), last), (pairs(0, 3) ++ pairs(3, 7, add = 30) ++ pairs(7, 8)).toMap)
    Check.equal("from the replica", load(there).isFromReplica, false)
  }

  private def forgotten(setting: Setting): Unit = {
    val two = new Two(setting, "objects", "spark.sql.streaming.stateStore.cec.extentMaxRecords" -> "4")
    import two._
    val owner = provider(here)
    var last = versions(owner, Stores.Start, pairs(0, 3))
    follow()
    for (round <- 0 until 10) { last = versions(owner, last, pairs(0, 3, add = round)); owner.doMaintenance() }
    Check.equal("content", content(provider(there), last), pairs(0, 3, add = 9).toMap)
    Check.equal("from the replica", load(there).isFromReplica, false)
    follow(there)
  }

  /** The newest frame with records is in a segment that no kept version needs. */
  private def empty(setting: Setting): Unit = {
    val two = new Two(setting, "objects")
    import two._
    val owner = provider(here)
    var last = versions(owner, Stores.Start, pairs(0, 3))
    last = Tasks.run {
      val store = Stores.open(owner, last)
      (0 until 3).foreach(setting.remove(store, _))
      setting.commit(store)
    }
    for (_ <- 0 until 12) { last = setting.version(owner, last); owner.doMaintenance() }
    follow()
    Check.equal("replica", held(there)(0).version, last.number)
    last = setting.version(owner, last, 1 -> 5)
    follow()
    Check.equal("content", content(provider(there), last), Map(1 -> 5))
    Check.equal("from the replica", load(there).isFromReplica, true)
  }

  private def beyondExtent(setting: Setting): Unit = {
    val two = new Two(setting, "", "spark.sql.streaming.stateStore.cec.extentMaxRecords" -> "4",
      "spark.sql.streaming.minBatchesToRetain" -> "100")
    import two._
    val owner = provider(here)
    val third = versions(owner, Stores.Start, pairs(0, 3))
    follow()
    val last = versions(owner, third, Seq.fill(10)(pairs(0, 3)).flatten)
    follow()
    Check.equal("replica", held(there)(0).version, last.number)
    Check.equal("content", content(provider(there), last), pairs(0, 3).toMap)
    Check.equal("load", load(there).copy(ms = 0), LoadFigures(last.number, isFromReplica = true, 0, 0))
  }

  private def coldest(setting: Setting): Unit = {
    val two = new Two(setting, "")
    import two._
    val owners = (0 until 3).map(provider(here, _))
    var last = owners.map(owner => versions(owner, Stores.Start, pairs(0, 10)))
    follow(there, here, 0 until 3)
    // Enough for two of them.
    val small = host(there.memoryBytes * 5 / 6)
    follow(small, here, Seq(0, 1))
    last = last.updated(0, versions(owners(0), last(0), Seq(1 -> 1)))
    follow(small, here, 0 until 3)
    Check.equal("states", (0 until 3).map(held(small)(_).state), Seq("warm", "no_room", "warm"))
    Check.that(s"${small.memoryBytes} of ${small.memoryBytesMax} bytes", small.memoryBytes <= small.memoryBytesMax)
    // Where a partition is no longer wanted there is room again.
    follow(small, here, Seq(0, 1))
    follow(small, here, Seq(0, 1))
    Check.equal("states", (0 until 2).map(held(small)(_).state), Seq("warm", "warm"))
  }

  private def tooLarge(setting: Setting): Unit = {
    val two = new Two(setting, "")
    import two._
    versions(provider(here), Stores.Start, pairs(0, 5))
    val small = host(1000)
    small.instructed(Instructions.Content(Seq(Wanted(key(0), headOf(here, 0), isOrdered = false, isMoving = false, 1001)), Nil))
    LoadingRules.segments(setting.folder).foreach(java.nio.file.Files.delete)
    small.follow()
    Check.equal("state", held(small)(0).state -> held(small)(0).reason, "no_room" -> "it has 1001 bytes, all together may have 1000")
  }

  private def leftBehind(setting: Setting): Unit = {
    val two = new Two(setting, "")
    import two._
    val owner = provider(here)
    val last = versions(owner, Stores.Start, pairs(0, 5))
    owner.close()
    Check.equal("content", content(provider(here), last), pairs(0, 5).toMap)
    Check.equal("load", load(here).copy(ms = 0), LoadFigures(5, isFromReplica = true, 0, 0))
  }

  private def givenUp(setting: Setting): Unit = {
    val two = new Two(setting, "")
    import two._
    val owner = provider(here)
    val fifth = versions(owner, Stores.Start, pairs(0, 5))
    val last = versions(provider(there), fifth, Seq(7 -> 7))
    follow(here, there)
    Check.equal("replica", held(here).get(0).map(_.version), Some(last.number))
    Check.equal("content", content(owner, last), (pairs(0, 5) :+ (7 -> 7)).toMap)
    Check.equal("load", load(here).copy(ms = 0), LoadFigures(6, isFromReplica = true, 0, 0))
  }

  private def notForAMoment(setting: Setting): Unit = {
    val two = new Two(setting, "")
    import two._
    val last = versions(provider(here), Stores.Start, pairs(0, 5))
    follow()
    // So it is while a query begins anew: none of its stores has a version yet.
    there.instructed(Instructions.Content(Nil, Nil))
    there.follow()
    Check.equal("replica", held(there).get(0).map(_.version), Some(last.number))
    Check.equal("content", content(provider(there), last), pairs(0, 5).toMap)
    Check.equal("load", load(there).copy(ms = 0), LoadFigures(5, isFromReplica = true, 0, 0))
  }

  private def noSettings(setting: Setting): Unit = {
    val two = new Two(setting, "")
    import two._
    versions(provider(here), Stores.Start, pairs(0, 5))
    val idle = provider(there)
    there.follow()
    Check.equal("checkpoints while a store is open", there.roots.size, 1)
    follow()
    idle.close()
    there.follow()
    Check.equal("checkpoints while there is a replica", there.roots.size, 1)
    val alone = host()
    provider(alone, 2).close()
    alone.follow()
    Check.equal("checkpoints", alone.roots, Set.empty[String])
  }

  private def noRoomForNothing(setting: Setting): Unit = {
    val two = new Two(setting, "", "spark.sql.streaming.stateStore.cec.memoryBytes" -> "0")
    import two._
    val owner = provider(here)
    val third = versions(owner, Stores.Start, pairs(0, 20))
    versions(owner, third, pairs(20, 22))
    provider(there, 1)  // whose settings are the replica's
    follow()
    owner.close()
    versions(provider(here), third, pairs(20, 24, add = 30))
    val (used, head) = (LocalSpace.ofProcess.usedBytes, headOf(here, 0))
    Using.resource(new StateLog(folderOf(key(0), None))) { log =>
      Check.equal("use of another attempt's state", there.take(key(0), log, log.find(head.version, Some(head.uniqueId))), None)
    }
    Check.that(s"${LocalSpace.ofProcess.usedBytes} bytes in use, $used before", LocalSpace.ofProcess.usedBytes < used)
  }

  private def arriving(setting: Setting): Unit = {
    val two = new Two(setting, "")
    import two._
    val sides = Seq("left", "right")
    val last = sides.map(side => versions(provider(here, store = side), Stores.Start, pairs(0, 5)))
    there.instructed(Instructions.Content(sides.map(side =>
      Wanted(key(0, side), headOf(here, 0, side), isOrdered = false, isMoving = true)), Nil))
    there.follow()
    sides.zip(last).foreach { case (side, version) =>
      Check.equal(s"content of $side", content(provider(there, store = side), version), pairs(0, 5).toMap)
      Check.equal(s"load of $side", load(there, side).copy(ms = 0), LoadFigures(5, isFromReplica = true, 0, 0))
      // With its first store open this is the partition's owner, which is to have no replicas.
      there.instructed(Instructions.Content(Nil, Nil))
      there.follow()
    }
  }

  private def leases(setting: Setting): Unit = {
    val two = new Two(setting, "leased")
    import two._
    val asked = LeasedFiles.asked.get
    val owner = provider(here)
    val third = versions(owner, Stores.Start, pairs(0, 3))
    follow()
    val last = versions(owner, third, pairs(3, 5))
    follow()
    // A version that is not there: whoever may end files would look again after that.
    there.instructed(Instructions.Content(Seq(Wanted(key(0), headOf(here, 0).copy(version = 99), isOrdered = false, isMoving = false)), Nil))
    there.follow()
    Check.equal("leases asked for", LeasedFiles.asked.get, asked)
    Check.equal("the writer goes on", content(owner, versions(owner, last, Seq(9 -> 9))), (pairs(0, 5) :+ (9 -> 9)).toMap)
  }

  private def waits(setting: Setting): Unit = {
    val two = new Two(setting, "")
    import two._
    val owner = provider(here)
    val third = versions(owner, Stores.Start, pairs(0, 3))
    var waited = Seq.empty[Long]
    def order(isMoving: Boolean): Unit = {
      there.instructed(Instructions.Content(Seq(Wanted(key(0), headOf(here, 0), isOrdered = false, isMoving)), Nil))
      there.follow(() => waited :+= held(there).get(0).fold(-1L)(_.version))
    }
    order(isMoving = false)
    Check.equal("waited before it was loaded", waited, Seq(-1L))
    versions(owner, third, pairs(3, 5))
    order(isMoving = true)
    Check.equal("waited in all", waited, Seq(-1L))
    Check.equal("replica", held(there)(0).version, 5L)
  }

  private def cores(setting: Setting): Unit = {
    val spare = new SpareCores(2)
    def awaitMs(patienceMs: Long): Long = {
      val began = System.nanoTime()
      spare.await(began + patienceMs * 1000000)
      (System.nanoTime() - began) / 1000000
    }
    spare.taskBegan()
    Check.that("there is a spare core, and it is waited for", awaitMs(60000) < 30000)
    spare.taskBegan()
    val ms = awaitMs(200)
    Check.that(s"it was waited for $ms ms", ms >= 199)
    val ending = new Thread(() => { Thread.sleep(100); spare.taskEnded() })
    ending.start()
    Check.that("a task has ended, and it is waited for", awaitMs(60000) < 30000)
    ending.join()
  }

  private def onlyOnce(setting: Setting): Unit = {
    val two = new Two(setting, "")
    import two._
    val last = versions(provider(here), Stores.Start, pairs(0, 5))
    follow()
    val twin = provider(there)
    Tasks.run {
      val store = Stores.open(twin, last)
      setting.put(store, 1, 40)
      Setting.inThread(Tasks.run(Check.equal("the other task's", setting.content(twin.getReadStore(last.number, last.id)), pairs(0, 5).toMap)))
      store.abort()
    }
  }

  /** A folder that tells of each listing and opening before it is done. */
  private final class Told(to: SegmentFolder, reading: () => Unit) extends ThroughFolder(to) {
    override def list(): Array[Long] = { reading(); super.list() }
    override def open(id: Long): SegmentInput = { reading(); super.open(id) }
  }

  private def awaited(setting: Setting): Unit = {
    val two = new Two(setting, "")
    import two._
    val owner = provider(here)
    val fifth = versions(owner, Stores.Start, pairs(0, 5))
    var reading = () => ()
    val slow = new ReplicaHost(Long.MaxValue, (key, conf) => new Told(folderOf(key, conf), () => reading()))
    val twin = provider(slow)
    follow(slow)
    val last = versions(owner, fifth, pairs(5, 7))
    val (isReading, goesOn) = (new CountDownLatch(1), new CountDownLatch(1))
    reading = () => { isReading.countDown(); goesOn.await() }
    val follower = new Thread(() => follow(slow))
    follower.start()
    isReading.await()
    val task = new FutureTask(() => content(twin, last))
    val waiting = new Thread(task)
    waiting.start()
    def isParked: Boolean = waiting.getState == Thread.State.WAITING && waiting.getStackTrace.exists(frame =>
      frame.getClassName == classOf[Replica].getName && frame.getMethodName == "take")
    while (!isParked) { Check.that("the task has not waited", !task.isDone); Thread.onSpinWait() }
    goesOn.countDown()
    follower.join()
    Check.equal("content", task.get(), pairs(0, 7).toMap)
    Check.equal("load", load(slow).copy(ms = 0), LoadFigures(7, isFromReplica = true, 0, 0))
  }

  private def takenEarly(setting: Setting): Unit = {
    val two = new Two(setting, "")
    import two._
    val last = versions(provider(here), Stores.Start, pairs(0, 5))
    var task = () => ()
    var reads = 0
    val quick = new ReplicaHost(Long.MaxValue, (key, conf) => {
      task()
      new Told(folderOf(key, conf), () => reads += 1)
    })
    val twin = provider(quick)
    task = () => { task = () => (); Check.equal("content", content(twin, last), pairs(0, 5).toMap) }
    follow(quick)
    Check.equal("reads for the replica", reads, 0)
    Check.equal("from the replica", load(quick).isFromReplica, false)
  }
}
