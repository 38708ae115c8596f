// Not in cecstore.transforms: spark.sql.extensions names this class.
package org.apache.spark.sql.cecstore

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.cecstore.transforms.{OnAnyStore, OtherProviders, QueuesByPath, ScanHints}
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.internal.SQLConf

/**
 * Lets `transformWithState` run on our store, tells it which rows other operators look for, and warns of a query that
 * goes on with another provider. A columnar rule, since these run after all that Spark does to the plan of a streaming
 * batch: what a planner's strategy makes is copied back to Spark's own node by later rules. Finds queues by their path
 * in SQL as well.
 */
class CecExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    extensions.injectColumnar(CecExtensions.columnarRule)
    extensions.injectHintResolutionRule(new QueuesByPath(_))
  }
}

private[cecstore] object CecExtensions {
  private def columnarRule(session: SparkSession): ColumnarRule = new ColumnarRule {
    override def preColumnarTransitions: Rule[SparkPlan] = OfBatches
  }

  private object OfBatches extends Rule[SparkPlan] {
    override def apply(plan: SparkPlan): SparkPlan = {
      OtherProviders.say(plan)
      ScanHints.write(plan)
      OnAnyStore.replaced(plan)
    }
  }

  /** Which provider a query has stands in its checkpoint; Spark puts it into the settings of its plans. */
  def isOurs(conf: SQLConf): Boolean = conf.getConf(SQLConf.STATE_STORE_PROVIDER_CLASS) == classOf[CecStateStoreProvider].getName
}
