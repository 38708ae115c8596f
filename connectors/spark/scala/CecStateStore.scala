package org.apache.spark.sql.cecstore

import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** One version of one store, open to a task. Checks the rules of use that Spark's RocksDB provider checks. */
private[cecstore] final class CecStateStore(
    provider: CecStateStoreProvider, instance: Instance, override val version: Long, isReadOnly: Boolean,
    baseUniqueId: Option[String], onEnd: () => Unit) extends StateStore {
  import KeyIndex.Absent
  import StateStore.DEFAULT_COL_FAMILY_NAME

  private sealed trait Stage
  private case object Updating extends Stage
  private case object Committed extends Stage
  private case object Ended extends Stage
  private var stage: Stage = Updating
  private val state = instance.state
  private val pair = new UnsafeRowPair
  private val found = mutable.Map.empty[String, (Int, FamilyCodec, UnsafeRow)]
  private var lastName: String = null
  private var lastFamily: (Int, FamilyCodec, UnsafeRow) = null

  override def id: StateStoreId = provider.stateStoreId
  override def hasCommitted: Boolean = stage == Committed

  private def reading(): Unit = if (stage != Updating) throw outOfOrder("read")
  private def updating(): Unit = if (stage != Updating || isReadOnly) throw outOfOrder("update")
  private def outOfOrder(what: String) = StateStoreErrors.stateStoreOperationOutOfOrder(
    s"cannot $what state of version $version of $id after ${stage.toString.toLowerCase(java.util.Locale.ROOT)}" +
      (if (isReadOnly) " (read only)" else ""))

  // -- column families ------------------------------------------------------------------------

  /** Number, codec and a row for values of a family; raises for one that is not there. */
  private def family(name: String, operation: String): (Int, FamilyCodec, UnsafeRow) = {
    if (name eq lastName) return lastFamily
    lastFamily = found.getOrElseUpdate(name, {
      provider.checkFamilyName(name, operation)
      val codec = provider.codec(name)
      val number = if (name == DEFAULT_COL_FAMILY_NAME) Format.DefaultFamily else familyNumber(name).getOrElse(-1)
      if (codec.isEmpty || number < 0) throw StateStoreErrors.unsupportedOperationOnMissingColumnFamily(operation, name)
      val own = codec.get.ownCopy
      (number, own, own.newValueRow)
    })
    lastName = name
    lastFamily
  }

  private def familyNumber(name: String): Option[Int] = {
    val key = name.getBytes(UTF_8)
    val reference = state.find(Format.NamesFamily, key, 0, key.length)
    if (reference == Absent) None else Some(numberAt(reference))
  }

  private def numberAt(reference: Long): Int = {
    val rows = state.rowsOf(reference)
    val at = rows.valueStart(reference.toInt)
    rows.values(at) & 0xff | (rows.values(at + 1) & 0xff) << 8
  }

  private def familyNames: Map[String, Int] = state.live(Format.NamesFamily, _.references).map { reference =>
    val (rows, row) = (state.rowsOf(reference), reference.toInt)
    new String(rows.keys, rows.keyStart(row), rows.keyLength(row), UTF_8) -> numberAt(reference)
  }.toMap

  override def allColumnFamilyNames: Set[String] = familyNames.keySet + DEFAULT_COL_FAMILY_NAME

  override def createColFamilyIfAbsent(name: String, keySchema: StructType, valueSchema: StructType,
      spec: KeyStateEncoderSpec, isMultiple: Boolean, isInternal: Boolean): Unit = {
    updating()
    provider.checkNewFamilyName(name, isInternal)
    if (name == DEFAULT_COL_FAMILY_NAME) throw StateStoreErrors.cannotUseColumnFamilyWithInvalidName("create_col_family", name)
    registerColFamily(name, keySchema, valueSchema, spec, isMultiple, isInternal)
    if (familyNumber(name).isEmpty) {
      val number = (familyNames.values ++ Seq(Format.DefaultFamily)).max + 1
      val key = name.getBytes(UTF_8)
      state.put(Format.NamesFamily, key, 0, key.length, Array(number.toByte, (number >> 8).toByte), 0, 2)
      forgetFamilies()
      if (provider.codec(name).exists(_.isOrdered)) state.order(number)
    }
  }

  override def registerColFamily(name: String, keySchema: StructType, valueSchema: StructType,
      spec: KeyStateEncoderSpec, isMultiple: Boolean, isInternal: Boolean): Unit = {
    provider.register(name, spec, valueSchema, isMultiple)
    forgetFamilies()
    val number = if (name == DEFAULT_COL_FAMILY_NAME) Some(Format.DefaultFamily) else familyNumber(name)
    if (provider.codec(name).exists(_.isOrdered)) number.foreach(state.order)
  }

  private def forgetFamilies(): Unit = { found.clear(); lastName = null }

  override def removeColFamilyIfExists(name: String): Boolean = {
    updating()
    provider.checkFamilyName(name, "remove")
    if (name == DEFAULT_COL_FAMILY_NAME) throw StateStoreErrors.cannotUseColumnFamilyWithInvalidName("remove_col_family", name)
    val number = familyNumber(name)
    number.foreach { n =>
      state.live(n, _.references).foreach(removeReference(n, _))
      val key = name.getBytes(UTF_8)
      state.remove(Format.NamesFamily, key, 0, key.length)
      forgetFamilies()
    }
    number.nonEmpty
  }

  private def removeReference(number: Int, reference: Long): Unit = {
    val (rows, row) = (state.rowsOf(reference), reference.toInt)
    state.remove(number, rows.keys, rows.keyStart(row), rows.keyLength(row))
  }

  // -- reading --------------------------------------------------------------------------------

  override def get(key: UnsafeRow, name: String): UnsafeRow = {
    reading()
    require(key != null, "Key cannot be null")
    val (number, codec, row) = family(name, "get")
    val bytes = codec.keyOf(key)
    val reference = state.find(number, bytes.array, 0, bytes.length)
    if (reference == Absent) null
    else provider.validated(key, codec.decodeValue(state.rowsOf(reference), reference.toInt, row))
  }

  override def keyExists(key: UnsafeRow, name: String): Boolean = {
    reading()
    require(key != null, "Key cannot be null")
    val (number, codec, _) = family(name, "keyExists")
    val bytes = codec.keyOf(key)
    state.find(number, bytes.array, 0, bytes.length) != Absent
  }

  override def multiGet(keys: Array[UnsafeRow], name: String): Iterator[UnsafeRow] = keys.iterator.map(get(_, name))

  override def valuesIterator(key: UnsafeRow, name: String): Iterator[UnsafeRow] = {
    reading()
    require(key != null, "Key cannot be null")
    val (number, codec, _) = family(name, "valuesIterator")
    require(codec.isMultiple, "valuesIterator requires a column family that allows multiple values per key")
    val bytes = codec.keyOf(key)
    val reference = state.find(number, bytes.array, 0, bytes.length)
    if (reference == Absent) Iterator.empty else codec.decodeValues(state.rowsOf(reference), reference.toInt)
  }

  private def pairs(name: String, operation: String, isMultiple: Boolean)(scan: (FamilyCodec, KeyIndex) => Iterator[Long]) = {
    reading()
    val (number, codec, _) = family(name, operation)
    val (key, value) = (codec.newKeyRow, codec.newValueRow)
    val references = state.live(number, scan(codec, _))
    val rows = if (isMultiple) {
      require(codec.isMultiple, s"$operation requires a column family that allows multiple values per key")
      references.flatMap { reference =>
        val (in, row) = (state.rowsOf(reference), reference.toInt)
        val keyRow = codec.decodeKey(in, row, key)
        codec.decodeValues(in, row).map(pair.withRows(keyRow, _))
      }
    } else references.map { reference =>
      val (in, row) = (state.rowsOf(reference), reference.toInt)
      new UnsafeRowPair().withRows(codec.decodeKey(in, row, key), codec.decodeValue(in, row, value))
    }
    new StateStoreIterator(rows, () => ())
  }

  override def iterator(name: String): StateStoreIterator[UnsafeRowPair] =
    pairs(name, "iterator", isMultiple = false)((_, keys) => keys.references)

  override def iteratorWithMultiValues(name: String): StateStoreIterator[UnsafeRowPair] =
    pairs(name, "iteratorWithMultiValues", isMultiple = true)((_, keys) => keys.references)

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

  // -- updating -------------------------------------------------------------------------------

  override def put(key: UnsafeRow, value: UnsafeRow, name: String): Unit = {
    updating()
    require(key != null, "Key cannot be null")
    require(value != null, "Cannot put a null value")
    val (number, codec, _) = family(name, "put")
    putBytes(number, codec.keyOf(key), codec.valueOf(value))
  }

  private def putBytes(number: Int, key: Bytes, value: Bytes): Unit =
    state.put(number, key.array, 0, key.length, value.array, 0, value.length)

  override def putList(key: UnsafeRow, values: Array[UnsafeRow], name: String): Unit = setList(key, values, name, "putList", keep = false)
  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow], name: String): Unit = setList(key, values, name, "mergeList", keep = true)
  override def merge(key: UnsafeRow, value: UnsafeRow, name: String): Unit = setList(key, Array(value), name, "merge", keep = true)

  private def setList(key: UnsafeRow, values: Array[UnsafeRow], name: String, operation: String, keep: Boolean): Unit = {
    updating()
    require(key != null, "Key cannot be null")
    require(values != null && !values.contains(null), s"Cannot $operation null values")
    val (number, codec, _) = family(name, operation)
    require(codec.isMultiple, s"$operation requires a column family that allows multiple values per key")
    val bytes = codec.keyOf(key)
    val old = if (keep) state.find(number, bytes.array, 0, bytes.length) else Absent
    val before = if (old == Absent) Nil else Seq(codec.valueBytes(state.rowsOf(old), old.toInt))
    putBytes(number, bytes, codec.joined(before ++ values.map(codec.encoded)))
  }

  override def remove(key: UnsafeRow, name: String): Unit = {
    updating()
    require(key != null, "Key cannot be null")
    val (number, codec, _) = family(name, "remove")
    val bytes = codec.keyOf(key)
    state.remove(number, bytes.array, 0, bytes.length)
  }

  override def deleteRange(start: UnsafeRow, end: UnsafeRow, name: String): Unit = {
    updating()
    require(start != null && end != null, "Begin and end key cannot be null")
    val (number, codec, _) = family(name, "deleteRange")
    require(codec.supportsDeleteRange, "deleteRange requires a range scan encoder!")
    val keys = state.order(number)
    state.live(number, _ => keys.between(codec.boundOf(start), codec.boundOf(end))).foreach(removeReference(number, _))
  }

  // -- ending ---------------------------------------------------------------------------------

  override def commit(): Long = {
    if (stage != Updating || isReadOnly) throw outOfOrder("commit")
    provider.commit(instance, version + 1)
    stage = Committed
    onEnd()
    version + 1
  }

  override def abort(): Unit = {
    if (stage == Committed) throw outOfOrder("abort")
    if (stage == Updating && !isReadOnly) instance.rollback()
    if (stage == Updating) { stage = Ended; onEnd() }
  }

  override def release(): Unit = if (isReadOnly) abort()

  override def metrics: StateStoreMetrics = provider.metrics(instance, allFamilyRecords = state.keyCount(Format.NamesFamily))

  override def getStateStoreCheckpointInfo(): StateStoreCheckpointInfo =
    provider.checkpointInfo(instance, version + 1, baseUniqueId)
}
