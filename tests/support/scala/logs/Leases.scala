package org.apache.spark.sql.cecstore.testing

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.cecstore.log.{HadoopFolder, Leavable, OpenOutputs}

/** A writer that dies with its file open, and streams that nobody writes to. */
private[cecstore] object Leases {
  private val family = Family.kinds("plain")("default", false)

  def run(words: Arguments): Programs.Result = {
    val stores = new Stores(words.text("root"), words.text("provider"), words.settings, v2 = words.flag("v2"))
    var provider = stores.provider(family)
    var version = Stores.Start
    def commit(): Unit = version = Tasks.run {
      val store = Stores.open(provider, version)
      Check.equal(s"rows at $version", StoreReader.content(store, family).size, version.number)
      store.put(family.key(version.number.toInt), Values.row(1), family.name)
      Stores.commit(store, stores.v2)
    }
    commit()
    commit()
    // Another reader of this process disturbs nobody who writes.
    val other = stores.provider(family)
    Tasks.run(Check.equal("rows of another reader", StoreReader.content(other.getReadStore(2, version.id), family).size, 2))
    Check.equal("leases recovered of who lives", LeasedFiles.asked.get, 0)
    commit()
    // Killed: the file stays open, and this process is another one now.
    SyncedFiles.outputs.keySet.asScala.foreach(_.isDead = true)
    HadoopFolder.writing.clear()
    provider = stores.provider(family)
    commit()
    Check.equal("leases recovered", LeasedFiles.asked.get, 1)
    Map("idle" -> idle(), "versions" -> version.number)
  }

  private final class Stream extends Leavable {
    var isLeft = false
    override def leave(): Unit = isLeft = true
  }

  /** Which of five streams are left: the one longest unused where four may be open, then those not used for long. */
  private def idle(): Seq[Seq[Int]] = {
    var now = 0L
    val outputs = new OpenOutputs(4, 100, () => now)
    val streams = Vector.fill(5)(new Stream)
    def left = streams.indices.filter(streams(_).isLeft)
    (0 to 3).foreach(i => outputs.touch(streams(i)))
    outputs.touch(streams(0))
    outputs.touch(streams(4))
    val crowded = left
    now = 60
    outputs.touch(streams(2))
    now = 120
    outputs.leaveIdle()
    Seq(crowded, left)
  }
}
