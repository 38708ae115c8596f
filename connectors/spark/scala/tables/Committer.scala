package org.apache.spark.sql.cecstore.tables

import java.nio.file.FileAlreadyExistsException
import java.security.SecureRandom
import scala.util.control.NonFatal
import org.apache.spark.internal.Logging
import org.apache.spark.sql.cecstore.CecLogException
import org.apache.spark.sql.cecstore.format.{SchemaMessage, SchemaMismatch}
import org.apache.spark.sql.cecstore.queue._
import org.apache.spark.sql.cecstore.standby.Tenures
import org.apache.spark.util.SerializableConfiguration

/** Commits batches to one queue, on the driver. Makes it where there is none, and refuses one that does not fit. */
private[tables] final class Committer(store: Store, columns: StoredColumns, options: SinkOptions,
    conf: SerializableConfiguration) extends Logging {
  private val commits = new ReferenceLog(store)
  private def retention: Option[String] = options.retention
  private var state = try commits.open() catch { case _: NotAQueue => make() }
  /** The queue's record schema, as SCHEMA frames of its segments have it. */
  val schemaMessage: Array[Byte] = commits.schemaMessage(state)
  private val upkeep = new Upkeep(commits, () => SegmentWriter.nowUs,
    new Merging(options.path, options.singleWriter, conf, schemaMessage))
  /** Of the queue's columns, in their order, among those of the query. */
  val places: IndexedSeq[Int] = placesOfColumns()
  refuseOneWriter()
  commits.proveCreates()
  warnOfOtherRetention()

  private def make(): QueueState = {
    Committer.requireNothingElse(store)
    val logId = new Array[Byte](16)
    Committer.random.nextBytes(logId)
    val settings = retention.map(Retention.Setting -> _).toMap
    val schema = SchemaMessage.encode(columns.schema)
    val commit = Commit(Operation.make, None, 0, Array(0L), Array(0L), Map.empty, Map.empty, settings, Some(schema))
    val first = LogObject(0, logId.toIndexedSeq, commit, IndexedSeq.empty, SegmentWriter.nowUs)
    try commits.make(first) catch {
      case _: FileAlreadyExistsException => commits.open() // somebody was quicker
    }
  }

  /** A queue without partitions has one writer, which gives the numbers of its frames. docs/format.md §13. */
  private def refuseOneWriter(): Unit = if (state.commit.settings.contains(QueueState.Writer)) throw new NotAQueue(store.url,
    "a queue without partitions is here, to which one writer appends; write to another place")

  private def placesOfColumns(): IndexedSeq[Int] =
    columns.placesIn(SchemaMessage.decode(schemaMessage)).fold(differences => throw SchemaMismatch(
      store.url, differences.map(_._1), s"columns that differ from the queue's: " +
        differences.map { case (name, what) => s"$name: $what" }.mkString("; ")), identity)

  private def warnOfOtherRetention(): Unit = {
    val kept = state.commit.settings.getOrElse(Retention.Setting, "forever")
    retention.filter(Retention.parse(_) != Retention.parse(kept)).foreach { wanted =>
      logWarning(s"cec: ${store.url}: its retention is $kept, not $wanted; change it by set_retention or " +
        "`cec-store consumers --retention`")
    }
  }

  /**
   * The batch is in the queue, once, and on disk. Rows that it has no use for are told.
   *
   * Raises CecLogException where it is not there, or nobody can say; and where another driver has taken the query over.
   *
   * @param isStream whether the query counts its batches, so that one that is run again is known
   * @param isRetried whether the batch, or one of its tasks, may have been tried before
   * @param advice to whoever writes another batch under the same name
   */
  def commit(query: String, batch: Long, written: Seq[Written], isStream: Boolean, isRetried: Boolean,
      advice: String): SinkMetrics = {
    val segments = written.flatMap(_.segments)
    val before = state
    var isNew = false
    var tries = 0
    if (segments.nonEmpty) {
      // Else one that is an hour old would be a try by itself.
      state = commits.add(commits.young(state)) { now =>
        isNew = !(isStream && now.commit.has(query, batch))
        if (isNew) {
          requireYoung(written)
          // A fleet may have gone back since this driver was stopped, and its queue with it.
          options.checkpoint.foreach(Tenures.require(_, conf.value))
        }
        tries += 1
        Option.when(isNew)(Committer.following(now, query, batch, segments, isStream))
      }
      if (!isNew) {
        commits.settle(state)
        new Repeated(store.url, commits).say(state, query, batch, segments, advice)
        forget(segments.map(_.file).toSet -- named)
      }
    }
    // Nobody else will commit this batch any more, so what its commit does not name never will be named.
    if (isNew && isRetried) forget(batchObjects(query, batch) -- segments.map(_.file))
    state = upkeep.nowAndThen(before, state)
    val rows = segments.map(_.records).sum
    if (!isNew) SinkMetrics(batch, 0, 0, 0, rows, math.max(0, tries - 1))
    else SinkMetrics(batch, rows, segments.map(_.bytes).sum, segments.size, 0, tries - 1)
  }

  /** A clean-up takes what is older and not named for rubbish. */
  private def requireYoung(written: Seq[Written]): Unit = Sweeping.requireYoung(store,
    written.flatMap(_.segments).map(_.file), math.abs(SegmentWriter.nowUs - written.map(_.beganUs).min))

  private def named: Set[String] = (state.live.map(_.segment.file) ++ state.gone.map(_.segment.file)).toSet

  private def batchObjects(query: String, batch: Long): Set[String] = {
    val folder = Names.batchFolder(query, batch)
    try store.list(folder).filterNot(_.isFolder).map(each => s"$folder/${each.name}").toSet catch {
      case NonFatal(e) => logWarning(s"cec: ${store.url}/$folder: not cleaned up: $e"); Set.empty
    }
  }

  /** Delete what no commit names. Never fails: where that is not possible, it takes up room and does no other harm. */
  def forget(objects: Set[String]): Unit = if (objects.nonEmpty) {
    try store.delete(objects.toSeq.sorted) catch {
      case NonFatal(e) => logWarning(s"cec: ${store.url}: ${objects.size} objects that no commit names stay: $e")
    }
  }
}

private[tables] object Committer {
  private val random = new SecureRandom

  /**
   * Raises NotAQueue where something stands that is no queue which this sink writes, and CecLogException where rows or
   * consumers of a queue are, whose commits are lost (docs/format.md §11).
   */
  private def requireNothingElse(store: Store): Unit = {
    val foreign = store.list("").map(_.name).filterNot(name => Names.OfQueue(name) || Names.isProbe(name))
    if (foreign.nonEmpty) {
      val what = if (foreign.exists(_.startsWith("manifest-"))) "a queue without partitions" else "no queue"
      throw new NotAQueue(store.url, s"$what, and not empty either: ${foreign.take(3).mkString(", ")}")
    }
    val left = Names.MadeLater.iterator.flatMap(firstObject(store, _)).nextOption()
    // Somebody may have made it meanwhile.
    left.filterNot(_ => new ReferenceLog(store).at(0).nonEmpty).foreach { name =>
      throw new CecLogException(s"${store.url}/${Names.commit(0)}: damage at byte 0: the commit that made the queue is " +
        s"missing, and $name is there; restore ${Names.LogFolder}/ from a copy; to make another queue here, move " +
        s"${Names.MadeLater.mkString("", "/ and ", "/")} away", named = Map("path" -> store.url, "commit" -> "0"))
    }
  }

  /** The name of an object below a folder; none where there are at most folders. */
  private def firstObject(store: Store, folder: String): Option[String] = store.list(folder).iterator.flatMap { entry =>
    val name = s"$folder/${entry.name}"
    if (entry.isFolder) firstObject(store, name) else Some(name)
  }.nextOption()

  /**
   * Take away every row of a queue, as TRUNCATE TABLE asks; a queue that is not made yet has none. Offsets go on, so that
   * a reader that has not read to the end is told of the loss.
   */
  def truncate(store: Store): Unit = {
    val commits = new ReferenceLog(store)
    val opened = try Some(commits.open()) catch { case _: NotAQueue => requireNothingElse(store); None }
    opened.foreach { state =>
      if (state.commit.settings.contains(QueueState.Writer)) throw new NotAQueue(store.url,
        "a queue without partitions, whose writer goes on from its last rows: it cannot be truncated; trim it instead")
      commits.proveCreates()
      commits.add(state)(Trims.everything(_, SegmentWriter.nowUs))
    }
  }

  /** The commit of a batch; a partition that the queue does not have yet is added to it. */
  private def following(
      state: QueueState, query: String, batch: Long, segments: Seq[Segment], isStream: Boolean): LogObject = {
    val before = state.commit
    val more = Array.fill(math.max(0, segments.map(_.partition).max + 1 - before.ends.length))(0L)
    val ends = before.ends ++ more
    val placed = segments.sortBy(_.partition).map { segment =>
      val start = ends(segment.partition)
      ends(segment.partition) += segment.records
      segment.copy(firstOffset = start)
    }
    val queries = if (isStream) before.queries + (query -> batch) else before.queries
    val commit = Commit(Operation.append, Some(query), batch, before.starts ++ more, ends, queries, Map.empty,
      before.settings, None)
    LogObject(state.number + 1, state.logId, commit, placed.toIndexedSeq, SegmentWriter.nowUs)
  }
}
