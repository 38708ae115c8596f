package org.apache.spark.sql.cecstore.fleet

import java.lang.reflect.Field
import java.util.UUID
import scala.util.control.NonFatal
import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.util.{Clock, SystemClock}

/**
 * Triggers of a query that is behind its input: it begins the next batch at once. One that catches up by batches that
 * are cut would else make up a batch for each trigger at most, however many cores there are.
 *
 * Spark waits for a trigger by the clock of the query's trigger executor, and takes no other one for a query that is
 * started by a writer. So it is replaced there. Where a Spark has another one, triggers are waited for.
 */
private[fleet] object Triggers extends Logging {
  private val QueryId = "sql.streaming.queryId"

  /** Have the query whose thread this is not wait while it is behind, which is asked in this thread. */
  def skipWhile(context: SparkContext, isBehind: () => Boolean): Unit = try {
    val id = UUID.fromString(context.getLocalProperty(QueryId))
    val query = SparkSession.active.sharedState.activeStreamingQueries.get(id)
    val executor = named(query.getClass, "triggerExecutor").get(query)
    // A query with another kind of trigger waits for none.
    for (field <- executor.getClass.getDeclaredFields.find(_.getType == classOf[Clock])) {
      field.setAccessible(true)
      field.set(executor, new ImpatientClock(isBehind))
    }
  } catch {
    case NonFatal(error) => logWarning("This query waits for its triggers while it is behind, too: this Spark has no " +
      s"clock to be replaced: $error")
  }

  private def named(kind: Class[_], name: String): Field = {
    val kinds = Iterator.iterate[Class[_]](kind)(_.getSuperclass).takeWhile(_ != null)
    val field = kinds.flatMap(_.getDeclaredFields).find(_.getName.endsWith(name)).getOrElse(
      throw new NoSuchFieldException(s"$name of ${kind.getName}"))
    field.setAccessible(true)
    field
  }
}

private final class ImpatientClock(isBehind: () => Boolean) extends SystemClock {
  override def waitTillTime(targetTime: Long): Long =
    if (isBehind()) getTimeMillis() else super.waitTillTime(targetTime)
}
