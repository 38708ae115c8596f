// Not in cecstore.transforms: spark.sql.extensions names this class.
package org.apache.spark.sql.cecstore

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.cecstore.transforms.OnAnyStore
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}

/**
 * Lets `transformWithState` run on our store. A columnar rule, since these run after all that Spark does to the plan
 * of a streaming batch: what a planner's strategy makes is copied back to Spark's own node by later rules.
 */
class CecExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = extensions.injectColumnar(CecExtensions.columnarRule)
}

private[cecstore] object CecExtensions {
  private def columnarRule(session: SparkSession): ColumnarRule = new ColumnarRule {
    override def preColumnarTransitions: Rule[SparkPlan] = OnAnyStore
  }
}
