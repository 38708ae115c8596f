package org.apache.spark.sql.cecstore.store

import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

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
   * The encoding of a store that Spark has given these schemas. It gives them to the stores of operators whose schemas it
   * lets change, which is `transformWithState` alone: others keep plain rows whatever the setting, since no row of theirs
   * could be decoded without a schema.
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
