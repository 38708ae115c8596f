package org.apache.spark.sql.cecstore.store

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.cecstore.sparks.Seeking
import org.apache.spark.sql.execution.streaming.state.{StateStoreIterator, UnsafeRowPair}

/** All of a family, and after a seek what there is then, from the first key on that is not below the prefix. */
private[store] final class SeekingIterator(begin: Option[UnsafeRow] => StateStoreIterator[UnsafeRowPair])
  extends Seeking[UnsafeRowPair] {
  private var current = begin(None)

  override def hasNext: Boolean = current.hasNext
  override def next(): UnsafeRowPair = current.next()
  override def close(): Unit = current.close()
  override def refreshAndSeekToPrefix(prefix: UnsafeRow): Unit = { current.close(); current = begin(Some(prefix)) }
}
