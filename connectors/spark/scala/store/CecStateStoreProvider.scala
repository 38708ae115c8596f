// Not in cecstore.store: users set this class by its name, and each checkpoint's offset log keeps the name.
package org.apache.spark.sql.cecstore

import java.io.FileNotFoundException
import java.security.SecureRandom
import java.util.concurrent.ConcurrentHashMap
import scala.util.Using
import org.apache.hadoop.conf.Configuration
import org.apache.spark.TaskContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.cecstore.format.Format
import org.apache.spark.sql.cecstore.log.{Base, FrameAt, Maintenance, Mounts, SegmentFolder, SegmentWriter, StateLog, VersionErrors}
import org.apache.spark.sql.cecstore.replicas.{LoadFigures, OwnedStore, ReplicaHost, StoreKey}
import org.apache.spark.sql.cecstore.sparks.{NewestProvider, SnapshotReports, StoreErrors, StoreSettings}
import org.apache.spark.sql.cecstore.state.{ExtentTarget, Instance, KeyDirectories, LiveState, LoadRate, RowTime, StateLoader}
import org.apache.spark.sql.cecstore.store.{CecMetrics, CecStateStore, ChangeReader, FamilyCodec, FamilyKind, InstancePool, JoinStores, JointCommits, LoadErrors, RowEncoding, ScanHint, Settings, SparksSettings, TimePlace}
import org.apache.spark.sql.errors.QueryExecutionErrors
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.NextIterator

/**
 * A [[StateStoreProvider]] that keeps state in memory and appends each version to a log in the checkpoint, which
 * is on any Hadoop file system.
 *
 * Usage:
 * To keep the state of new queries in such logs, put the jar into `spark.jars` and set
 *  - `spark.sql.streaming.stateStore.providerClass` to the name of this class
 *  - `spark.sql.extensions` to our extension, for `transformWithState` and so that batches with a watermark read only
 *    what can have expired
 *  - optionally `spark.sql.streaming.stateStore.cec.recoveryTimeMs`, which bounds a restart
 * `cec-store spark conf` prints them, and docs/spark.md lists all settings. Between `getStore` and `commit` the rows
 * of a version are put and removed in memory. A commit appends them as one frame, or several, and with them the
 * oldest live rows, until what a restart has to read fits its target. There are no snapshots.
 *
 * Fault tolerance model:
 * - `commit` returns once the version is durable: synced, or stored as an object. The stores of a join write side by
 *   side, and the last of their commits returns once all are. A version counts once Spark's own commit log has its batch.
 * - Each task owns its instance of the state and writes segments of its own. A retry or a speculative attempt loads
 *   another instance, so that attempts share nothing. Spark's unique id, or in checkpoint format V1 the highest
 *   segment, decides which attempt at a version counts. What others have written is ignored.
 * - An unfinished write at the end of a segment is ignored, because no version that counts ends there.
 * - Damage fails the load by name, with the file, the byte and the newest version that is sound. State is never
 *   silently empty, and no frame is skipped.
 * - After a failed write or sync the segment is not touched again. The next commit begins another one.
 * - Every version within `minVersionsToRetain` can be loaded. Maintenance deletes a segment once none of them needs it.
 *
 * The bytes are those of docs/format.md §9. One provider serves overlapping tasks and Spark's maintenance thread. What
 * [[init]] sets does not change; the instances are behind the lock of `pool`, the codecs in a concurrent map, and
 * `maintenance` locks for itself.
 */
class CecStateStoreProvider extends NewestProvider with Logging {
  import StateStore.DEFAULT_COL_FAMILY_NAME

  private var id_ : StateStoreId = null
  private var conf: StateStoreConf = null
  private var hadoopConf: Configuration = null
  private var settings: Settings = null
  private var folder: SegmentFolder = null
  private var useColumnFamilies = false
  private var encoding: RowEncoding = null
  private var valueSchema: StructType = null
  private var keySchema: StructType = null
  private val codecs = new ConcurrentHashMap[String, FamilyCodec]
  private var pool: InstancePool = null
  private var maintenance: Maintenance = null
  /** None where the query has not asked for them. */
  private var directories: Option[KeyDirectories] = None
  /** Where this process has replicas, and what it is told of this store; none without the plugin, or outside of a query. */
  private var replicas = Option.empty[(ReplicaHost, OwnedStore)]
  @volatile private var isValidated = false
  @volatile private var hasWarned = false
  /** The last version that Spark's coordinator was told of. */
  @volatile private var toldVersion = Option.empty[Long]

  override def init(stateStoreId: StateStoreId, keySchema: StructType, valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec, useColumnFamilies: Boolean, storeConf: StateStoreConf,
      hadoopConf: Configuration, useMultipleValuesPerKey: Boolean,
      stateSchemaProvider: Option[StateSchemaProvider]): Unit = {
    require(java.nio.ByteOrder.nativeOrder == java.nio.ByteOrder.LITTLE_ENDIAN, "cec-store needs a little-endian processor")
    id_ = stateStoreId
    conf = storeConf
    this.hadoopConf = hadoopConf
    this.useColumnFamilies = useColumnFamilies
    this.keySchema = keySchema
    this.valueSchema = valueSchema
    encoding = RowEncoding.of(storeConf, stateSchemaProvider)
    settings = Settings.parse(storeConf.sqlConfs)
    SparksSettings.sayIgnored(storeConf)
    folder = SegmentFolder(stateStoreId.storeCheckpointLocation(), hadoopConf)
    folder.localPath.foreach(Mounts.warnOf)
    pool = new InstancePool(folder)
    maintenance = new Maintenance(folder, settings.segmentBytes, conf.minVersionsToRetain, conf.minDeltasForSnapshot,
      StoreSettings.deletedPerMaintenance(conf))
    register(DEFAULT_COL_FAMILY_NAME, keyStateEncoderSpec, valueSchema, useMultipleValuesPerKey, isInternal = false)
    if (settings.keyDirectories && !isOrdered(Format.DefaultFamily)) {
      directories = folder.derivedFiles.map(new KeyDirectories(folder, _, id_.toString, settings.checkDirectories))
    }
    replicas = openedHere
    LoadRate.stores.incrementAndGet()
  }

  private def openedHere: Option[(ReplicaHost, OwnedStore)] = for {
    host <- ReplicaHost.ofProcess if !StoreSettings.isClosedOnCommit(conf)
    runId <- Option(hadoopConf.get(CecStateStoreProvider.RunId))
  } yield {
    val store = new OwnedStore(StoreKey(id_), runId, codecs.get(DEFAULT_COL_FAMILY_NAME).isOrdered, settings.replicas, () => pool.giveUp(), settings.memory)
    host.opened(store, hadoopConf)
    (host, store)
  }

  private[cecstore] def owned: Option[OwnedStore] = replicas.map(_._2)

  override def stateStoreId: StateStoreId = id_

  override def close(): Unit = {
    LoadRate.stores.decrementAndGet()
    val kept = pool.close()
    if (replicas.isEmpty) kept.foreach(_.state.letGo())
    replicas.foreach { case (host, store) => host.closed(store, kept) }
  }

  private[cecstore] def codec(name: String): Option[FamilyCodec] = Option(codecs.get(name))

  /** Make a family known; each batch declares its families anew. Gives whether it was not known like this. */
  private[cecstore] def register(
      name: String, spec: KeyStateEncoderSpec, valueSchema: StructType, isMultiple: Boolean, isInternal: Boolean): Boolean = {
    val kind = FamilyKind(name, spec, valueSchema, useColumnFamilies, isMultiple, isInternal)
    val isNew = !codec(name).exists(_.kind == kind)
    if (isNew) codecs.put(name, new FamilyCodec(kind, encoding))
    isNew
  }

  /**
   * Spark's own, whose keys no metric counts: indexes of timers and of times to live, a join's numbers of values. Those
   * of a variable that the query does not have any more are known by their names alone.
   */
  private[cecstore] def isInternal(name: String): Boolean = name.startsWith("$") || codec(name).exists(_.isInternal)

  private[cecstore] def checkFamilyName(name: String, operation: String): Unit = {
    if (name != DEFAULT_COL_FAMILY_NAME && !useColumnFamilies) {
      throw StateStoreErrors.unsupportedOperationException(operation, "column families (this store was made without)")
    }
    if (name.isEmpty || name.trim != name) throw StateStoreErrors.cannotUseColumnFamilyWithInvalidName(operation, name)
  }

  override def getStore(version: Long, uniqueId: Option[String], forceSnapshotOnCommit: Boolean, loadEmpty: Boolean): StateStore =
    open(version, uniqueId, isReadOnly = false, loadEmpty)

  override def getReadStore(version: Long, uniqueId: Option[String]): ReadStateStore =
    new WrappedReadStateStore(open(version, uniqueId, isReadOnly = true, loadEmpty = false))

  private def open(version: Long, uniqueId: Option[String], isReadOnly: Boolean, loadEmpty: Boolean): CecStateStore = {
    if (version < 0) throw QueryExecutionErrors.unexpectedStateStoreVersion(version)
    val id = if (hasCheckpointIds && version > 0) uniqueId else None
    val task = Option(TaskContext.get())
    val owner = task.map(_.taskAttemptId()).getOrElse(-Thread.currentThread.getId)
    val (instance, isNew) = pool.take(owner, version, id, isUsable = !loadEmpty)(reload(version, id, loadEmpty))
    val generation = instance.generation
    if (isNew) task.foreach(_.addTaskCompletionListener[Unit](_ => pool.giveBack(owner, instance, generation)))
    if (!isReadOnly) try instance.begin() catch { case e: Throwable =>
      if (task.isEmpty) pool.release(owner, instance, generation)
      throw e
    }
    val onEnd = if (task.nonEmpty) () => () else () => pool.release(owner, instance, generation)
    val store = new CecStateStore(this, instance, version, isReadOnly, id, task.nonEmpty, onEnd)
    if (!isReadOnly) task.foreach { task => JoinStores.opened(task, store); JointCommits.opened(task, store) }
    store
  }

  /** Which rows the task's operator looks for in a scan of this version. */
  private[cecstore] def hint(version: Long): Option[ScanHint] = for {
    task <- Option(TaskContext.get())
    runId <- Option(hadoopConf.get(CecStateStoreProvider.RunId))
    text <- Option(task.getLocalProperty(ScanHint.nameFor(runId, id_.operatorId, id_.storeName)))
    hint <- ScanHint.parse(text) if hint.version == version
  } yield hint

  /** Where rows of this store have the time that a hint speaks of. */
  private[cecstore] def timeOf(hint: ScanHint): Option[RowTime] =
    if (codecs.get(DEFAULT_COL_FAMILY_NAME).isPlain(ofKeys = hint.isInKey)) {
      TimePlace.at(hint, if (hint.isInKey) keySchema else valueSchema)
    } else None

  private[cecstore] def schemaOfKeys: StructType = keySchema

  /** The same state once more, for a reader alone: its task's writer has gone on. */
  private[cecstore] def loadAgain(version: Long, base: Base): Instance =
    reload(version, Option.when(!base.isEmpty)(base.uniqueId), loadEmpty = base.isEmpty)

  private def reload(version: Long, uniqueId: Option[String], loadEmpty: Boolean): Instance =
    LoadErrors.asSparks(folder)(loadWhileItChanges(version, uniqueId, loadEmpty))

  /** Maintenance merges and forgets segments while a load reads them: then it looks again. */
  private def loadWhileItChanges(version: Long, uniqueId: Option[String], loadEmpty: Boolean): Instance = {
    val seen = folder.list()
    try load(version, uniqueId, loadEmpty) catch {
      case _: CecLogException | _: FileNotFoundException if !folder.list().sameElements(seen) =>
        loadWhileItChanges(version, uniqueId, loadEmpty)
      case e: CecLogException => throw VersionErrors.withOldestKept(e, folder, version, uniqueId.nonEmpty)
    }
  }

  private def load(version: Long, uniqueId: Option[String], loadEmpty: Boolean): Instance = Using.resource(new StateLog(folder)) { log =>
    val started = System.nanoTime()
    if (version == 0 || loadEmpty) newInstance(log, StateLoader.empty(isOrdered, settings.memory), Base.empty(version), 0, 0, isFromReplica = false)
    else {
      val last = VersionErrors.explained(log, version)(log.find(version, uniqueId))
      val instance = takenOver(log, last, started).orElse(byDirectory(log, last, started)).getOrElse {
        val state = VersionErrors.explained(log, version)(StateLoader.load(log, last, isOrdered, id_.toString, settings.memory))
        val ms = CecStateStoreProvider.msSince(started)
        LoadRate.measured(state.loadCostRecords, ms)
        sayLoaded(version, state, last.header.extentRecords, ms)
        newInstance(log, state, Base.at(last), last.header.extentRecords, ms, isFromReplica = false)
      }
      maintenance.loaded(version)
      owned.foreach(_.loaded(instance.base, LoadFigures(version, instance.isFromReplica, instance.loadedRecords, instance.loadMs)))
      instance
    }
  }

  private def isOrdered(family: Int): Boolean = family == Format.DefaultFamily && codecs.get(DEFAULT_COL_FAMILY_NAME).isOrdered

  /** By a key directory beside the log, if there is one that leads to this frame. */
  private def byDirectory(log: StateLog, last: FrameAt, started: Long): Option[Instance] =
    for (all <- directories; (state, records) <- all.load(log, last, settings.memory)) yield {
      val ms = CecStateStoreProvider.msSince(started)
      logInfo(s"cec: loaded version ${last.header.inputUpto} of $id_ by its key directory: ${state.openWindows} windows, $records records in $ms ms")
      newInstance(log, state, Base.at(last), records, ms, isFromReplica = false)
    }

  /** From a replica in this process, if there is one that leads to this frame: only what it lacks is read. */
  private def takenOver(log: StateLog, last: FrameAt, started: Long): Option[Instance] =
    for ((host, store) <- replicas; taken <- host.take(store.key, log, last)) yield {
      val ms = CecStateStoreProvider.msSince(started)
      logInfo(s"cec: took version ${taken.base.version} of $id_ from a replica at version ${taken.wasAt}: ${taken.frames} frames, " +
        s"${taken.records} records in $ms ms")
      newInstance(log, taken.state, taken.base, taken.records, ms, isFromReplica = true)
    }

  private def target: ExtentTarget = settings.target.copy(hasDirectories = directories.nonEmpty)

  private def sayLoaded(version: Long, state: LiveState, records: Long, ms: Long): Unit = {
    val what = s"cec: loaded version $version of $id_: ${state.openWindows} windows from $records records " +
      s"(${state.extentBytes} bytes of the log) in $ms ms"
    val target = settings.target
    if (!target.isSlow(records, ms)) logInfo(what)
    else logWarning(s"$what. For shorter restarts use more partitions, or ${if (target.recoveryTimeMs.isEmpty) "set" else "lower"} ${Settings.Prefix}recoveryTimeMs")
  }

  private def newInstance(log: StateLog, state: LiveState, base: Base, loadedRecords: Long, loadMs: Long,
      isFromReplica: Boolean): Instance = {
    val clockUs = () => System.currentTimeMillis() * 1000
    val writer = new SegmentWriter(
      folder, settings.segmentBytes, settings.isSynced, !hasCheckpointIds, log.highestOrdinal, CecStateStoreProvider.random, clockUs)
    new Instance(state, base, writer, target, settings.checkTimeMs, settings.compressionLevel, clockUs, loadedRecords, loadMs,
      isFromReplica)
  }

  /** Commit the version; `together` with others that the task makes, where it has some. */
  private[cecstore] def commit(instance: Instance, version: Long, together: Option[JointCommits]): Unit = {
    val waiting = instance.commit(version, mayWait = together.nonEmpty)
    together.fold(committed(instance, version))(_.add(id_, waiting, () => committed(instance, version)))
  }

  private def committed(instance: Instance, version: Long): Unit = {
    maintenance.committed(instance.base, instance.grows)
    directories.foreach(_.committed(instance.base, instance.state, instance.grows, target))
    owned.foreach(_.committed(instance.base, instance.state.openWindows, instance.state.memoryBytes))
    StoreSettings.report(conf, version, id_, hadoopConf)
    tellSnapshot(version)
    if (!hasWarned) target.unmet(instance.state.openWindows).foreach { why =>
      hasWarned = true
      logWarning(s"cec: a restart of $id_ cannot meet its target: $why. A restart reads little more than the keys " +
        "instead. Use more partitions, or allow a longer recovery time")
    }
  }

  /** As often as Spark's own stores make snapshots: the driver asks no more of any store, and most commits send nothing. */
  private def tellSnapshot(version: Long): Unit = if (SnapshotReports.areAsked(conf)) {
    val isDue = toldVersion.forall(told => version < told || version - told >= conf.minDeltasForSnapshot)
    for (runId <- Option(hadoopConf.get(CecStateStoreProvider.RunId)) if isDue) {
      SnapshotReports.tell(id_, runId, version)
      toldVersion = Some(version)
    }
  }

  private[cecstore] def maintenanceFailures: Long = maintenance.failures
  private[cecstore] def hasCheckpointIds: Boolean = conf.enableStateStoreCheckpointIds

  /** Spark's own check that the rows read fit the schema; once, on the first. */
  private[cecstore] def validated(key: UnsafeRow, value: UnsafeRow): UnsafeRow = {
    if (!isValidated && !useColumnFamilies) {
      StoreErrors.checkRow(key, keySchema, value, valueSchema, id_, conf)
      isValidated = true
    }
    value
  }

  override def doMaintenance(): Unit = { doSnapshotMaintenance(); doCleanupMaintenance() }
  override def doSnapshotMaintenance(): Unit = { maintenance.merge(); directories.foreach(_.maintain()) }
  override def doCleanupMaintenance(): Unit = {
    val gone = maintenance.forget()
    directories.foreach(_.forgotten(gone))
  }

  override def supportedCustomMetrics: Seq[StateStoreCustomMetric] = {
    // The driver asks when it plans the query: the first moment to refuse settings that make no sense.
    Settings.parse(SQLConf.get.getAllConfs).checkPlugin()
    CecMetrics.all
  }

  override def replayStateFromSnapshot(snapshotVersion: Long, endVersion: Long, readOnly: Boolean,
      snapshotVersionStateStoreCkptId: Option[String], endVersionStateStoreCkptId: Option[String]): StateStore = {
    // Any version is rebuilt exactly; that the one to start from exists is what is left of the question.
    if (snapshotVersion > 0) LoadErrors.asSparks(folder)(Using.resource(new StateLog(folder)) { log =>
      VersionErrors.explained(log, snapshotVersion)(log.find(snapshotVersion, snapshotVersionStateStoreCkptId))
    })
    open(endVersion, endVersionStateStoreCkptId, readOnly, loadEmpty = false)
  }

  override def getStateStoreChangeDataReader(startVersion: Long, endVersion: Long, colFamilyNameOpt: Option[String],
      endVersionStateStoreCkptId: Option[String]): NextIterator[(RecordType.Value, UnsafeRow, UnsafeRow, Long)] = {
    val name = colFamilyNameOpt.getOrElse(DEFAULT_COL_FAMILY_NAME)
    val codec = this.codec(name).getOrElse(throw StateStoreErrors.unsupportedOperationOnMissingColumnFamily("changes", name))
    val id = if (hasCheckpointIds) endVersionStateStoreCkptId else None
    LoadErrors.asSparks(folder) {
      val log = new StateLog(folder)
      try new ChangeReader(log, startVersion, endVersion, id, name, codec.ownCopy)
      catch { case e: Throwable => log.close(); throw e }
    }
  }
}

private[cecstore] object CecStateStoreProvider {
  private val random = new SecureRandom
  /** Under this name Spark puts the run of a query into the settings that its stores get. */
  private val RunId = "sql.streaming.runId"
  private def msSince(started: Long): Long = (System.nanoTime() - started) / 1000000
}
