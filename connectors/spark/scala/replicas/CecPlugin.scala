// Not in cecstore.replicas: users may name this class in spark.plugins.
package org.apache.spark.sql.cecstore

import java.util.{Collections, Map => JavaMap}
import org.apache.spark.{SparkContext, TaskContext}
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import org.apache.spark.sql.cecstore.replicas.{DriverSide, ExecutorSide}

/** Keeps warm replicas of state partitions on executors that do not own them. docs/spark-replicas.md. */
class CecPlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new DriverPlugin {
    private var side: DriverSide = null

    override def init(context: SparkContext, plugin: PluginContext): JavaMap[String, String] = {
      side = new DriverSide(context)
      side.start()
      Collections.emptyMap()
    }
    override def receive(message: AnyRef): AnyRef = side.answer(message.asInstanceOf[Array[AnyRef]])
    override def shutdown(): Unit = if (side != null) side.stop()
  }

  override def executorPlugin(): ExecutorPlugin = new ExecutorPlugin {
    private var side: ExecutorSide = null

    override def init(plugin: PluginContext, settings: JavaMap[String, String]): Unit = {
      side = new ExecutorSide(plugin)
      side.start()
    }
    override def onTaskStart(): Unit = side.taskBegan(TaskContext.get())
    override def shutdown(): Unit = if (side != null) side.stop()
  }
}
