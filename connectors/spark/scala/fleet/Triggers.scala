package org.apache.spark.sql.cecstore.fleet

import java.lang.reflect.Field
import java.util.UUID
import scala.util.control.NonFatal
import org.apache.spark.internal.Logging
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.util.{Clock, SystemClock}

/**
 * Triggers of a query that is behind its input: it begins the next batch at once. One that catches up by batches that
 * are cut would else make up a batch for each trigger at most, however many cores there are.
 *
 * Spark waits for a trigger by the clock of the query's trigger executor, and takes no other one for a query that is
 * started by a writer. So it is replaced there. Where a Spark has no such clock, triggers are waited for.
 */
private[fleet] object Triggers extends Logging {
  private val QueryId = "sql.streaming.queryId"

  /** Have the query whose thread this is not wait while it is behind, which is asked in this thread. */
  def skipWhile(isBehind: () => Boolean): Unit = try {
    val session = SparkSession.active
    val id = UUID.fromString(session.sparkContext.getLocalProperty(QueryId))
    val query = session.sharedState.activeStreamingQueries.get(id)
    val executor = field(query.getClass, _.getName.endsWith("triggerExecutor")).get(query)
    field(executor.getClass, _.getType == classOf[Clock]).set(executor, new ImpatientClock(isBehind))
  } catch {
    case NonFatal(error) => logWarning("This query waits for its triggers while it is behind, too: this Spark has no " +
      s"clock to be replaced: $error")
  }

  private def field(kind: Class[_], isIt: Field => Boolean): Field = {
    val kinds = Iterator.iterate[Class[_]](kind)(_.getSuperclass).takeWhile(_ != null)
    val found = kinds.flatMap(_.getDeclaredFields).find(isIt).getOrElse(
      throw new NoSuchFieldException(s"of ${kind.getName}"))
    found.setAccessible(true)
    found
  }
}

private final class ImpatientClock(isBehind: () => Boolean) extends SystemClock {
  override def waitTillTime(targetTime: Long): Long =
    if (isBehind()) getTimeMillis() else super.waitTillTime(targetTime)
}
