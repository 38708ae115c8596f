package org.apache.spark.sql.cecstore.state

/** How an open store sees a state: as its puts have made it, or as it was when the version in progress began. */
private[cecstore] final class StateView(val state: LiveState, isBefore: Boolean) {
  /** The reference of the key's value, or [[KeyIndex.Absent]]. */
  def find(family: Int, key: Array[Byte], from: Int, length: Int): Long =
    if (isBefore) state.findBefore(family, key, from, length) else state.find(family, key, from, length)

  /** References of live rows of a family as `scan` gives them; rows may be put and removed meanwhile. */
  def live(family: Int, scan: KeyIndex => Iterator[Long]): Iterator[Long] =
    if (isBefore) state.liveBefore(family, scan) else state.live(family, scan)
}
