package org.apache.spark.sql.cecstore.tables

import java.util.Locale
import org.apache.spark.sql.cecstore.source.SourceOptions
import org.apache.spark.sql.connector.catalog.TableCatalog

/** What a table of a catalog was made with: its OPTIONS, among much else that the catalog says of it. */
private[cecstore] object TableOptions {
  private val OfTable = TableCatalog.OPTION_PREFIX

  /** Whether a catalog says them; those of a reader or a writer are its own, and all of them must be known. */
  def areOfCatalog(said: Map[String, String]): Boolean = said.contains(TableCatalog.PROP_PROVIDER)

  /** Those of the source. Raises IllegalArgumentException for an OPTION that neither source nor sink has. */
  def ofSource(said: Map[String, String]): Map[String, String] =
    if (!areOfCatalog(said)) said
    else {
      said.keys.filter(_.startsWith(OfTable)).map(_.stripPrefix(OfTable).toLowerCase(Locale.ROOT)).toSeq.sorted
        .find(name => !SourceOptions.isKnown(name) && !SinkOptions.isKnown(name))
        .foreach(name => throw new IllegalArgumentException(s"no option '$name' of a table; there are " +
          (SinkOptions.Names ++ SourceOptions.Known).distinct.mkString(", ")))
      said.filter { case (name, _) => SourceOptions.isKnown(name) }
    }
}
