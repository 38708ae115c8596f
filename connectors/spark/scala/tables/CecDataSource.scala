// Not in cecstore.tables: Spark finds this class by its name.
package org.apache.spark.sql.cecstore

import java.util.{Map => JMap}
import scala.jdk.CollectionConverters._
import org.apache.spark.sql.cecstore.format.{RefusedQuery, SparkErrors}
import org.apache.spark.sql.cecstore.source.{KeptQueue, SourceColumns, SourceOptions}
import org.apache.spark.sql.cecstore.tables.{CecTable, TableOptions}
import org.apache.spark.sql.connector.catalog.{Table, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.sources.DataSourceRegister
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** `format("cec")`: queues in Spark. */
class CecDataSource extends TableProvider with DataSourceRegister {
  /** The queue whose columns were asked for: its table goes on with it. */
  private val queue = new KeptQueue

  override def shortName(): String = "cec"

  /** The queue's columns; with `includeMetadata` those of the log behind them. */
  override def inferSchema(options: CaseInsensitiveStringMap): StructType = SparkErrors.told {
    val all = options.asCaseSensitiveMap.asScala.toMap
    val wanted = SourceOptions.parseForColumns(TableOptions.ofSource(all).asJava)
    TableOptions.requireWholePath(all, wanted.path)
    SourceColumns.of(queue.at(wanted.path).fields, wanted)
  }

  /** A query that writes says itself which columns it has, whether or not the queue is there. */
  override def supportsExternalMetadata(): Boolean = true

  /** Of a catalog's table, too: its queue is made by whoever first inserts into it. */
  override def getTable(schema: StructType, partitioning: Array[Transform], properties: JMap[String, String]): Table = {
    if (partitioning.nonEmpty) throw new RefusedQuery("CEC_PARTITIONED_TABLE", Map.empty,
      "a queue has the partitions of the queries that write it: leave out PARTITIONED BY and CLUSTERED BY")
    new CecTable(schema, properties.asScala.toMap, queue)
  }
}
