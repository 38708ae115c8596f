package org.apache.spark.sql.cecstore.testing

import java.nio.file.Path
import java.util.HexFormat

import org.apache.spark.sql.cecstore.state.ListChunks
import org.apache.spark.sql.cecstore.store.{FamilyCodec, FamilyKind, PlainRows}
import org.apache.spark.sql.execution.streaming.state.StateStoreMetrics

/** What each version must hold, for readers that know bytes only: the model's rows by Spark's own encoders. */
private[testing] final class Expectations(families: Seq[Family], useFamilies: Boolean) {
  private val hex = HexFormat.of()
  private val codecs = families.map(family => family.name -> (family,
    new FamilyCodec(FamilyKind(family.name, family.spec, Values.schema, useFamilies, family.multi), PlainRows))).toMap
  private var figures = Map.empty[Version, Map[String, Long]]

  /** What the provider said of itself when it had made the version. */
  def measured(version: Version, said: StateStoreMetrics): Unit =
    figures = figures.updated(version, said.customMetrics.map { case (metric, value) => metric.name -> value })

  def write(file: Path, models: Map[Version, Model]): Unit = Logs.write(file, models.toSeq.collect {
    case (version, model) if version != Stores.Start => Map(
      "version" -> version.number, "id" -> version.id.orNull,
      "families" -> model.families.map { case (name, content) => name -> bytes(name, content) },
      "extent" -> figures(version)("cecExtentRecords"),
      "open_windows" -> figures(version)("cecOpenWindows"))
  })

  private def bytes(name: String, content: Map[Int, Vector[Int]]): Map[String, String] = {
    val (family, codec) = codecs(name)
    content.map { case (key, values) =>
      val keyBytes = codec.keyOf(family.key(key))
      val text = hex.formatHex(keyBytes.array, 0, keyBytes.length)
      text -> hex.formatHex(ListChunks.joined(values.map(value => codec.encoded(Values.row(value)))))
    }
  }
}
