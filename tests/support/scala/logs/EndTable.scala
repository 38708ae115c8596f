package org.apache.spark.sql.cecstore.testing

import java.nio.file.{Files, Paths}
import org.apache.spark.sql.cecstore.format.{EndFacts, Ends, LogKind}
import scala.jdk.CollectionConverters._

/** What Scala makes of the cases that tests/support/vectors/ends.py enumerates. */
private[cecstore] object EndTable {
  /** Each line of file `cases` is a kind and the facts, in their order; "-" is none. The verdict and the byte of each. */
  def run(words: Arguments): Programs.Result = {
    val lines = Files.readAllLines(Paths.get(words.text("cases"))).asScala
    Map("verdicts" -> lines.map { line =>
      val kind +: byte +: size +: claimed +: sealedEnd +: step +: flags = line.split(" ").toSeq
      def numbered(text: String): Option[Long] = Option.when(text != "-")(text.toLong)
      val Seq(newer, beyond, unfinished) = flags.map(_ == "true")
      val facts = EndFacts(byte.toLong, size.toLong, claimed.toLong, numbered(sealedEnd), numbered(step), newer, beyond,
        unfinished)
      val (verdict, at) = Ends.judge(LogKind.withName(kind), facts)
      s"$verdict $at"
    })
  }
}
