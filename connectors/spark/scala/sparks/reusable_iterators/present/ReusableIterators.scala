package org.apache.spark.sql.cecstore.sparks

import org.apache.spark.sql.execution.streaming.state._

/** This Spark asks stores for iterators that seek. */
private[cecstore] trait StoreWithSeeking extends SupportsReusableIterator

private[cecstore] abstract class Seeking[A] extends ReusableIterator[A]
