package org.apache.spark.sql.cecstore.moving

import java.util.UUID
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.{InterruptibleIterator, TaskContext}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._

/** Where a job reads or writes: a checkpoint, and how its stores are set. */
private[moving] final case class Side(checkpoint: String, version: Long, conf: StateStoreConf) {
  def provider(kind: StoreKind, partition: Int, hadoopConf: Configuration): StateStoreProvider = {
    val id = StateStoreId(s"$checkpoint/state", kind.operator, partition, kind.store)
    val default = kind.default
    StateStoreProvider.createAndInit(StateStoreProviderId(id, UUID.randomUUID()), default.key, default.value, default.spec,
      kind.hasFamilies, conf, hadoopConf, useMultipleValuesPerKey = false, kind.schemas)
  }
}

/** A row of state on its way; the one object serves all of an iterator. */
private[moving] final class MovedRow {
  var family = 0
  var key: UnsafeRow = _
  var value: UnsafeRow = _

  def set(family: Int, key: UnsafeRow, value: UnsafeRow): MovedRow = {
    this.family = family
    this.key = key
    this.value = value
    this
  }
}

private[moving] object OpenedStore {
  private def register(store: StateStore, kind: StoreKind): Unit = kind.families.filter(!_.isDefault).foreach(family =>
    store.createColFamilyIfAbsent(family.name, family.key, family.value, family.spec, family.isList, family.isInternal))

  /** All rows of one store, to be read by this task; a list has a row for each of its values, in their order and behind each other. */
  def rows(side: Side, kind: StoreKind, partition: Int, uniqueId: Option[String], hadoopConf: Configuration): Iterator[MovedRow] = {
    val provider = side.provider(kind, partition, hadoopConf)
    atEnd(provider.close())
    if (kind.hasFamilies) {
      // Families can be made known to a store for writing alone; what it was told is taken back.
      val store = provider.getStore(side.version, uniqueId)
      atEnd(store.abort())
      register(store, kind)
      requireAllKnown(store, kind, partition)
      rows(store, kind)
    } else {
      val store = provider.getReadStore(side.version, uniqueId)
      atEnd(store.release())
      rows(store, kind)
    }
  }

  /** Spark keeps these beside a variable, whose name follows: numbers of a list's values, and three for times to live. */
  private val BesideVariables = Seq("$rowCounter_", "$ttl_", "$min_", "$count_")

  /** True for a family that `deleteIfExists` has left: it takes the variable's own away and no other. Alone they say nothing. */
  private def isLeft(family: String, present: collection.Set[String]): Boolean =
    BesideVariables.exists(prefix => family.startsWith(prefix) && !present.contains(family.stripPrefix(prefix)))

  /** A variable that the query has had once keeps its state, and has it again when it is declared again. */
  private def requireAllKnown(store: StateStore, kind: StoreKind, partition: Int): Unit = {
    val present = store.allColumnFamilyNames
    val others = (present -- kind.families.map(_.name) - StateStore.DEFAULT_COL_FAMILY_NAME).filterNot(isLeft(_, present))
    if (others.nonEmpty) throw new Refused(s"operator ${kind.operator} (${kind.operatorName}): partition $partition has state of " +
      s"${others.toSeq.sorted.mkString(", ")}, which the query has not declared in its last run, so that Spark says nothing of its kind. " +
      "Run a batch of the query in which it is declared, or one that takes it away by deleteIfExists, and stop it")
  }

  /** The last that was asked for is done first. */
  private def atEnd(action: => Unit): Unit = TaskContext.get().addTaskCompletionListener[Unit](_ => action)

  private def rows(store: ReadStateStore, kind: StoreKind): Iterator[MovedRow] = {
    val row = new MovedRow
    kind.families.iterator.zipWithIndex.flatMap { case (family, number) =>
      if (family.isList) store.iterator(family.name).flatMap(pair =>
        store.valuesIterator(pair.key, family.name).map(row.set(number, pair.key, _)))
      else store.iterator(family.name).map(pair => row.set(number, pair.key, pair.value))
    }
  }

  /** Make one store of these rows and no others; gives their number, and what checkpoint format V2 calls it. */
  def write(side: Side, kind: StoreKind, partition: Int, hadoopConf: Configuration, rows: Iterator[MovedRow]): (Long, Option[String]) = {
    val provider = side.provider(kind, partition, hadoopConf)
    try provider match {
      // It cannot begin at a version: the first one is made, and called as that which is wanted.
      case _: HDFSBackedStateStoreProvider =>
        val made = filled(provider.getStore(0, None, forceSnapshotOnCommit = true), kind, rows)
        rename(side, provider.stateStoreId, hadoopConf)
        made
      case _ => filled(provider.getStore(side.version - 1, None, forceSnapshotOnCommit = true, loadEmpty = true), kind, rows)
    } finally provider.close()
  }

  private def filled(store: StateStore, kind: StoreKind, rows: Iterator[MovedRow]): (Long, Option[String]) =
    try {
      register(store, kind)
      val lists = new ListWriter(store, kind)
      var count = 0L
      // A task that is to end because another has failed must not go on writing where all is being taken away.
      val task = TaskContext.get()
      new InterruptibleIterator(task, rows).foreach { row =>
        if (kind.families(row.family).isList) lists.put(row)
        else store.put(row.key, row.value, kind.families(row.family).name)
        count += 1
      }
      lists.flush()
      task.killTaskIfInterrupted()
      store.commit()
      (count, store.getStateStoreCheckpointInfo().stateStoreCkptId)
    } finally if (!store.hasCommitted) store.abort()

  private def rename(side: Side, id: StateStoreId, hadoopConf: Configuration): Unit = {
    val folder = id.storeCheckpointLocation()
    val files = folder.getFileSystem(hadoopConf)
    files.listStatus(folder).map(_.getPath).filter(_.getName.startsWith("1.")).foreach { path =>
      val suffix = path.getName.drop(1)
      if (suffix.startsWith(".delta")) files.delete(path, false)
      else if (side.version != 1) {
        val wanted = new Path(folder, s"${side.version}$suffix")
        files.delete(wanted, false) // of an attempt that has failed
        if (!files.rename(path, wanted)) throw new java.io.IOException(s"$path cannot be renamed to $wanted")
      }
    }
  }
}

/** Puts lists together again, a piece at a time. */
private[moving] final class ListWriter(store: StateStore, kind: StoreKind) {
  private val values = collection.mutable.ArrayBuffer.empty[UnsafeRow]
  private var bytes = 0L
  private var family = -1
  private var key: UnsafeRow = _

  def put(row: MovedRow): Unit = {
    val isSame = row.family == family && row.key == key
    if (!isSame || bytes > ListWriter.PieceBytes) flush()
    if (!isSame) { family = row.family; key = row.key.copy() }
    values += row.value.copy()
    bytes += row.value.getSizeInBytes
  }

  def flush(): Unit = if (values.nonEmpty) {
    val name = kind.families(family).name
    if (store.keyExists(key, name)) store.mergeList(key, values.toArray, name)
    else store.putList(key, values.toArray, name)
    values.clear()
    bytes = 0
  }
}

private[moving] object ListWriter {
  private val PieceBytes = 1L << 20
}
