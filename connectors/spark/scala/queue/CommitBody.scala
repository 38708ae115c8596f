package org.apache.spark.sql.cecstore.queue

import java.nio.ByteBuffer
import java.nio.charset.{CharacterCodingException, StandardCharsets}
import java.util.Base64
import scala.jdk.CollectionConverters._
import com.fasterxml.jackson.core.JacksonException
import com.fasterxml.jackson.databind.{DeserializationFeature, JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.spark.sql.cecstore.format.{BadFrame, Format, NewerFrame}

/** The body of a COMMIT frame, inflated: what it says as JSON, and numbers by columns. docs/format.md §11. */
private[queue] object CommitBody {
  private val SizesBytes = 16
  /** Of a segment: two i32, seven i64 and a u64, a flag, and where the name of its file ends. */
  private val SegmentBytes = 2 * 4 + 8 * 8 + 1 + 4
  private val Longs: Seq[Segment => Long] = Seq(_.firstOffset, _.records, _.byte, _.bytes, _.salt, _.leastUs, _.greatestUs,
    _.writtenUs)
  private val json = new ObjectMapper().enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)

  // -- writing ------------------------------------------------------------------------------

  def encode(commit: Commit, segments: IndexedSeq[Segment]): Array[Byte] =
    encoded(factsOf(commit), commit.starts, commit.ends, segments).getOrElse {
      throw new IllegalStateException(s"a commit of ${segments.size} segments, which is too large")
    }

  /** None where it would be larger than a frame can be. */
  def encode(since: Since): Option[Array[Byte]] = {
    val facts = json.createObjectNode()
    since.base.foreach { case (number, salt) => facts.put("number", number).put("salt", f"$salt%016x") }
    encoded(facts, Array.empty, Array.empty, since.segments)
  }

  private def encoded(said: ObjectNode, starts: Array[Long], ends: Array[Long], segments: IndexedSeq[Segment]) = {
    val (facts, files) = (json.writeValueAsBytes(said), segments.map(s => utf8(s.file)))
    val (partitions, names) = (ends.length, files.map(_.length.toLong).sum)
    val size = SizesBytes + facts.length + 16L * partitions + SegmentBytes.toLong * segments.size + names
    Option.when(size <= Format.RawBytesMax) {
      val bytes = new Array[Byte](size.toInt)
      val out = Format.littleEndian(bytes)
      out.putInt(facts.length).putInt(partitions).putInt(segments.size).putInt(names.toInt).put(facts)
      starts.foreach(out.putLong)
      ends.foreach(out.putLong)
      segments.foreach(s => out.putInt(s.partition))
      segments.foreach(s => out.putInt(s.frames))
      Longs.foreach(of => segments.foreach(s => out.putLong(of(s))))
      segments.foreach(s => out.put((if (s.removed) 1 else 0).toByte))
      files.iterator.scanLeft(0)(_ + _.length).drop(1).foreach(out.putInt)
      files.foreach(out.put(_))
      bytes
    }
  }

  private def utf8(text: String): Array[Byte] = text.getBytes(StandardCharsets.UTF_8)

  private def factsOf(commit: Commit): ObjectNode = {
    val facts = json.createObjectNode().put("operation", commit.operation.toInt)
    commit.query.foreach(facts.put("query", _).put("batch", commit.batch))
    if (commit.queries.nonEmpty) {
      val queries = facts.putObject("queries")
      commit.queries.toSeq.sortBy(_._1).foreach { case (name, batch) => queries.put(name, batch) }
    }
    if (commit.consumed.nonEmpty) {
      val consumed = facts.putObject("consumed")
      commit.consumed.toSeq.sortBy(_._1).foreach { case (queue, ends) =>
        val offsets = consumed.putArray(queue)
        ends.foreach(offsets.add(_))
      }
    }
    if (commit.settings.nonEmpty) {
      val settings = facts.putObject("settings")
      commit.settings.toSeq.sortBy(_._1).foreach { case (name, value) => settings.put(name, value) }
    }
    commit.schema.foreach(schema => facts.put("schema", Base64.getEncoder.encodeToString(schema)))
    facts
  }

  // -- reading ------------------------------------------------------------------------------

  /** The parts of a body whose CRC has been checked; nothing in it is believed beyond that. Raises BadFrame. */
  def decode(raw: Array[Byte]): (Commit, IndexedSeq[Segment]) = {
    val parts = partsOf(raw)
    (commitOf(parts.facts, parts.starts, parts.ends), segmentsIn(parts.rest, parts.rows, parts.ends.length))
  }

  /** What commit `number`, of so many partitions, says in its second frame. Raises BadFrame. */
  def decodeSince(raw: Array[Byte], number: Long, partitions: Int): Since = {
    val parts = partsOf(raw)
    val unknown = parts.facts.keySet -- SinceKeys
    if (unknown.nonEmpty) throw new NewerFrame(s"a commit that says since when ${unknown.toSeq.sorted.take(3).mkString(", ")}")
    val base = (parts.facts.get("number").map(long), parts.facts.get("salt").map(text)) match {
      case (None, None) => None
      case (Some(at), Some(salt)) if at != 0 => Some((at, saltOf(salt)))
      case (at, salt) => throw new BadFrame(s"no commit to go on from: $at, $salt")
    }
    if (parts.ends.nonEmpty || !QueueState.sinceBase(number).contains(base.fold(0L)(_._1))) {
      throw new BadFrame(s"commit $number says what came since commit ${base.map(_._1).orNull}")
    }
    Since(base, segmentsIn(parts.rest, parts.rows, partitions))
  }

  private def saltOf(text: String): Long = {
    val salt = try java.lang.Long.parseUnsignedLong(text, 16) catch { case _: NumberFormatException => throw new BadFrame(s"$text is no salt") }
    if (f"$salt%016x" != text) throw new BadFrame(s"$text is no salt")
    salt
  }

  /** `rest` begins at the first column of segments. */
  private final case class Parts(facts: Map[String, JsonNode], starts: Array[Long], ends: Array[Long], rest: ByteBuffer, rows: Int)

  private def partsOf(raw: Array[Byte]): Parts = {
    val in = Format.littleEndian(raw)
    if (raw.length < SizesBytes) throw new BadFrame(s"a body of ${raw.length} bytes")
    val Seq(factBytes, partitions, count, names) = Seq.fill(4)(in.getInt & 0xffffffffL)
    val size = SizesBytes + factBytes + 16 * partitions + SegmentBytes * count + names
    if (size != raw.length) throw new BadFrame(s"a body of ${raw.length} bytes, of which the sizes make $size")
    val facts = parsed(raw, factBytes.toInt)
    in.position(SizesBytes + factBytes.toInt)
    val Seq(starts, ends) = Seq.fill(2)(Array.fill(partitions.toInt)(in.getLong))
    Parts(facts, starts, ends, in, count.toInt)
  }

  private def parsed(raw: Array[Byte], count: Int): Map[String, JsonNode] = try {
    fieldsOf(json.readTree(textOf(ByteBuffer.wrap(raw, SizesBytes, count))))
  } catch { case e: JacksonException => throw new BadFrame(s"what a commit says: ${e.getOriginalMessage}") }

  private def textOf(bytes: ByteBuffer): String = try StandardCharsets.UTF_8.newDecoder.decode(bytes).toString catch {
    case _: CharacterCodingException => throw new BadFrame("a text that is no UTF-8")
  }

  private def segmentsIn(in: ByteBuffer, count: Int, partitions: Int): IndexedSeq[Segment] = {
    val Seq(ofPartitions, frames) = Seq.fill(2)(Array.fill(count)(in.getInt))
    val Seq(firsts, records, starts, sizes, salts, least, greatest, written) = Seq.fill(8)(Array.fill(count)(in.getLong))
    val removed = Array.fill(count)(in.get)
    val ends = Array.fill(count)(in.getInt)
    val names = in.position
    val fit = (0 +: ends).zip(ends).forall { case (from, to) => from >= 0 && from <= to } &&
      names + ends.lastOption.getOrElse(0) == in.limit()
    if (!fit) throw new BadFrame("names of files that do not fit each other")
    (0 until count).map { n =>
      val isPlaced = ofPartitions(n) >= 0 && ofPartitions(n) < partitions && firsts(n) >= 0 && starts(n) >= 0 && sizes(n) >= 0
      if (!isPlaced || records(n) < 0 || records(n) > 0 && least(n) > greatest(n) || removed(n) < 0 || removed(n) > 1) {
        throw new BadFrame("a segment that cannot be")
      }
      val from = if (n == 0) 0 else ends(n - 1)
      val file = textOf(ByteBuffer.wrap(in.array, names + from, ends(n) - from))
      Segment(ofPartitions(n), firsts(n), records(n), file, starts(n), sizes(n), salts(n), least(n), greatest(n), frames(n),
        written(n), removed(n) == 1)
    }
  }

  private def commitOf(facts: Map[String, JsonNode], starts: Array[Long], ends: Array[Long]): Commit = {
    if (ends.isEmpty || starts.min < 0) throw new BadFrame(s"${ends.length} partitions, starts of ${starts.take(3).mkString(", ")}")
    if (starts.indices.exists(n => starts(n) > ends(n))) throw new BadFrame("a partition that starts behind its end")
    val operation = facts.get("operation").fold(throw new BadFrame("a commit without an operation"))(long)
    if (operation < Operation.make || operation > Operation.set) throw new NewerFrame(s"a commit that does $operation")
    val unknown = facts.keySet -- Keys
    if (unknown.nonEmpty) throw new NewerFrame(s"a commit that says ${unknown.toSeq.sorted.take(3).mkString(", ")}")
    if (facts.contains("query") != facts.contains("batch")) throw new BadFrame("a query without its batch, or the other way round")
    def entries[A](name: String)(of: JsonNode => A): Map[String, A] =
      facts.get(name).fold(Map.empty[String, A])(fieldsOf(_).map { case (key, value) => key -> of(value) })
    Commit(operation.toByte, facts.get("query").map(text), facts.get("batch").fold(0L)(long), starts, ends,
      entries("queries")(long), entries("consumed")(longs), entries("settings")(text), facts.get("schema").map(bytes))
  }

  private val SinceKeys = Set("number", "salt")
  private val Keys = Set("operation", "query", "batch", "queries", "consumed", "settings", "schema")

  private def fieldsOf(node: JsonNode): Map[String, JsonNode] = {
    if (node == null || !node.isObject) throw new BadFrame("what a commit says is no object")
    node.properties.asScala.map(entry => entry.getKey -> entry.getValue).toMap
  }

  private def long(node: JsonNode): Long = {
    if (!node.isIntegralNumber || !node.canConvertToLong) throw new BadFrame(s"$node is no integer of 64 bits")
    node.longValue
  }

  private def longs(node: JsonNode): Array[Long] = {
    if (!node.isArray) throw new BadFrame(s"$node is no array")
    node.elements.asScala.map(long).toArray
  }

  private def text(node: JsonNode): String = {
    if (!node.isTextual) throw new BadFrame(s"$node is no text")
    node.textValue
  }

  private def bytes(node: JsonNode): Array[Byte] = try Base64.getDecoder.decode(text(node)) catch {
    case e: IllegalArgumentException => throw new BadFrame(s"base64: ${e.getMessage}")
  }
}
