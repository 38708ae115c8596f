package org.apache.spark.sql.cecstore.replicas

/**
 * What executors and the driver tell each other, as arrays of the JDK's own classes: Spark's RPC has a class loader
 * that does not know classes out of `spark.jars`.
 */
private[cecstore] final case class Report(executor: String, host: String, seen: Long, memoryBytesMax: Long,
    owned: Seq[Report.Owned], replicas: Seq[Report.Held]) {
  def encoded: Array[AnyRef] = Array[AnyRef](executor, host, Long.box(seen), Long.box(memoryBytesMax),
    owned.map(_.encoded).toArray, replicas.map(_.encoded).toArray)
}

private[cecstore] object Report {
  import Wire._

  /** A store with a provider on the executor; the head is none before its first version. */
  final case class Owned(key: StoreKey, runId: String, head: Option[Head], isOrdered: Boolean, replicas: Int,
      windows: Long, stateBytes: Long, load: Option[LoadFigures]) {
    def encoded: Array[AnyRef] = keyed(key) ++ Array[AnyRef](runId, head.map(_.uniqueId).orNull,
      Long.box(head.fold(0L)(_.version)), Boolean.box(isOrdered), Int.box(replicas), Long.box(windows), Long.box(stateBytes)) ++
      load.fold(Array.empty[AnyRef])(l => Array[AnyRef](Long.box(l.version), Boolean.box(l.isFromReplica), Long.box(l.records), Long.box(l.ms)))
  }

  /** A replica on the executor; its version is -1 while it is loading. */
  final case class Held(key: StoreKey, version: Long, memoryBytes: Long, state: String, reason: String) {
    def encoded: Array[AnyRef] = keyed(key) ++ Array[AnyRef](Long.box(version), Long.box(memoryBytes), state, reason)
  }

  def decode(message: Array[AnyRef]): Report = Report(text(message(0)), text(message(1)), long(message(2)), long(message(3)),
    rows(message(4)).map { row =>
      val load = Option.when(row.length > KeyFields + 7)(LoadFigures(
        long(row(KeyFields + 7)), flag(row(KeyFields + 8)), long(row(KeyFields + 9)), long(row(KeyFields + 10))))
      Owned(key(row), text(row(4)), Option(text(row(5))).map(Head(long(row(6)), _)), flag(row(7)),
        long(row(8)).toInt, long(row(9)), long(row(10)), load)
    },
    rows(message(5)).map(row => Held(key(row), long(row(4)), long(row(5)), text(row(6)), text(row(7)))))
}

/**
 * What an executor is to do; the content is none where nothing has changed since the generation that the
 * report has seen.
 */
private[cecstore] final case class Instructions(generation: Long, content: Option[Instructions.Content]) {
  def encoded: Array[AnyRef] = Array[AnyRef](Long.box(generation)) ++ content.fold(Array.empty[AnyRef])(c =>
    Array[AnyRef](c.wanted.map(_.encoded).toArray, c.news.map { case (key, news) =>
      Wire.keyed(key) ++ Array[AnyRef](Long.box(news.lagVersions), Long.box(news.memoryBytes), Long.box(news.arrivals))
    }.toArray))
}

private[cecstore] object Instructions {
  import Wire._

  /** Replicas to keep, and how those of the executor's own stores are. */
  final case class Content(wanted: Seq[Wanted], news: Seq[(StoreKey, OwnerNews)])

  def decode(message: Array[AnyRef]): Instructions = Instructions(long(message(0)), Option.when(message.length > 1)(Content(
    rows(message(1)).map(row => Wanted(key(row), Head(long(row(4)), text(row(5))), flag(row(6)), flag(row(7)), long(row(8)))),
    rows(message(2)).map(row => key(row) -> OwnerNews(long(row(4)), long(row(5)), long(row(6)))))))
}

/**
 * A replica that the driver wants here.
 *
 * @param isMoving the partition comes here as soon as it is warm, so it goes first
 * @param stateBytes memory of the state at its owner
 */
private[cecstore] final case class Wanted(key: StoreKey, head: Head, isOrdered: Boolean, isMoving: Boolean, stateBytes: Long = 0) {
  def encoded: Array[AnyRef] = Wire.keyed(key) ++
    Array[AnyRef](Long.box(head.version), head.uniqueId, Boolean.box(isOrdered), Boolean.box(isMoving), Long.box(stateBytes))
}

private object Wire {
  val KeyFields = 4
  def keyed(key: StoreKey): Array[AnyRef] = Array[AnyRef](key.root, Long.box(key.operator), Int.box(key.partition), key.name)
  def key(row: Array[AnyRef]): StoreKey = StoreKey(text(row(0)), long(row(1)), long(row(2)).toInt, text(row(3)))
  def rows(value: AnyRef): Seq[Array[AnyRef]] = value.asInstanceOf[Array[Array[AnyRef]]].toSeq
  def text(value: AnyRef): String = value.asInstanceOf[String]
  def long(value: AnyRef): Long = value.asInstanceOf[Number].longValue
  def flag(value: AnyRef): Boolean = value.asInstanceOf[java.lang.Boolean]
}
