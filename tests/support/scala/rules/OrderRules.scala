package org.apache.spark.sql.cecstore.testing

import java.nio.ByteBuffer
import java.util.{ArrayList, Arrays, Collections, Random, TreeMap}

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.cecstore.format.{Format, Rows}
import org.apache.spark.sql.cecstore.keys.{KeyIndex, OrderedIndex, RowsTable}
import org.apache.spark.sql.cecstore.local.LocalSpace

/** The index of keys in the order of their bytes. */
object OrderRules {
  val rules: Seq[(String, Setting => Unit)] = Seq(
    "keys that are put in order at once are in the order of their bytes" -> atOnce,
    "keys in order are what a map has, and a scan of them what was there when it began" -> whileItChanges,
    "keys in order are found whatever bytes they begin with, and in whatever order they come and go" -> ofManyBeginnings)

  /** Also where one begins with another, where many begin with the same bytes, and where their rows are in a local file. */
  private def atOnce(setting: Setting): Unit = for (seed <- 0 until 200) {
    val random = new Random(seed)
    val start = new Array[Byte](random.nextInt(9))
    random.nextBytes(start)
    val keys = Seq.fill(random.nextInt(400)) { start ++ randomBytes(random) }.distinctBy(_.toSeq).toArray
    val held = new PutRows(setting, isLocal = seed % 2 == 1)
    val references = held.put(keys.toSeq).toArray
    val due = references.sortWith((a, b) => KeyIndex.Unsigned.compare(held.keyOf(a), held.keyOf(b)) < 0).toVector
    val index = OrderedIndex.of(held.rows, references.clone)
    Check.equal(s"seed $seed", index.references.toVector, due)
    Check.equal("keys", index.size, keys.length)
    Check.that("bytes a key", keys.length < 16 || index.memoryBytes <= 512 * 12 + 160 + keys.length * 18L)
    keys.zip(references).foreach { case (key, reference) => Check.equal("a key", index.find(key, 0, key.length), reference) }
    keys.foreach(key => index.delete(key, 0, key.length))
    Check.equal("what is left", (index.size, index.memoryBytes), (0, 0L))
  }

  private def randomBytes(random: Random): Array[Byte] =
    Array.fill(random.nextInt(9))((if (random.nextInt(3) == 0) random.nextInt(256) else random.nextInt(2)).toByte)

  private final class PutRows(setting: Setting, isLocal: Boolean) {
    val rows = new RowsTable
    private var next = 1
    private val local = new LocalSpace(Seq(setting.folder.toFile), 1L << 20)

    /** A part of one row each key, with a row of another key in front. Returns their references. */
    def put(keys: Seq[Array[Byte]]): Seq[Long] = {
      val part = new Rows(next, 16, 256, 256)
      part.append(Format.Check, 1, new Array[Byte](3), 0, 3, new Array[Byte](0), 0, 0)
      val made = keys.map(key => part.reference(part.append(Format.Check, 1, key, 0, key.length, key, 0, 0)))
      part.trim()
      rows.put(if (isLocal) { val (extent, at) = local.write(part.localParts); part.movedTo(extent, at) } else part)
      next += 1
      made
    }

    def keyOf(reference: Long): Array[Byte] = rows.of(reference).key(reference.toInt)
  }

  /** Puts, removals and moves of rows against a map, with scans under way that show what was there when they began. */
  private def whileItChanges(setting: Setting): Unit = for (seed <- 0 until 120) {
    val random = new Random(seed)
    val held = new PutRows(setting, isLocal = seed % 3 == 2)
    val model = new TreeMap[Array[Byte], Long](KeyIndex.Unsigned)
    val least = if (seed % 4 == 0) 3000 else 200
    val first = Seq.fill(random.nextInt(least))(someKey(random, least)).distinctBy(_.toSeq)
    val references = held.put(first)
    first.zip(references).foreach { case (key, reference) => model.put(key, reference) }
    val index = OrderedIndex.of(held.rows, references.toArray)
    val scans = ArrayBuffer.empty[(Iterator[Long] with AutoCloseable, Iterator[Long])]
    for (_ <- 0 until 600) random.nextInt(9) match {
      case 0 if scans.size < 3 => scans += begun(index, model, random, least)
      case 1 if scans.nonEmpty => scans.remove(random.nextInt(scans.size))._1.close()
      case 2 if random.nextInt(40) == 0 => index.endScans(); scans.clear()
      case 3 | 4 =>
        val key = someKey(random, least)
        index.delete(key, 0, key.length)
        model.remove(key)
      case 5 if scans.isEmpty && !model.isEmpty => moveAll(index, model, held, random)
      case 6 | 7 =>
        val key = someKey(random, least)
        val replace = random.nextBoolean()
        val Seq(reference) = held.put(Seq(key))
        val old = if (model.containsKey(key)) model.get(key) else KeyIndex.Absent
        if (replace || old == KeyIndex.Absent) model.put(key, reference)
        Check.equal("what it had", index.put(key, 0, key.length, reference, replace), old)
      case _ => scans.foreach { case (scan, due) => (0 until random.nextInt(20)).foreach { _ =>
        Check.equal(s"seed $seed: whether there is more", scan.hasNext, due.hasNext)
        if (due.hasNext) Check.equal(s"seed $seed: the next one", scan.next(), due.next())
      } }
    }
    scans.foreach { case (scan, due) => Check.equal(s"seed $seed: the rest", scan.toVector, due.toVector) }
    Check.equal(s"seed $seed: all", index.references.toVector, model.values.asScala.toVector)
    Check.equal("keys", index.size, model.size)
    model.forEach((key, reference) => Check.equal("a key", index.find(key, 0, key.length), reference))
  }

  /**
   * Many leaves, which come apart and together; keys have much in common, then little, and one ends where others go on with zeros.
   * A key that is known to be there is found as well.
   */
  private def ofManyBeginnings(setting: Setting): Unit = for (seed <- 0 until 60) {
    val random = new Random(seed)
    val beginnings = Seq.fill(1 + random.nextInt(4))(Array.fill(random.nextInt(20))(random.nextInt(3).toByte))
    def ending: Array[Byte] = random.nextInt(3) match {
      case 0 => new Array[Byte](random.nextInt(8))
      case 1 => ByteBuffer.allocate(4).putInt(random.nextInt(2000)).array.reverse
      case _ => ByteBuffer.allocate(12).putInt(random.nextInt(3)).putLong(random.nextInt(500)).array
    }
    val keys = Seq.fill(3000)(beginnings(random.nextInt(beginnings.size)) ++ ending).distinctBy(_.toSeq)
    val inOrder = keys.sortWith((a, b) => KeyIndex.Unsigned.compare(a, b) < 0)
    val held = new PutRows(setting, isLocal = seed % 2 == 1)
    val references = held.put(keys).toArray
    val of = keys.zip(references).map { case (key, reference) => key.toSeq -> reference }.toMap
    val begun = references.take(random.nextInt(2) * random.nextInt(keys.size))
    val index = OrderedIndex.of(held.rows, begun.clone)
    val model = new TreeMap[Array[Byte], Long](KeyIndex.Unsigned)
    begun.foreach(reference => model.put(held.keyOf(reference), reference))
    def put(key: Array[Byte]): Unit = {
      val was = model.containsKey(key)
      val old = if (was && random.nextBoolean()) index.swapKnown(key, 0, key.length, of(key.toSeq)) else index.swap(key, 0, key.length, of(key.toSeq))
      Check.equal("what it had", old, if (was) of(key.toSeq) else KeyIndex.Absent)
      model.put(key, of(key.toSeq))
    }
    def remove(key: Array[Byte]): Unit = {
      if (model.containsKey(key) && random.nextBoolean()) index.deleteHeld(key, 0, key.length, of(key.toSeq)) else index.delete(key, 0, key.length)
      model.remove(key)
    }
    for (_ <- 0 until 4) {
      val some = (random.nextInt(3) match { case 0 => inOrder; case 1 => inOrder.reverse; case _ => keys }).filter(_ => random.nextInt(4) > 0)
      if (random.nextBoolean()) some.foreach(put) else some.foreach(remove)
      Check.equal(s"seed $seed: all", index.references.toVector, model.values.asScala.toVector)
      keys.foreach(key => Check.equal(s"seed $seed: a key", index.find(key, 0, key.length), model.getOrDefault(key, KeyIndex.Absent)))
    }
    keys.foreach(remove)
    Check.equal("what is left", (index.size, index.memoryBytes), (0, 0L))
  }

  private def someKey(random: Random, least: Int): Array[Byte] =
    if (random.nextInt(3) == 0) randomBytes(random) else ByteBuffer.allocate(8).putInt(random.nextInt(4) - 2).putInt(random.nextInt(least)).array

  private def begun(index: OrderedIndex, model: TreeMap[Array[Byte], Long], random: Random, least: Int) = {
    val start = if (random.nextInt(3) == 0) null else someKey(random, least)
    val end = if (random.nextInt(3) == 0) null else someKey(random, least)
    val isPrefix = start != null && random.nextBoolean()
    val prefix = if (isPrefix) Arrays.copyOf(start, random.nextInt(start.length + 1)) else null
    val entries = model.asScala.toVector
    val due = entries.filter { case (key, _) =>
      if (isPrefix) key.startsWith(prefix)
      else (start == null || KeyIndex.Unsigned.compare(key, start) >= 0) && (end == null || KeyIndex.Unsigned.compare(key, end) < 0)
    }.map(_._2)
    (if (isPrefix) index.startingWith(prefix) else index.between(start, end), due.iterator)
  }

  /** As when a version is packed: rows of one part get other numbers, all at once. */
  private def moveAll(index: OrderedIndex, model: TreeMap[Array[Byte], Long], held: PutRows, random: Random): Unit = {
    val keys = new ArrayList(model.keySet)
    Collections.shuffle(keys, random)
    val whole = held.rows.of(model.get(keys.get(0)))
    val packed = new Rows(whole.id, 16, 256, 256)
    val moved = (0 until whole.count).filter(row => model.getOrDefault(whole.key(row), KeyIndex.Absent) == whole.reference(row)).map { row =>
      val to = packed.reference(packed.appendFrom(whole, row, Format.Check))
      index.willMove(whole.key(row), 0, whole.keyLength(row), to)
      whole.key(row) -> to
    }
    packed.trim()
    held.rows.put(packed)
    index.moved()
    moved.foreach { case (key, to) => model.put(key, to) }
  }
}
