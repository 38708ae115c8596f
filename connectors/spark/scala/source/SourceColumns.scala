package org.apache.spark.sql.cecstore.source

import org.apache.spark.sql.cecstore.columns.{RecordFields, SparkTypes}
import org.apache.spark.sql.types.{IntegerType, LongType, StringType, StructField, StructType, TimestampType}

/** What the source's rows consist of. */
private[cecstore] object SourceColumns {
  val Partition = "_partition"
  val Offset = "_offset"

  /** The queue's columns; with `includeMetadata` those of the log behind them. */
  def of(fields: RecordFields, options: SourceOptions): StructType = {
    val control = fields.fields.filter(f => f.getName == RecordFields.Key || f.getName == RecordFields.State)
    val metadata = Seq(StructField(Partition, IntegerType), StructField(Offset, LongType),
      StructField(RecordFields.Timestamp, TimestampType), StructField(RecordFields.Kind, StringType))
    StructType(SparkTypes.columns(fields.data ++ (if (options.hasControlRecords) control else Nil)) ++
      (if (options.includeMetadata) metadata else Nil))
  }
}
