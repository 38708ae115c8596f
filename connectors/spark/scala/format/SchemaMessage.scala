package org.apache.spark.sql.cecstore.format

import java.nio.ByteBuffer
import scala.util.control.NonFatal
import org.apache.arrow.flatbuf.{Message, MessageHeader}
import org.apache.arrow.vector.ipc.message.{IpcOption, MessageSerializer}
import org.apache.arrow.vector.types.pojo.Schema

/** The body of a SCHEMA frame: an Arrow schema message. Without channels: those fail in a task that is interrupted. */
private[cecstore] object SchemaMessage {
  def encode(schema: Schema): Array[Byte] = {
    val metadata = MessageSerializer.serializeMetadata(schema, IpcOption.DEFAULT)
    val bytes = new Array[Byte](8 + ArrowBytes.padded(metadata.remaining))
    Format.littleEndian(bytes).putInt(-1).putInt(bytes.length - 8).put(metadata)
    bytes
  }

  /** Raises BadFrame where the bytes are no schema. */
  def decode(bytes: Array[Byte]): Schema = try {
    val in = Format.littleEndian(bytes)
    if (bytes.length < 8 || in.getInt(0) != -1 || in.getInt(4) < 0 || in.getInt(4) > bytes.length - 8) {
      throw new BadFrame("schema message: no Arrow message")
    }
    val message = Message.getRootAsMessage(ByteBuffer.wrap(bytes, 8, in.getInt(4)).slice())
    if (message.headerType != MessageHeader.Schema) throw new BadFrame("schema message: another message")
    MessageSerializer.deserializeSchema(message)
  } catch {
    case e: BadFrame => throw e
    case NonFatal(e) => throw new BadFrame(s"schema message: $e")
  }
}
