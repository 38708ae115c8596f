package org.apache.spark.sql.cecstore.keys

import scala.util.control.NoStackTrace
import org.apache.spark.sql.cecstore.local.{LocalSpace, WriteBuffer}

/**
 * Writes a run.
 *
 * @param entries calls with the hash and the reference of each key, in the order of hashes without sign, as often as it is asked
 */
private[keys] final class RunWriter(rows: RowsTable, size: Int, entries: ((Long, Long) => Unit) => Unit) {
  import RunWriter._

  private val spread = RunLayout.spread(size)

  /** Raises an IOException where there is no room for it, and then takes up none. */
  def written(space: LocalSpace): KeyRun =
    try written(space, spread + Spare) catch { case NoSlot => written(space, slotsNeeded) }

  private def written(space: LocalSpace, slots: Int): KeyRun = {
    val layout = RunLayout.of(rows, spread, slots)
    val (extent, at) = space.write(layout.bytes)(write(layout, _))
    new KeyRun(rows, size, layout, extent, at)
  }

  /** Up to the last entry: where very many keys have the last hashes, it stands far behind. */
  private def slotsNeeded: Int = {
    var end = 0
    entries((hash, _) => end = math.max(end, RunLayout.home(hash, spread)) + 1)
    math.max(end, spread)
  }

  private def write(layout: RunLayout, out: WriteBuffer): Unit = {
    var end = 0
    def skipTo(place: Int): Unit = while (end < place) { layout.addEmpty(out); end += 1 }
    entries { (hash, reference) =>
      skipTo(RunLayout.home(hash, spread))
      if (end == layout.slots) throw NoSlot
      layout.addTo(out, hash, reference)
      end += 1
    }
    skipTo(layout.slots)
  }
}

private[keys] object RunWriter {
  /** Slots behind those that hashes are spread over: of evenly spread ones a few dozen are too many there. */
  val Spare = 256
  object NoSlot extends RuntimeException with NoStackTrace
}
