package org.apache.spark.sql.cecstore.testing

import java.util.UUID

import org.apache.spark.sql.avro.SchemaConverters
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** The golden variables in Avro, as a store of `transformWithState` reads them. */
private[cecstore] object Variables {
  private val key = struct("k" -> StringType)
  private val first = struct("n" -> IntegerType, "gone" -> StringType)
  private val second = struct("since" -> LongType, "n" -> LongType)
  private val part = struct("amount" -> DecimalType(5, 2), "tags" -> ArrayType(StringType))
  private val partKey = struct("key" -> key, "userKey" -> struct("part" -> IntegerType))
  private val indexKey = struct("expirationMs" -> LongType, "elementKey" -> key)
  private val nothing = struct("__empty__" -> NullType)

  /** A family, with all forms of its values by their numbers. */
  private case class Kept(spec: KeyStateEncoderSpec, forms: Seq[StructType], isList: Boolean = false)
  private val families = Map(
    "count" -> Kept(NoPrefixKeyStateEncoderSpec(key), Seq(first, second)),
    "items" -> Kept(NoPrefixKeyStateEncoderSpec(key), Seq(first, second), isList = true),
    "parts" -> Kept(PrefixKeyScanStateEncoderSpec(partKey, 1), Seq(part)),
    "$ttl_count" -> Kept(RangeKeyScanStateEncoderSpec(indexKey, Seq(0)), Seq(nothing)))

  private object Schemas extends StateSchemaProvider {
    override def getCurrentStateSchemaId(family: String, isKey: Boolean): Short =
      if (isKey) 0 else (families(family).forms.size - 1).toShort
    override def getSchemaMetadataValue(asked: StateSchemaMetadataKey): StateSchemaMetadataValue = {
      val kept = families(asked.colFamilyName)
      val schema = if (asked.isKey) kept.spec.keySchema else kept.forms(asked.schemaId)
      StateSchemaMetadataValue(schema, SchemaConverters.toAvroTypeWithDefaults(schema))
    }
  }

  /** The rows of each version up to `last`: of each family its keys with their values. */
  def run(words: Arguments): Programs.Result = {
    val settings = words.settings + ("spark.sql.streaming.stateStore.encodingFormat" -> "avro")
    val stores = new Stores(words.text("root"), words.text("provider"), settings)
    Map("versions" -> (1L to words.number("last", 1)).map(rows(stores, _)))
  }

  private def rows(stores: Stores, number: Long): Map[String, Any] = {
    val provider = StateStoreProvider.createAndInit(
      StateStoreProviderId(StateStoreId(stores.root, 0, 0, StateStoreId.DEFAULT_STORE_NAME), UUID.randomUUID()),
      key, second, NoPrefixKeyStateEncoderSpec(key), true, stores.conf, stores.hadoop, false, Some(Schemas))
    try Tasks.run {
      val store = Stores.open(provider, Version(number, None))
      try families.map { case (name, kept) =>
        store.createColFamilyIfAbsent(name, kept.spec.keySchema, kept.forms.last, kept.spec, kept.isList, name.startsWith("$"))
        name -> inOrder(store, name, kept)
      } finally store.abort()
    } finally provider.close()
  }

  private def inOrder(store: StateStore, name: String, kept: Kept): Seq[Seq[Any]] = {
    val keys = kept.spec.keySchema
    def said(row: UnsafeRow): Any = plain(row, kept.forms.last)
    if (!kept.isList) store.iterator(name).map(pair => Seq(plain(pair.key, keys), said(pair.value))).toVector
    else store.iteratorWithMultiValues(name).map(pair => plain(pair.key, keys) -> said(pair.value)).toVector
      .groupMap(_._1)(_._2).map { case (list, values) => Seq(list, values) }.toVector
  }

  private def struct(fields: (String, DataType)*): StructType = StructType(fields.map { case (name, kind) => StructField(name, kind) })

  private def plain(row: InternalRow, kind: StructType): Map[String, Any] =
    kind.zipWithIndex.map { case (field, at) =>
      field.name -> (if (row.isNullAt(at)) null else plain(row.get(at, field.dataType), field.dataType))
    }.toMap

  private def plain(value: Any, kind: DataType): Any = (value, kind) match {
    case (row: InternalRow, struct: StructType) => plain(row, struct)
    case (array: ArrayData, ArrayType(element, _)) => array.toSeq[Any](element).map(plain(_, element))
    case (text: UTF8String, _) => text.toString
    case (number: Decimal, _) => number.toString
    case (other, _) => other
  }
}
