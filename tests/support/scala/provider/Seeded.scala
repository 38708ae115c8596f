package org.apache.spark.sql.cecstore.testing

/** A run of random calls that its seed decides; a failure names the seed and where it stood. */
trait Seeded {
  def all(): Unit
  def where: String
}

object Seeded {
  /** One run for each seed from `from` on, up to `until`; the words of the program may say others. */
  def run[A <: Seeded](words: Arguments, until: Long)(make: Long => A): Seq[A] =
    (words.number("from", 0) until words.number("until", until)).map { seed =>
      val run = make(seed)
      try run.all()
      catch {
        case wrong: Throwable =>
          wrong.printStackTrace()
          throw new Wrong(s"seed $seed, ${run.where}: $wrong")
      }
      run
    }
}
