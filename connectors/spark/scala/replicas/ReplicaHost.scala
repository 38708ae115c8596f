package org.apache.spark.sql.cecstore.replicas

import java.util.concurrent.ConcurrentHashMap
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal
import org.apache.hadoop.conf.Configuration
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.log.{FrameAt, SegmentFolder, StateLog}
import org.apache.spark.sql.cecstore.state.{Instance, RowMemory}

/**
 * The replicas of one executor and the stores that its own providers have open. Tasks take replicas from here; the
 * driver's instructions say which are kept, and [[follow]], called by one thread, brings them forward.
 *
 * @param memoryBytesMax of all replicas together; while they are more, the coldest goes
 * @param folderOf the store's log, for a reader that may not end what its writer has open; with the settings that a
 *                 query of the same checkpoint has here, if there is one
 */
private[cecstore] final class ReplicaHost(val memoryBytesMax: Long, folderOf: (StoreKey, Option[Configuration]) => SegmentFolder) extends Logging {
  import ReplicaHost._

  private val owners = new ConcurrentHashMap[StoreKey, OwnedStore]
  private val replicas = new ConcurrentHashMap[StoreKey, Replica]
  /** Until when nothing is tried again, or for how many bytes there was no room. */
  private val troubles = new ConcurrentHashMap[StoreKey, Trouble]
  /** Since when a replica is kept that nobody has asked for, or that is no longer wanted. */
  private val spare = new ConcurrentHashMap[StoreKey, java.lang.Long]
  /** By a checkpoint's root, what its query has set here. */
  private val settings = new ConcurrentHashMap[String, Settings]
  @volatile private var wanted = Map.empty[StoreKey, Wanted]

  // -- the executor's own stores ----------------------------------------------------------------

  def opened(store: OwnedStore, conf: Configuration): Unit = {
    // In one step, so that whoever lets go of settings that no store here needs sees the store, or comes before both.
    settings.compute(store.key.root, (_, _) => { owners.put(store.key, store); Settings(conf, store.memory) })
  }

  /** The roots of checkpoints whose queries' settings are kept. */
  private[cecstore] def roots: Set[String] = settings.keySet.asScala.toSet

  /** A provider is closed. What it kept for its next task may go on as a replica. */
  def closed(store: OwnedStore, kept: Option[Instance]): Unit =
    if (owners.remove(store.key, store)) kept.foreach(adopt(store, _))

  private def adopt(store: OwnedStore, kept: Instance): Unit = if (!kept.base.isEmpty) {
    val replica = new Replica(store.key, store.isOrdered, store.memory)
    replica.adopt(kept)
    spare.put(store.key, System.nanoTime())
    replicas.put(store.key, replica)
  }

  /** The state at the end of this frame, if there is a replica that leads there; nobody else has it from now on. */
  def take(key: StoreKey, log: StateLog, last: FrameAt): Option[Taken] = Option(replicas.remove(key)).flatMap { replica =>
    try replica.take(log, last) catch {
      case NonFatal(e) if !isInterrupt(e) =>
        logWarning(s"cec: the replica of $key is of no use: $e")
        None
    }
  }

  // -- what the driver is told, and says --------------------------------------------------------

  private[cecstore] def report(executor: String, host: String, seen: Long): Report =
    Report(executor, host, seen, memoryBytesMax, owners.values.asScala.map(_.report).toSeq, held)

  private def held: Seq[Report.Held] = (wanted.keySet ++ replicas.keySet.asScala).toSeq.flatMap { key =>
    val (replica, trouble) = (Option(replicas.get(key)), Option(troubles.get(key)))
    if (replica.isEmpty && ownsNewest(key)) None
    else Some(replica.filter(_.version >= 0) match {
      case Some(warm) => Report.Held(key, warm.version, warm.memoryBytes, "warm", "")
      case None => Report.Held(key, -1, 0, trouble.fold("loading")(_.state), trouble.fold("")(_.reason))
    })
  }

  private[cecstore] def instructed(content: Instructions.Content): Unit = {
    val now = content.wanted.map(each => each.key -> each).toMap
    // A partition that moves here is owned once its first store is open: its task has yet to take the others. And while
    // a query begins anew nobody knows yet which version its replicas are to have.
    (wanted.keySet -- now.keySet).foreach(spare.put(_, System.nanoTime()))
    wanted = now
    val news = content.news.toMap
    owners.forEach((key, store) => store.hear(news.get(key)))
  }

  // -- the follower -----------------------------------------------------------------------------

  /**
   * Bring each replica that is wanted to the newest version that is known, and let go of the others.
   *
   * @param awaitCore called before each one, but for those whose partition is on its way here
   */
  def follow(awaitCore: () => Unit = () => ()): Unit = {
    val now = wanted
    replicas.keySet.asScala.toSeq.filter(!now.contains(_)).filter(isLeftOver).foreach(drop)
    val behind = now.values.toSeq.filter(each => !ownsNewest(each.key))
    behind.sortBy(each => (!each.isMoving, Option(replicas.get(each.key)).fold(Long.MaxValue)(_.version))).foreach { each =>
      if (!each.isMoving) awaitCore()
      follow(each)
    }
    makeRoom()
    forgetOthers()
  }

  private def settingsOf(each: Wanted): Option[Settings] = Option(settings.get(each.key.root))

  /** Keep nothing of stores that are neither here nor wanted: queries come and go as long as the executor lives. */
  private def forgetOthers(): Unit = {
    // Of what is wanted by now: a pass may take minutes.
    def isHere(key: StoreKey): Boolean = owners.containsKey(key) || replicas.containsKey(key) || wanted.contains(key)
    troubles.keySet.removeIf(!isHere(_))
    spare.forEach((key, since) => if (!isHere(key) && isLeftOver(key)) spare.remove(key, since))
    def roots: Iterator[String] = (owners.keySet.asScala.iterator ++ replicas.keySet.asScala ++ wanted.keysIterator).map(_.root)
    val needed = roots.toSet
    settings.keySet.asScala.filterNot(needed).foreach(
      settings.computeIfPresent(_, (root, known) => if (roots.contains(root)) known else null))
  }

  /** The driver has had the time to want it, and a task to take what it needs. */
  private def isLeftOver(key: StoreKey): Boolean = Option(spare.get(key)).forall(System.nanoTime() - _ > SpareNs)

  private def drop(key: StoreKey): Unit = {
    spare.remove(key)
    troubles.remove(key)
    Option(replicas.remove(key)).foreach(_.drop())
  }

  private def follow(each: Wanted): Unit = if (!ownsNewest(each.key) && hasRoom(each)) {
    // A provider that is left over here has a state that only lacks what the other executor has done since.
    if (!replicas.containsKey(each.key)) Option(owners.get(each.key)).foreach(store => store.giveUp().foreach(adopt(store, _)))
    // A task may come for it from now on, and wait for its lock: so what the map no longer has is not dropped here.
    val replica = replicas.computeIfAbsent(each.key, new Replica(_, each.isOrdered, settingsOf(each).fold(RowMemory.Default)(_.memory)))
    try {
      val (was, started) = (replica.version, System.nanoTime())
      val records = replica.bringTo(folderOf(each.key, settingsOf(each).map(_.conf)), each.head)
      troubles.remove(each.key)
      if (was < 0 && replica.version >= 0) logInfo(s"cec: a replica of ${each.key} at version ${each.head.version}: $records records in " +
        s"${(System.nanoTime() - started) / 1000000} ms")
    } catch {
      case e: Throwable if isInterrupt(e) => throw e
      case NonFatal(e) =>
        logWarning(s"cec: the replica of ${each.key} does not get on, it is tried again: $e")
        troubles.put(each.key, Trouble("failing", e.toString, System.nanoTime() + AgainNs, 0))
    }
  }

  private def ownsNewest(key: StoreKey): Boolean = {
    val own = Option(owners.get(key)).flatMap(_.head)
    own.exists(head => wanted.get(key).forall(_.head.version <= head.version))
  }

  private def hasRoom(each: Wanted): Boolean = if (each.stateBytes > memoryBytesMax) {
    // It is not even loaded: the heap may have no room for it beside the others.
    drop(each.key)
    troubles.put(each.key, noRoom(each.stateBytes))
    false
  } else Option(troubles.get(each.key)).forall(trouble =>
    System.nanoTime() >= trouble.untilNs && bytesOf(replica => wanted.contains(replica.key)) + trouble.bytes <= memoryBytesMax)

  private def noRoom(bytes: Long): Trouble =
    Trouble(NoRoom, s"it has $bytes bytes, all together may have $memoryBytesMax", 0, bytes)

  def memoryBytes: Long = bytesOf(_ => true)

  private def bytesOf(which: Replica => Boolean): Long = replicas.values.asScala.filter(which).map(_.memoryBytes).sum

  /** Those that are not wanted go first, then the coldest. */
  private def makeRoom(): Unit = while (memoryBytes > memoryBytesMax && dropColdest()) ()

  /** False where none is left: a task may have taken the last one. */
  private def dropColdest(): Boolean = {
    val coldest = replicas.values.asScala.filter(_.version >= 0).minByOption(each => (wanted.contains(each.key), each.advancedNs))
    coldest.foreach { replica =>
      val bytes = replica.memoryBytes
      drop(replica.key)
      if (wanted.contains(replica.key)) {
        logInfo(s"cec: no room for the replica of ${replica.key}: replicas may have $memoryBytesMax bytes")
        troubles.put(replica.key, noRoom(bytes))
      }
    }
    coldest.nonEmpty
  }
}

private[cecstore] object ReplicaHost {
  /** Set while the plugin's executor side is up in this process; tests set others. */
  @volatile private[cecstore] var ofProcess: Option[ReplicaHost] = None
  /** The state of a replica that is wanted, and that the others leave no memory for. */
  private[cecstore] val NoRoom = "no_room"
  private val SpareNs = 10L * 1000 * 1000 * 1000
  private val AgainNs = 1000L * 1000 * 1000

  private final case class Settings(conf: Configuration, memory: RowMemory)

  private final case class Trouble(state: String, reason: String, untilNs: Long, bytes: Long)

  private def isInterrupt(error: Throwable): Boolean = error match {
    case _: InterruptedException | _: java.io.InterruptedIOException | _: java.nio.channels.ClosedByInterruptException => true
    case _ => false
  }
}
