package org.apache.spark.sql.cecstore.store

import java.util.Locale
import scala.collection.mutable
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.cecstore.{CecLogException, CecStateStoreProvider}
import org.apache.spark.sql.cecstore.format.Format
import org.apache.spark.sql.cecstore.keys.{KeyIndex, OrderedIndex}
import org.apache.spark.sql.cecstore.log.{Base, JoinNames}
import org.apache.spark.sql.cecstore.sparks.{NewestStore, PartitionMetrics, Seeking}
import org.apache.spark.sql.cecstore.state.{FamilyNumbers, Instance, LiveState, RowTime, StateView}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/**
 * One version of one store, open to a task. Checks the rules of use that Spark's RocksDB provider checks. A thread
 * of the task that comes late, after its end, is refused: another task may own the state by then. A reader sees
 * its version whatever a writer of the same task does.
 */
private[cecstore] final class CecStateStore(
    provider: CecStateStoreProvider, opened: Instance, override val version: Long, isReadOnly: Boolean,
    baseUniqueId: Option[String], isInTask: Boolean, onEnd: () => Unit) extends NewestStore {
  import KeyIndex.Absent
  import StateStore.DEFAULT_COL_FAMILY_NAME

  private object Stage extends Enumeration { val Updating, Committed, Ended = Value }
  import Stage._
  @volatile private var stage = Updating
  private var instance = opened
  private var generation = opened.generation
  private var base = opened.base
  private var view = new StateView(opened.state, isReadOnly)
  private var numbers = new FamilyNumbers(view)
  private val pair = new UnsafeRowPair
  private val families = mutable.Map.empty[String, OpenFamily]
  private var lastName: String = null
  private var lastFamily: OpenFamily = null

  override def id: StateStoreId = provider.stateStoreId
  override def hasCommitted: Boolean = stage == Committed

  private def state: LiveState = view.state
  private def where: String = s"state of operator ${id.operatorId}, partition ${id.partitionId}, store ${id.storeName}"

  private def reading(): Unit = {
    if (stage != Updating) throw outOfOrder("read")
    if (isReadOnly && (if (instance.generation == generation) instance.base ne base else !isInTask)) readAlone()
    instance.check(generation)
  }

  /** Whoever writes beside this reader has committed: what it reads is loaded once more, for it alone. */
  private def readAlone(): Unit = {
    instance = provider.loadAgain(version, base)
    generation = instance.generation
    base = instance.base
    view = new StateView(instance.state, isReadOnly)
    numbers = new FamilyNumbers(view)
    forgetFamilies()
  }

  private def updating[A](change: => A): A = {
    if (stage != Updating || isReadOnly) throw outOfOrder("update")
    instance.exclusively(generation)(change)
  }

  private def outOfOrder(what: String) = StateStoreErrors.stateStoreOperationOutOfOrder(
    s"cannot $what state of version $version of $id after ${stage.toString.toLowerCase(Locale.ROOT)}" +
      (if (isReadOnly) " (read only)" else ""))

  /** Raises for one that is not there. */
  private def family(name: String, operation: String): OpenFamily = {
    if (name ne lastName) {
      lastFamily = families.getOrElseUpdate(name, {
        provider.checkFamilyName(name, operation)
        val found = for (codec <- provider.codec(name); number <- numbers.numberOf(name)) yield {
          if (codec.isOrdered) state.order(number)
          new OpenFamily(view, number, codec.ownCopy, numbers.chunksOf(name), where)
        }
        found.getOrElse(throw StateStoreErrors.unsupportedOperationOnMissingColumnFamily(operation, name))
      })
      lastName = name
    }
    lastFamily
  }

  override def allColumnFamilyNames: Set[String] = numbers.names

  override def createColFamilyIfAbsent(name: String, keySchema: StructType, valueSchema: StructType,
      spec: KeyStateEncoderSpec, isMultiple: Boolean, isInternal: Boolean): Unit = updating {
    provider.checkFamilyName(name, "create_col_family")
    if (!isInternal && name.startsWith("$")) throw StateStoreErrors.cannotCreateColumnFamilyWithReservedChars(name)
    if (name == DEFAULT_COL_FAMILY_NAME) throw StateStoreErrors.cannotUseColumnFamilyWithInvalidName("create_col_family", name)
    if (numbers.numberOf(name).isEmpty) numbers.add(name)
    registerColFamily(name, keySchema, valueSchema, spec, isMultiple, isInternal)
  }

  override def registerColFamily(name: String, keySchema: StructType, valueSchema: StructType,
      spec: KeyStateEncoderSpec, isMultiple: Boolean, isInternal: Boolean): Unit = {
    if (provider.register(name, spec, valueSchema, isMultiple, isInternal)) forgetFamilies()
  }

  private def forgetFamilies(): Unit = { families.clear(); lastName = null }

  override def removeColFamilyIfExists(name: String): Boolean = updating {
    provider.checkFamilyName(name, "remove")
    if (name == DEFAULT_COL_FAMILY_NAME) throw StateStoreErrors.cannotUseColumnFamilyWithInvalidName("remove_col_family", name)
    val number = numbers.numberOf(name)
    number.foreach { n =>
      (Seq(n) ++ numbers.chunksOf(name).number).foreach(m => state.live(m, _.references).foreach(removeReference(m, _)))
      numbers.remove(name)
      forgetFamilies()
    }
    number.nonEmpty
  }

  private def removeReference(number: Int, reference: Long): Unit = {
    val (rows, row) = (state.rowsOf(reference), reference.toInt)
    state.remove(number, rows.keyArray(row), rows.keyFrom(row), rows.keyLength(row))
  }

  override def get(key: UnsafeRow, name: String): UnsafeRow = {
    val (in, reference) = lookUp(key, name, "get")
    if (reference == Absent) null
    else provider.validated(key, in.value(reference, in.valueRow))
  }

  override def keyExists(key: UnsafeRow, name: String): Boolean = lookUp(key, name, "keyExists")._2 != Absent

  private def lookUp(key: UnsafeRow, name: String, operation: String): (OpenFamily, Long) = {
    reading()
    require(key != null, "Key cannot be null")
    instance.gets += 1
    val in = family(name, operation)
    (in, in.find(key))
  }

  override def multiGet(keys: Array[UnsafeRow], name: String): Iterator[UnsafeRow] = keys.iterator.map(get(_, name))

  override def valuesIterator(key: UnsafeRow, name: String): Iterator[UnsafeRow] = {
    val (in, reference) = lookUp(key, name, "valuesIterator")
    in.requireMultiple("valuesIterator")
    if (reference == Absent) Iterator.empty
    else in.values(reference).map(provider.validated(key, _))
  }

  /** @param isFull whether each row that is read counts as scanned; otherwise whoever scans counts */
  private def pairs(name: String, operation: String, isMultiple: Boolean, isFull: Boolean = false)(scan: (FamilyCodec, KeyIndex) => Iterator[Long]) = {
    reading()
    val in = family(name, operation)
    val codec = in.codec
    val (key, value) = (codec.newKeyRow, codec.newValueRow)
    val (from, readAt, counted) = (base, generation, this.counted)
    var underWay: AutoCloseable = () => ()
    def began(keys: KeyIndex): Iterator[Long] = scan(codec, keys) match {
      case ordered: AutoCloseable => underWay = ordered; ordered
      case hashed => hashed
    }
    val references = new Scan(view.live(in.number, began).map { reference =>
      if (isFull) counted.scannedRows += 1
      reference
    }, from, readAt)
    val state = this.state
    val found = if (isMultiple) {
      in.requireMultiple(operation)
      references.flatMap { reference =>
        val (rows, row) = (state.rowsOf(reference), reference.toInt)
        val keyRow = codec.decodeKey(rows, row, key)
        in.values(reference).map(value => pair.withRows(keyRow, provider.validated(keyRow, value)))
      }
    } else references.map { reference =>
      val (rows, row) = (state.rowsOf(reference), reference.toInt)
      val keyRow = codec.decodeKey(rows, row, key)
      new UnsafeRowPair().withRows(keyRow, provider.validated(keyRow, in.value(reference, value)))
    }
    new StateStoreIterator(found, () => { references.end(); underWay.close() })
  }

  /**
   * Raises where what it runs over is not there any more: the version was committed or given up, and its rows have other
   * places. One that is through may be asked again at any time.
   */
  private final class Scan(references: Iterator[Long], from: Base, readAt: Long) extends Iterator[Long] {
    private var isOver = false

    override def hasNext: Boolean = !isOver && {
      goingOn()
      isOver = !references.hasNext
      !isOver
    }

    override def next(): Long = {
      if (!isOver) goingOn()
      references.next()
    }

    def end(): Unit = isOver = true

    private def goingOn(): Unit = {
      instance.check(readAt)
      if (stage != Updating || isReadOnly && (instance.base ne from)) throw outOfOrder("go on with an iterator over")
    }
  }

  /** Where the batch's plan says which rows its operator looks for, those alone: it tests each of them itself. */
  override def iterator(name: String): StateStoreIterator[UnsafeRowPair] = dueRows(name) match {
    case Some(due) =>
      counted.narrowedScans += 1
      pairs(name, "iterator", isMultiple = false)((_, keys) => due(keys))
    case None => pairs(name, "iterator", isMultiple = false, isFull = true)((_, keys) => keys.references)
  }

  private def dueRows(name: String): Option[KeyIndex => Iterator[Long]] =
    for (hint <- if (isReadOnly || name != DEFAULT_COL_FAMILY_NAME || stage != Updating) None else provider.hint(version);
         due <- if (JoinNames.countsRows(id.storeName) && !hint.isInKey) dueKeys(hint) else due(hint))
      yield due

  private def due(hint: ScanHint): Option[KeyIndex => Iterator[Long]] = provider.timeOf(hint).map(time => _ => due(time, hint.boundUs))

  private def due(time: RowTime, boundUs: Long): Iterator[Long] = {
    val counted = this.counted
    state.notAfter(time, boundUs, () => counted.scannedRows += 1)
  }

  /** Of the keys of which this store counts the rows, those that have one that is due. */
  private def dueKeys(hint: ScanHint): Option[KeyIndex => Iterator[Long]] =
    JoinStores.rowsOf(this).flatMap(_.dueRowsBeside(family(DEFAULT_COL_FAMILY_NAME, "iterator"), state, hint))

  /** To a store that counts the rows of this one: the counts that have rows which are due. */
  private def dueRowsBeside(counts: OpenFamily, countsAt: LiveState, hint: ScanHint): Option[KeyIndex => Iterator[Long]] = {
    reading()
    val codec = family(DEFAULT_COL_FAMILY_NAME, "iterator").codec
    for (time <- provider.timeOf(hint) if codec.isPlain(ofKeys = true)) yield keys =>
      new DueKeys(new Scan(due(time, hint.boundUs), base, generation), state, provider.schemaOfKeys, codec, counts, countsAt, () => keys.references)
  }

  /** The store whose figures tell of a scan: those of one that counts a join's rows nobody shows. */
  private def counted: Instance = JoinStores.rowsOf(this).fold(instance)(_.instance)

  override def iteratorWithMultiValues(name: String): StateStoreIterator[UnsafeRowPair] =
    pairs(name, "iteratorWithMultiValues", isMultiple = true, isFull = true)((_, keys) => keys.references)

  override def reusableIterator(name: String): Seeking[UnsafeRowPair] = new SeekingIterator(prefix =>
    pairs(name, "reusableIterator", isMultiple = false)((codec, keys) => prefix.fold(keys.references)(row =>
      keys.asInstanceOf[OrderedIndex].between(codec.prefixOf(row), null))))

  override def prefixScan(prefix: UnsafeRow, name: String): StateStoreIterator[UnsafeRowPair] =
    pairs(name, "prefixScan", isMultiple = false)(startingWith(prefix))

  override def prefixScanWithMultiValues(prefix: UnsafeRow, name: String): StateStoreIterator[UnsafeRowPair] =
    pairs(name, "prefixScanWithMultiValues", isMultiple = true)(startingWith(prefix))

  private def startingWith(prefix: UnsafeRow)(codec: FamilyCodec, keys: KeyIndex): Iterator[Long] = {
    require(codec.supportsPrefixScan, "Prefix scan requires setting prefix key!")
    keys.asInstanceOf[OrderedIndex].startingWith(codec.prefixOf(prefix))
  }

  override def rangeScan(start: Option[UnsafeRow], end: Option[UnsafeRow], name: String): StateStoreIterator[UnsafeRowPair] =
    pairs(name, "rangeScan", isMultiple = false)(between(start, end))

  override def rangeScanWithMultiValues(start: Option[UnsafeRow], end: Option[UnsafeRow], name: String): StateStoreIterator[UnsafeRowPair] =
    pairs(name, "rangeScanWithMultiValues", isMultiple = true)(between(start, end))

  private def between(start: Option[UnsafeRow], end: Option[UnsafeRow])(codec: FamilyCodec, keys: KeyIndex): Iterator[Long] = {
    require(codec.supportsRangeScan, "Range scan requires a range scan encoder!")
    keys.asInstanceOf[OrderedIndex].between(start.map(codec.boundOf).orNull, end.map(codec.boundOf).orNull)
  }

  override def put(key: UnsafeRow, value: UnsafeRow, name: String): Unit = updating {
    require(key != null, "Key cannot be null")
    require(value != null, "Cannot put a null value")
    val in = family(name, "put")
    checkSize(in, key, value.getSizeInBytes)
    instance.puts += 1
    in.put(key, value)
  }

  /** Before anything is encoded: the bytes may be more than the heap has. */
  private def checkSize(in: OpenFamily, key: UnsafeRow, valueBytes: Long): Unit = {
    val bytes = key.getSizeInBytes + valueBytes
    if (bytes > Format.RowBytesMax) throw new CecLogException(
      s"$where: the key ${in.codec.shown(key)} " +
        s"and its value have $bytes bytes; a row of a state log can have ${Format.RowBytesMax}. Let the key keep less, " +
        "or split its state over several keys", named = Map("key" -> in.codec.shown(key).toString, "bytes" -> bytes.toString))
  }

  override def putList(key: UnsafeRow, values: Array[UnsafeRow], name: String): Unit = setList(key, values, name, "putList", keep = false)
  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow], name: String): Unit = setList(key, values, name, "mergeList", keep = true)
  override def merge(key: UnsafeRow, value: UnsafeRow, name: String): Unit = setList(key, Array(value), name, "merge", keep = true)

  private def setList(key: UnsafeRow, values: Array[UnsafeRow], name: String, operation: String, keep: Boolean): Unit = updating {
    require(key != null, "Key cannot be null")
    require(values != null && !values.contains(null), s"Cannot $operation null values")
    val in = family(name, operation)
    in.requireMultiple(operation)
    checkSize(in, key, values.map(_.getSizeInBytes + 6L).sum)
    instance.puts += 1
    in.putAll(key, values, keep)
  }

  override def remove(key: UnsafeRow, name: String): Unit = updating {
    require(key != null, "Key cannot be null")
    val in = family(name, "remove")
    instance.removals += 1
    in.remove(key)
  }

  override def deleteRange(start: UnsafeRow, end: UnsafeRow, name: String): Unit = updating {
    require(start != null && end != null, "Begin and end key cannot be null")
    val in = family(name, "deleteRange")
    require(in.codec.supportsDeleteRange, "deleteRange requires a range scan encoder!")
    val keys = state.order(in.number)
    state.live(in.number, _ => keys.between(in.codec.boundOf(start), in.codec.boundOf(end))).foreach(in.remove(_: Long))
  }

  override def commit(): Long = {
    if (stage != Updating || isReadOnly) throw outOfOrder("commit")
    instance.exclusively(generation) {
      provider.commit(instance, version + 1, JointCommits.of(this))
      base = instance.base
      stage = Committed
    }
    families.values.foreach(_.codec.giveBack())
    forgetFamilies()
    onEnd()
    version + 1
  }

  override def abort(): Unit = {
    if (stage == Committed) throw outOfOrder("abort")
    if (stage == Updating && !isReadOnly) { instance.rollback(generation); JointCommits.of(this).foreach(_.leave(id)) }
    if (stage == Updating) { stage = Ended; onEnd() }
  }

  override def release(): Unit = if (isReadOnly) abort()

  override def metrics: StateStoreMetrics =
    PartitionMetrics.of(id, state.openWindows - numbers.records(provider.isInternal), state.memoryBytes,
      CecMetrics.of(instance, provider.maintenanceFailures, provider.owned), instance.extentRecords)

  override def getStateStoreCheckpointInfo(): StateStoreCheckpointInfo = StateStoreCheckpointInfo(
    id.partitionId, version + 1, Option.when(provider.hasCheckpointIds)(base.uniqueId), baseUniqueId)
}
