package org.apache.spark.sql.cecstore.moving

import java.util.UUID
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.datasources.v2.state.metadata.StateMetadataPartitionReader
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorsUtils
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.{StateStoreColumnFamilySchemaUtils => Names, StateVariableType, TransformWithStateOperatorProperties, TransformWithStateVariableInfo}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration

/** Says why a checkpoint cannot be moved; nothing was written. */
private[moving] final class Refused(message: String) extends Exception(message)

/** One column family of a store, as Spark's schema files have it. */
private[moving] final case class Family(
    name: String, key: StructType, value: StructType, spec: KeyStateEncoderSpec, variable: Option[TransformWithStateVariableInfo]) {
  val isList: Boolean = variable.exists(v => v.stateName == name && v.stateVariableType == StateVariableType.ListState)
  def isInternal: Boolean = Names.isInternalColFamily(name)
  def isDefault: Boolean = name == StateStore.DEFAULT_COL_FAMILY_NAME
}

/**
 * One state store of an operator, in all partitions.
 *
 * @param partitions how many partitions have such a store
 * @param schemas what a store with several families has to be given
 */
private[moving] final case class StoreKind(
    operator: Long, operatorName: String, store: String, partitions: Int, families: Seq[Family],
    schemas: Option[StateSchemaProvider]) {

  def hasFamilies: Boolean = families.exists(!_.isDefault)

  /** What the provider is made with. An operator that keeps nothing in the default family has any schema there. */
  def default: Family = families.find(_.isDefault).getOrElse {
    val any = families.head
    Family(StateStore.DEFAULT_COL_FAMILY_NAME, any.key, any.value, NoPrefixKeyStateEncoderSpec(any.key), None)
  }

  def isJoin: Boolean = operatorName == StatefulOperatorsUtils.SYMMETRIC_HASH_JOIN_EXEC_OP_NAME
  def isTransform: Boolean = StoreKind.isTransform(operatorName)

  /** All rows have one key, as with a limit or a sum of everything: one task has them, and the others never run. */
  def isOneKey: Boolean = StoreKind.isOneKey(operatorName, families)
}

private[moving] object StoreKind {
  /** Spark's name for a limit, which it has no constant for. */
  private val Limit = "globalLimit"

  private def isTransform(name: String): Boolean = StatefulOperatorsUtils.TRANSFORM_WITH_STATE_OP_NAMES.contains(name)

  // A limit has a column of nulls for its key. Of another operator Spark hashes such a key as any other.
  private def isOneKey(operatorName: String, families: Seq[Family]): Boolean =
    families.size == 1 && families.head.isDefault && (families.head.key.isEmpty || operatorName == Limit)

  /** Where the offset log of a batch says in how many partitions its state is; the first counts where it is there. */
  private val PartitionsKeys = Seq("spark.sql.streaming.internal.stateStore.partitions", SQLConf.SHUFFLE_PARTITIONS.key)

  /**
   * All stores of a checkpoint as a batch has left them, in the order in which a commit names them.
   *
   * @param conf what the offset log says of this batch. Operators' metadata have a number of partitions as well, which
   *             Spark's own repartition leaves as it was for those whose metadata have no versions.
   */
  def all(checkpoint: String, batch: Long, conf: Map[String, String], hadoopConf: Configuration): Seq[StoreKind] = {
    val counted = PartitionsKeys.flatMap(conf.get(_)).headOption.map(_.toInt)
    val reader = new StateMetadataPartitionReader(checkpoint, new SerializableConfiguration(hadoopConf), batch)
    for (operator <- reader.allOperatorStateMetadata.toSeq; store <- operator.stateStoresMetadata) yield {
      val info = operator.operatorInfo
      val files = store match { case of: StateStoreMetadataV2 => of.stateSchemaFilePaths; case _ => Nil }
      val variables = operator match {
        case of: OperatorStateMetadataV2 if isTransform(info.operatorName) =>
          TransformWithStateOperatorProperties.fromJson(of.operatorPropertiesJson).stateVariables
        case _ => Nil
      }
      val families = familiesOf(checkpoint, info.operatorId, store, files, variables, hadoopConf)
      val schemas = Option.when(files.nonEmpty)(new InMemoryStateSchemaProvider(
        StateSchemaMetadata.createStateSchemaMetadata(s"$checkpoint/state", hadoopConf, files)))
      StoreKind(info.operatorId, info.operatorName, store.storeName,
        if (isOneKey(info.operatorName, families)) 1 else counted.getOrElse(store.numPartitions), families, schemas)
    }
  }

  private def familiesOf(checkpoint: String, operator: Long, store: StateStoreMetadata, files: List[String],
      variables: List[TransformWithStateVariableInfo], hadoopConf: Configuration): Seq[Family] = {
    val id = StateStoreId(s"$checkpoint/state", operator, StateStore.PARTITION_ID_TO_CHECK_SCHEMA, store.storeName)
    val checker = new StateSchemaCompatibilityChecker(
      StateStoreProviderId(id, UUID.randomUUID()), hadoopConf, oldSchemaFilePaths = files.map(new Path(_)), createSchemaDir = false)
    checker.readSchemaFile().map { schema =>
      val prefix = store.numColsPrefixKey
      val spec = schema.keyStateEncoderSpec.getOrElse(
        if (prefix > 0) PrefixKeyScanStateEncoderSpec(schema.keySchema, prefix) else NoPrefixKeyStateEncoderSpec(schema.keySchema))
      val name = schema.colFamilyName
      // The families of times to live belong to a variable of another name.
      val variable = variables.find(_.stateName == name).orElse(
        Option.when(Names.isInternalColFamily(name))(Names.getBaseStateName(name)).flatMap(base => variables.find(_.stateName == base)))
      Family(name, schema.keySchema, schema.valueSchema, spec, variable)
    }
  }
}
