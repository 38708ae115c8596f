// Not in cecstore.transforms: spark.sql.extensions names this class.
package org.apache.spark.sql.cecstore

import org.apache.spark.sql.SparkSessionExtensions

/** This Spark runs `transformWithState` on any store that has column families: there is nothing to replace. */
class CecExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = ()
}
