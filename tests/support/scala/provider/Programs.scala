package org.apache.spark.sql.cecstore.testing

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.module.scala.DefaultScalaModule

/** What the Python tests run: `Programs <name> key=value …`. The last line on stdout is JSON. */
object Programs {
  type Result = Map[String, Any]

  private val all: Map[String, Arguments => Result] = Map(
    "model" -> ModelProgram.run,
    "misuse" -> Misuse.run,
    "damage" -> Damage.run,
    "golden" -> Golden.run,
    "read" -> Logs.run,
    "races" -> Races.run,
    "interrupts" -> Interrupts.run,
    "manyStores" -> ManyStores.run,
    "retention" -> Retention.run,
    "reads" -> Reads.run,
    "load" -> Reads.load,
    "large" -> Sizes.large,
    "heap" -> Sizes.heap,
    "leases" -> Leases.run,
    "ends" -> EndTable.run,
    "feed" -> Feed.run,
    "lists" -> Lists.run,
    "directories" -> Directories.run,
    "refusedLists" -> Lists.refused,
    "variables" -> Variables.run,
    "plainLogs" -> PlainLogs.run,
    "logObjects" -> LogObjects.run,
    "replacedQueues" -> LogObjects.replaced,
    "addCommits" -> LogObjects.add,
    "deleteOldCommits" -> LogObjects.deleteOld,
    "createObject" -> LogObjects.create,
    "replicaWalk" -> ReplicaWalk.run,
    "replicaRules" -> Rules.ofReplicas,
    "driverRules" -> DriverRules.run,
    "dueRows" -> DueRows.run,
    "dueRowsCosts" -> DueRows.costs,
    "dueKeys" -> DueKeys.run,
    "rules" -> Rules.run)

  def main(words: Array[String]): Unit = {
    val pairs = words.tail.map { word =>
      val Array(name, value) = word.split("=", 2)
      name -> value
    }
    val result = all(words.head)(new Arguments(pairs.toMap))
    println(new ObjectMapper().registerModule(DefaultScalaModule).writeValueAsString(result))
    // Spark leaves daemon threads and, with RocksDB, native ones: the result is out, so stop here.
    System.out.flush()
    Runtime.getRuntime.halt(0)
  }
}

/** `key=value` words. Whoever reads a number that was not given gets the default; a text must be. */
final class Arguments(words: Map[String, String]) {
  def text(name: String): String =
    words.getOrElse(name, throw new IllegalArgumentException(s"$name=… is missing"))
  def text(name: String, default: String): String = words.getOrElse(name, default)
  def number(name: String, default: Long): Long = words.get(name).fold(default)(_.toLong)
  def ++(more: Iterable[(String, String)]): Arguments = new Arguments(words ++ more)
  def flag(name: String): Boolean = words.get(name).contains("true")

  /** Spark settings are words like any: `spark.sql.….minBatchesToRetain=5`. */
  def settings: Map[String, String] = words.filter(_._1.startsWith("spark."))
}

final class Wrong(what: String) extends Exception(what)

object Check {
  def equal(what: => String, got: Any, wanted: Any): Unit =
    if (got != wanted) throw new Wrong(s"$what: got $got, wanted $wanted")

  def that(what: => String, holds: Boolean): Unit = if (!holds) throw new Wrong(what)
}
