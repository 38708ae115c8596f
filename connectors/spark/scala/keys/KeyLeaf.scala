package org.apache.spark.sql.cecstore.keys

import java.util.Arrays
import org.apache.spark.sql.cecstore.format.Rows
import org.apache.spark.unsafe.Platform

/**
 * References of keys that follow each other, in the order of their keys. Beside each stand four bytes of its key, behind those that all
 * keys of the leaf begin with: most searches end without a look at rows, whose keys may not be in memory.
 */
private[keys] final class KeyLeaf(rows: RowsTable, room: Int) {
  import KeyLeaf._

  var references = new Array[Long](room)
  var count = 0
  /** The four bytes of each key as numbers without sign; null until one is asked for. */
  private var words: Array[Int] = null
  /** A key that is not above those of the leaf, and above those of the leaf before; null until it is asked for. */
  private var least_ : Array[Byte] = null
  /** How many bytes all keys, and [[least]], begin with. */
  private var shared = 0

  /** Bytes in the heap, about. */
  def memoryBytes: Long = references.length * SlotBytes + OwnBytes

  def least: Array[Byte] = {
    if (least_ == null) least_ = keyOf(0)
    least_
  }

  private def keyOf(at: Int): Array[Byte] = rows.of(references(at)).key(references(at).toInt)
  private def keysInCommon: Int = rows.of(references(count - 1)).keyInCommon(references(count - 1).toInt, least, 0, least.length)

  private def readWords(): Unit = if (words == null) {
    shared = if (count == 0) 0 else keysInCommon
    words = new Array[Int](references.length)
    var i = 0
    while (i < count) { words(i) = rows.of(references(i)).keyWord(references(i).toInt, shared).toInt; i += 1 }
  }

  /**
   * Where the key is; its complement where it would have to be put in.
   *
   * @param isHere it is known to be here: where one key only has its word, that is it
   */
  def placeOf(key: Array[Byte], from: Int, length: Int, isHere: Boolean): Int = {
    readWords()
    val common = sharedWith(key, from, length)
    if (common < shared) { if (common == length || (key(from + common) & 0xff) < (least(common) & 0xff)) ~0 else ~count }
    else {
      val word = wordOf(key, from + shared, from + length)
      val first = firstNotBelow(word, 0)
      val end = if (first == count || words(first) != word) first else if (word == -1) count else firstNotBelow(word + 1, first + 1)
      if (isHere && end == first + 1) first else placeAmong(first, end, key, from, length)
    }
  }

  /** The first one from there on of which the word is not below this one. */
  private def firstNotBelow(word: Int, start: Int): Int = {
    var (low, high) = (start, count)
    while (low < high) {
      val middle = (low + high) >>> 1
      if (Integer.compareUnsigned(words(middle), word) < 0) low = middle + 1 else high = middle
    }
    low
  }

  /** The place of a key among those that have its word. */
  private def placeAmong(first: Int, end: Int, key: Array[Byte], from: Int, length: Int): Int = {
    var (low, high) = (first, end)
    while (low < high) {
      val middle = (low + high) >>> 1
      val order = rows.compare(references(middle), key, from, length)
      if (order == 0) return middle
      if (order < 0) low = middle + 1 else high = middle
    }
    ~low
  }

  /** How many of the bytes that all keys begin with this one begins with. */
  private def sharedWith(key: Array[Byte], from: Int, length: Int): Int = {
    val most = math.min(shared, length)
    val differs = Arrays.mismatch(least, 0, most, key, from, from + most)
    if (differs < 0) most else differs
  }

  def insert(at: Int, reference: Long, key: Array[Byte], from: Int, length: Int): Unit = {
    readWords()
    if (count == 0) {
      least_ = Arrays.copyOfRange(key, from, from + length)
      shared = length
    } else {
      share(sharedWith(key, from, length))
      if (at == 0 && Arrays.compareUnsigned(key, from, from + length, least, 0, least.length) < 0) least_ = Arrays.copyOfRange(key, from, from + length)
    }
    if (count == references.length) {
      references = Arrays.copyOf(references, count * 2)
      words = Arrays.copyOf(words, count * 2)
    }
    System.arraycopy(references, at, references, at + 1, count - at)
    System.arraycopy(words, at, words, at + 1, count - at)
    references(at) = reference
    words(at) = wordOf(key, from + shared, from + length)
    count += 1
  }

  /** All keys begin with so many bytes, which may be fewer than they did. */
  private def share(bytes: Int): Unit = if (bytes < shared) {
    val more = math.min(WordBytes, shared - bytes)
    val of = wordOf(least, bytes, least.length) & -1 << 8 * (WordBytes - more)
    var i = 0
    while (i < count) { words(i) = of | (if (more == WordBytes) 0 else words(i) >>> 8 * more); i += 1 }
    shared = bytes
  }

  def remove(at: Int): Unit = {
    count -= 1
    System.arraycopy(references, at + 1, references, at, count - at)
    if (words != null) System.arraycopy(words, at + 1, words, at, count - at)
  }

  /** Keep the first ones; those behind them are in the leaf that is returned, which has room for as many as this one. */
  def split(kept: Int): KeyLeaf = {
    val rest = new KeyLeaf(rows, references.length)
    rest.count = count - kept
    System.arraycopy(references, kept, rest.references, 0, rest.count)
    rest.words = new Array[Int](references.length)
    System.arraycopy(words, kept, rest.words, 0, rest.count)
    rest.shared = shared
    count = kept
    Seq(this, rest).foreach(_.lengthen())
    rest
  }

  /** Where words say little, and keys have more in common than they had, have them read again. */
  private def lengthen(): Unit = {
    var repeated = 0
    var i = 1
    while (i < count) { if (words(i) == words(i - 1)) repeated += 1; i += 1 }
    if (repeated > count / RepeatedPart && keysInCommon > shared) words = null
  }

  /** Take what the leaf behind this one has, which is of no use then. */
  def take(next: KeyLeaf): Unit = {
    readWords()
    next.readWords()
    val common = math.min(next.shared, sharedWith(next.least, 0, next.least.length))
    share(common)
    next.share(common)
    val all = count + next.count
    if (all > references.length) {
      references = Arrays.copyOf(references, all)
      words = Arrays.copyOf(words, all)
    }
    System.arraycopy(next.references, 0, references, count, next.count)
    System.arraycopy(next.words, 0, words, count, next.count)
    count = all
  }
}

private[keys] object KeyLeaf {
  private val WordBytes = 4
  /** Of a reference, with the word of its key. */
  private val SlotBytes = 12L
  /** Of a leaf beside these, with its least key. */
  private val OwnBytes = 160
  /** Of so many keys one may have the word of the one before: more of them are worth reading all. */
  private val RepeatedPart = 4

  /** Keys that are in order, no two of them equal. */
  def of(rows: RowsTable, references: Array[Long], room: Int): KeyLeaf = {
    val leaf = new KeyLeaf(rows, room)
    System.arraycopy(references, 0, leaf.references, 0, references.length)
    leaf.count = references.length
    leaf
  }

  /** Four bytes from there on as a number without sign; zeros behind the end. */
  private def wordOf(key: Array[Byte], from: Int, end: Int): Int = Rows.wordAt(key, Platform.BYTE_ARRAY_OFFSET + from.toLong, end - from)
}
