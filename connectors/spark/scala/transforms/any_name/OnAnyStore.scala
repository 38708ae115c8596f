package org.apache.spark.sql.cecstore.transforms

import org.apache.spark.sql.execution.SparkPlan

/** This Spark runs `transformWithState` on any store that has column families: there is nothing to replace. */
private[cecstore] object OnAnyStore {
  def replaced(plan: SparkPlan): SparkPlan = plan
}
