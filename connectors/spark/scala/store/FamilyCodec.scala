package org.apache.spark.sql.cecstore.store

import java.util.concurrent.ConcurrentLinkedQueue
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.Rows
import org.apache.spark.sql.cecstore.sparks.Encoders
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.Platform

/** Bytes that are about to be looked up or put; the array may be used again. */
private[cecstore] final class ReusedBytes {
  var array = new Array[Byte](64)
  var length = 0

  def set(bytes: Array[Byte]): ReusedBytes = { array = bytes; length = bytes.length; this }

  /** As [[UnsafeRowDataEncoder]] writes a row: a version byte, then the row. */
  def set(row: UnsafeRow): ReusedBytes = {
    val size = row.getSizeInBytes + 1
    if (array.length < size) array = new Array[Byte](math.min(size * 2L, Int.MaxValue - 64L).toInt)
    array(0) = RocksDBStateStoreProvider.STATE_ENCODING_VERSION
    Platform.copyMemory(row.getBaseObject, row.getBaseOffset, array, Platform.BYTE_ARRAY_OFFSET + 1, size - 1)
    length = size
    this
  }
}

/** A column family as Spark declares it. */
private[cecstore] final case class FamilyKind(
    name: String, spec: KeyStateEncoderSpec, valueSchema: StructType, useColumnFamilies: Boolean, isMultiple: Boolean,
    isInternal: Boolean = false)

/**
 * Keys and values of one column family to bytes and back, by Spark's own encoders: that keeps the order of
 * prefix and range scans. Plain rows take a short way to the same bytes. Encoders use their rows and arrays
 * again, so each open store has its own copy.
 */
private[cecstore] final class FamilyCodec(val kind: FamilyKind, encoding: RowEncoding, original: Option[FamilyCodec] = None) {
  import kind.{name, spec, useColumnFamilies, valueSchema}

  // Made when first needed: the original, of which only copies are used, needs none.
  private lazy val data = encoding.encoder(name, spec, valueSchema)
  private lazy val keyEncoder = RocksDBStateEncoder.getKeyEncoder(data, spec, useColumnFamilies)
  private lazy val valueEncoder = Encoders.ofValues(data, valueSchema, isMultiple)
  private val idle = new ConcurrentLinkedQueue[FamilyCodec]
  private val isPlainKey = encoding.isPlain && spec.isInstanceOf[NoPrefixKeyStateEncoderSpec]
  private val key = new ReusedBytes
  private val value = new ReusedBytes

  def isMultiple: Boolean = kind.isMultiple
  def isInternal: Boolean = kind.isInternal

  def ownCopy: FamilyCodec = Option(idle.poll()).getOrElse(new FamilyCodec(kind, encoding, Some(this)))

  /**
   * Let another store have this copy, which nobody uses any more. Spark makes an encoder of Avro in tens of milliseconds,
   * since it reads Hadoop's configuration for each.
   */
  def giveBack(): Unit = if (!encoding.isPlain) original.foreach(_.idle.add(this))

  val isOrdered: Boolean = !spec.isInstanceOf[NoPrefixKeyStateEncoderSpec]
  /** Whether keys, or values, are Spark's rows byte for byte. */
  def isPlain(ofKeys: Boolean): Boolean = if (ofKeys) isPlainKey else encoding.isPlain && !isMultiple
  def supportsPrefixScan: Boolean = keyEncoder.supportPrefixKeyScan
  def supportsRangeScan: Boolean = Encoders.supportsRangeScan(keyEncoder)
  def supportsDeleteRange: Boolean = Encoders.supportsDeleteRange(keyEncoder)

  def keyOf(row: UnsafeRow): ReusedBytes = if (isPlainKey) key.set(row) else key.set(keyEncoder.encodeKey(row))
  def prefixOf(row: UnsafeRow): Array[Byte] = keyEncoder.encodePrefixKey(row)
  def boundOf(row: UnsafeRow): Array[Byte] = keyEncoder.encodeKey(row)
  def valueOf(row: UnsafeRow): ReusedBytes = if (encoding.isPlain) value.set(row) else value.set(data.encodeValue(row))

  def encoded(row: UnsafeRow): Array[Byte] = valueEncoder.encodeValue(row)

  def newKeyRow: UnsafeRow = new UnsafeRow(spec.keySchema.length)
  def newValueRow: UnsafeRow = new UnsafeRow(valueSchema.length)

  /** The key as a message can name it. */
  def shown(key: UnsafeRow): String = key.toSeq(spec.keySchema).mkString("[", ",", "]").take(200)

  /** The key of a row; a plain one is pointed at where it lies in the heap, or at a copy: never into a file. */
  def decodeKey(rows: Rows, row: Int, into: UnsafeRow): UnsafeRow =
    if (!isPlainKey) decodeKey(rows.key(row), into)
    else pointed(rows.keyArray(row), rows.keyFrom(row), rows.keyLength(row), into)

  def decodeValue(rows: Rows, row: Int, into: UnsafeRow): UnsafeRow =
    if (encoding.isPlain) pointed(rows.valueArray(row), rows.valueFrom(row), rows.valueLength(row), into)
    else owned(data.decodeValue(rows.value(row)), into)

  /** Of a family with several values per key, from the bytes that [[encoded]] made and a list joined. */
  def decodeFirst(values: Array[Byte]): UnsafeRow = valueEncoder.decodeValue(values)
  def decodeValues(values: Array[Byte]): Iterator[UnsafeRow] = valueEncoder.decodeValues(values)

  /** The key in bytes that stand alone. */
  def decodeKey(bytes: Array[Byte], into: UnsafeRow): UnsafeRow =
    if (isPlainKey) pointed(bytes, 0, bytes.length, into)
    else if (encoding.isPlain) keyEncoder.decodeKey(bytes)
    else owned(keyEncoder.decodeKey(bytes), into)

  private def pointed(bytes: Array[Byte], start: Int, length: Int, into: UnsafeRow): UnsafeRow = {
    into.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET + start + 1L, length - 1)
    into
  }

  /** A decoder of Avro makes every row in one buffer: what a scan shows must outlast a look-up beside it. */
  private def owned(row: UnsafeRow, into: UnsafeRow): UnsafeRow = {
    val copy = row.copy()
    into.pointTo(copy.getBaseObject, copy.getBaseOffset, copy.getSizeInBytes)
    into
  }
}

/** How the rows of a store become bytes, as `spark.sql.streaming.stateStore.encodingFormat` says; by Spark's own encoders. */
private[cecstore] sealed trait RowEncoding extends Serializable {
  /** Whether the bytes are a version byte and the row as it lies in memory, which can be read in place. */
  def isPlain: Boolean

  /** An encoder of one column family. It uses its rows again, and serves one thread. */
  def encoder(family: String, keys: KeyStateEncoderSpec, values: StructType): RocksDBDataEncoder
}

private[cecstore] object RowEncoding {
  private val Avro = "avro"

  /**
   * The encoding of a store that Spark has given these schemas. It gives them to `transformWithState` alone, and refuses
   * Avro for other operators when it checks the plan. Where that check is turned off, those keep plain rows: without a
   * schema no row could be decoded.
   */
  def of(conf: StateStoreConf, schemas: Option[StateSchemaProvider]): RowEncoding = schemas match {
    case Some(known) if conf.stateStoreEncodingFormat == Avro => AvroRows(known)
    case _ => PlainRows
  }
}

private[cecstore] case object PlainRows extends RowEncoding {
  override def isPlain: Boolean = true
  override def encoder(family: String, keys: KeyStateEncoderSpec, values: StructType): RocksDBDataEncoder =
    new UnsafeRowDataEncoder(keys, values)
}

/** Each value begins with the number of the schema that it was written with, and is decoded into the newest one. */
private[cecstore] final case class AvroRows(schemas: StateSchemaProvider) extends RowEncoding {
  override def isPlain: Boolean = false
  override def encoder(family: String, keys: KeyStateEncoderSpec, values: StructType): RocksDBDataEncoder =
    new AvroStateEncoder(keys, values, Some(new NamedSchemas(schemas)), family)
}

/** Spark's schemas, of which one that is missing is named. */
private[store] final class NamedSchemas(schemas: StateSchemaProvider) extends StateSchemaProvider {
  override def getCurrentStateSchemaId(family: String, isKey: Boolean): Short = schemas.getCurrentStateSchemaId(family, isKey)

  override def getSchemaMetadataValue(key: StateSchemaMetadataKey): StateSchemaMetadataValue =
    try schemas.getSchemaMetadataValue(key) catch {
      case _: NoSuchElementException => throw new CecLogException(
        s"a ${if (key.isKey) "key" else "value"} of the column family ${key.colFamilyName} was written with schema ${key.schemaId}, which no " +
          "schema file of the query's last run has: restore the folder _stateSchema of the operator, and its metadata, from a copy",
        named = Map("family" -> key.colFamilyName, "schema" -> key.schemaId.toString))
    }
}
