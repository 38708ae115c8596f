package org.apache.spark.sql.cecstore.transforms

import java.util.Locale
import scala.jdk.CollectionConverters._
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{Identifier, TableCatalog}

/**
 * Reads the queue at a path in SQL: SELECT … FROM cec.`/path`. Spark's own rule for such names takes file formats
 * alone and fails on any other, so this one has to run before it: as a rule for hints, which come first.
 */
private[cecstore] final class QueuesByPath(session: SparkSession) extends Rule[LogicalPlan] {
  import QueuesByPath._
  private def classic: ClassicSession = session.asInstanceOf[ClassicSession]

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case relation: UnresolvedRelation if isByPath(relation) && !isTable(relation) => rowsOf(relation)
  }

  private def isByPath(relation: UnresolvedRelation): Boolean = conf.runSQLonFile && (relation.multipartIdentifier match {
    case Seq(format, _) => format.toLowerCase(Locale.ROOT) == Format
    case _ => false
  })

  /** A catalog or a database of this name goes first, as with Spark's own formats. */
  private def isTable(relation: UnresolvedRelation): Boolean = {
    val Seq(first, name) = relation.multipartIdentifier
    val catalogs = classic.sessionState.catalogManager
    catalogs.isCatalogRegistered(first) || (catalogs.currentCatalog match {
      case tables: TableCatalog => tables.tableExists(Identifier.of(Array(first), name))
      case _ => false
    })
  }

  private def rowsOf(relation: UnresolvedRelation): LogicalPlan = {
    val path = relation.multipartIdentifier.last
    val options = relation.options.asCaseSensitiveMap.asScala.toMap
    val rows = if (relation.isStreaming) classic.readStream.format(Format).options(options).load(path)
      else classic.read.format(Format).options(options).load(path)
    rows.asInstanceOf[Dataset[_]].queryExecution.analyzed
  }
}

private[cecstore] object QueuesByPath {
  private val Format = "cec"
}
