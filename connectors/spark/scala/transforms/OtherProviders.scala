package org.apache.spark.sql.cecstore.transforms

import java.util.concurrent.ConcurrentHashMap
import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.CecExtensions
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.internal.SQLConf

/** Says once for each checkpoint that its query goes on with another provider: Spark goes by the checkpoint, not by the session. */
private[cecstore] object OtherProviders extends Logging {
  import Operators._

  private val said = ConcurrentHashMap.newKeySet[String]

  def say(plan: SparkPlan): Unit = plan.foreach {
    case node: Stateful if !CecExtensions.isOurs(node.conf) => node.stateInfo.map(_.checkpointLocation).filter(_.nonEmpty).foreach { state =>
      val checkpoint = new Path(state).getParent
      val provider = node.conf.getConf(SQLConf.STATE_STORE_PROVIDER_CLASS).split('.').last
      // A batch has a plan each time; and state that is made for one batch query has no checkpoint.
      if (checkpoint != null && said.add(state))
        logWarning(s"cec: $provider keeps the state of the query in $checkpoint, not cec-store: `cec-store adopt $checkpoint NEW` takes it over")
    }
    case _ =>
  }
}
