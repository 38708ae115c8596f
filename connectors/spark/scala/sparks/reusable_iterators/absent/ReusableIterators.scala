package org.apache.spark.sql.cecstore.sparks

import java.io.Closeable
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair

/** This Spark begins another scan instead: it does not ask stores for iterators that seek. */
private[cecstore] trait StoreWithSeeking {
  def reusableIterator(name: String): Seeking[UnsafeRowPair]
}

private[cecstore] abstract class Seeking[A] extends Iterator[A] with Closeable {
  def refreshAndSeekToPrefix(prefix: UnsafeRow): Unit
}
