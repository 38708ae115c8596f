package org.apache.spark.sql.cecstore.source

import scala.jdk.CollectionConverters._
import scala.ref.WeakReference
import org.apache.hadoop.conf.Configuration
import org.apache.spark.SparkContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.util.SerializableConfiguration

/** Hadoop's settings on their way to executors: sent once, for as long as they stay the same, not for each batch. */
private[cecstore] object SentConfiguration {
  private final case class Sent(
      by: WeakReference[SparkContext], settings: Map[String, String], broadcast: Broadcast[SerializableConfiguration])
  private var last: Option[Sent] = None

  def of(context: SparkContext, configuration: Configuration): Broadcast[SerializableConfiguration] = synchronized {
    val settings = configuration.asScala.map(each => each.getKey -> each.getValue).toMap
    last.filter(sent => sent.by.get.contains(context) && sent.settings == settings).map(_.broadcast).getOrElse {
      val broadcast = context.broadcast(new SerializableConfiguration(configuration))
      last = Some(Sent(WeakReference(context), settings, broadcast))
      broadcast
    }
  }
}
