package org.apache.spark.sql.cecstore.tables

import java.util.Locale
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.spark.sql.cecstore.format.{RefusedOption, RefusedQuery}
import org.apache.spark.sql.cecstore.source.SourceOptions
import org.apache.spark.sql.connector.catalog.TableCatalog

/** What a table of a catalog was made with: its OPTIONS, among much else that the catalog says of it. */
private[cecstore] object TableOptions {
  private val OfTable = TableCatalog.OPTION_PREFIX

  /** A table is all of its rows: a stream of one begins with the first, as those of Delta and Parquet do. */
  private val Beginning = "startingOffsets" -> "earliest"

  /** Whether a catalog says them; those of a reader or a writer are its own, and all of them must be known. */
  def areOfCatalog(said: Map[String, String]): Boolean = said.contains(TableCatalog.PROP_PROVIDER)

  /** Whether a table that is dropped leaves its queue where it is. */
  def isExternal(said: Map[String, String]): Boolean =
    said.contains(TableCatalog.PROP_EXTERNAL) || said.contains(TableCatalog.PROP_LOCATION) &&
      !said.get("is_managed_location").exists(_.equalsIgnoreCase("true"))

  /**
   * Raise where a table's columns would be read from another place than its rows: a catalog takes a relative location
   * from the database's folder on, which is not known while a table is being made.
   */
  def requireWholePath(said: Map[String, String], path: String): Unit =
    if (areOfCatalog(said) && !new Path(path).isAbsolute) throw new RefusedQuery(
      "CEC_RELATIVE_LOCATION", Map("location" -> path), s"LOCATION '$path' is relative, and would be taken from the " +
        "database's folder on: give the whole path, or the table's columns")

  /** Those of the source. Raises RefusedOption for an OPTION that neither source nor sink has. */
  def ofSource(said: Map[String, String]): Map[String, String] =
    if (!areOfCatalog(said)) said
    else {
      said.keys.filter(_.startsWith(OfTable)).map(_.stripPrefix(OfTable).toLowerCase(Locale.ROOT)).toSeq.sorted
        .find(name => !SourceOptions.isKnown(name) && !SinkOptions.isKnown(name))
        .foreach(name => throw new RefusedOption(name, s"no option '$name' of a table; there are " +
          (SinkOptions.Names ++ SourceOptions.Known).distinct.mkString(", ")))
      val own = said.filter { case (name, _) => SourceOptions.isKnown(name) }
      if (own.keys.exists(_.equalsIgnoreCase(Beginning._1))) own else own + Beginning
    }

  /**
   * The properties by which OpenLineage's listener names a table that it does not know: as it names folders, so that a
   * queue is one dataset for all who read and write it. No file system is asked.
   */
  def lineage(path: String, conf: Configuration): Map[String, String] = {
    val whole = new Path(path).makeQualified(FileSystem.getDefaultUri(conf), new Path(System.getProperty("user.dir"))).toUri
    val (namespace, name) = (whole.getScheme, Option(whole.getAuthority)) match {
      case (scheme, None) => (scheme, whole.getPath)
      case ("s3a" | "s3n" | "s3", Some(bucket)) => (s"s3://$bucket", whole.getPath.stripPrefix("/"))
      case ("gs", Some(bucket)) => (s"gs://$bucket", whole.getPath.stripPrefix("/"))
      case (scheme, Some(host)) => (s"$scheme://$host", whole.getPath)
    }
    Map("openlineage.dataset.namespace" -> namespace, "openlineage.dataset.name" -> name)
  }
}
