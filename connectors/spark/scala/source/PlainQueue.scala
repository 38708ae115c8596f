package org.apache.spark.sql.cecstore.source

import org.apache.spark.sql.cecstore.columns.RecordFields
import org.apache.spark.sql.cecstore.format.{Format, RefusedOption}
import org.apache.spark.sql.cecstore.queue.{Segment, Store}

/** A queue that is a log itself, which is its own partition 0. docs/format.md §1. */
private[cecstore] final class PlainQueue(override val path: String, override val store: Store) extends ReadableQueue {
  private val log = new PlainLog(store, "", 0)
  override val schemaMessage: Array[Byte] = log.schemaMessage
  override val fields: RecordFields = ReadableQueue.fieldsOf(schemaMessage, s"${store.url}/", Format.HeaderBytes)

  override def again(): ReadableQueue = ReadableQueue.open(path)
  override def refresh(): Unit = log.refresh()
  override def id: String = ReadableQueue.hex(log.logId)
  override def written: Map[Int, Long] = Map(0 -> log.written)
  override def firsts: Map[Int, Long] = Map(0 -> log.first)
  override def ends: Map[Int, Long] = Map(0 -> log.end)
  override def segments(partition: Int): IndexedSeq[Segment] = if (partition == 0) log.segments else IndexedSeq.empty

  override def consumer(name: String, start: Map[Int, Long], done: Map[Int, Long], failOnDataLoss: Boolean): Map[Int, Long] => Unit =
    throw new RefusedOption("consumer", s"${store.url}: consumer=$name: consumers of a queue without partitions " +
      "hold locks of its writer's machine: read it by format(\"cec_python\")")
}
