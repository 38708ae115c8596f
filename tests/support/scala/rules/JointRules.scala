package org.apache.spark.sql.cecstore.testing

import java.io.{FilterOutputStream, IOException, OutputStream}
import java.util.concurrent.{CountDownLatch, CyclicBarrier, TimeUnit}

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.cecstore.log.JoinNames
import org.apache.spark.sql.execution.streaming.state._

/** An object store at whose door each write does as a rule asks for, by the name of the store that it is for. */
final class GatedFiles extends ObjectStore("gated") {
  override protected def output(path: Path): OutputStream = new FilterOutputStream(super.output(path)) {
    override def close(): Unit = { if (NarrowFiles.isSegment(path)) GatedFiles.door(path.getParent.getName); super.close() }
  }
}

object GatedFiles {
  @volatile var door: String => Unit = _ => ()
}

/** A task that writes the four stores of a join. */
object JointRules {
  import Setting.{causes, refused}

  val rules: Seq[(String, Setting => Unit)] = Seq(
    "the stores of a join are written at the same time" -> together,
    "the last of a join's stores raises what the write of another has raised" -> failing,
    "a task that ends between a join's commits waits for their writes" -> ended,
    "an interrupt does not end a join's commits before their writes" -> interrupted)

  private val Names = JoinNames.ofCounts.flatMap(counts => Seq(counts, JoinNames.rowsBeside(counts)))
  private val WaitS = 20L

  private final class Join(setting: Setting, name: String) {
    private val made = new Stores(s"gated:${setting.folder}/$name", setting.words.text("provider"), setting.words.settings, v2 = setting.v2)
    val providers: Map[String, StateStoreProvider] = Names.map(name => name -> made.provider(setting.family, store = name)).toMap

    /** Put a value under key 1 in each store, and commit them as Spark does; says what each has made. */
    def version(bases: Map[String, Version], value: Int, names: Seq[String] = Names): Map[String, Version] = Tasks.run {
      val stores = Names.map(name => name -> Stores.open(providers(name), bases(name))).toMap
      committed = Map.empty
      names.foreach { name => setting.put(stores(name), 1, value); committed += name -> setting.commit(stores(name)) }
      committed
    }

    /** What the stores say that they have made since the last version was begun, even where the task has failed. */
    var committed: Map[String, Version] = Map.empty

    /** What a process that has nothing in memory finds. */
    def same(versions: Map[String, Version], value: Int): Unit = versions.foreach { case (name, version) =>
      val fresh = made.provider(setting.family, store = name)
      try Check.equal(name, Tasks.run(setting.content(fresh.getReadStore(version.number, version.id))), Map(1 -> value)) finally fresh.close()
    }

    def opened(name: String, version: Version): StateStore = Stores.open(providers(name), version)
  }

  private val Start = Names.map(_ -> Stores.Start).toMap

  private def atDoor[A](door: String => Unit)(body: => A): A = {
    GatedFiles.door = door
    try body finally GatedFiles.door = _ => ()
  }

  private def together(setting: Setting): Unit = {
    val (join, all) = (new Join(setting, "together"), new CyclicBarrier(Names.size))
    val made = atDoor(_ => all.await(WaitS, TimeUnit.SECONDS))(join.version(Start, 1))
    join.same(made, 1)
    join.same(atDoor(_ => all.await(WaitS, TimeUnit.SECONDS))(join.version(made, 2)), 2)
  }

  private def failing(setting: Setting): Unit = for (lost <- Names) {
    val join = new Join(setting, s"failing-$lost")
    val made = join.version(Start, 1)
    val error = refused(atDoor(name => if (name == lost) throw new IOException("no such luck"))(join.version(made, 2)))
    Check.that(s"$error", causes(error).exists(_.getMessage == "no such luck"))
    // It stood at the version in memory, and has never been in the log.
    if (lost != Names.last) refused(Tasks.run(join.opened(lost, join.committed(lost))))
    join.same(made, 1)
    join.same(join.version(made, 3), 3)
  }

  private def ended(setting: Setting): Unit = {
    val join = new Join(setting, "ended")
    val made = atDoor(_ => Thread.sleep(300))(join.version(Start, 1, Names.init))
    join.same(made, 1)
    join.same(join.version(made ++ Map(Names.last -> Stores.Start), 2), 2)
  }

  private def interrupted(setting: Setting): Unit = {
    val (join, isInterrupted, task) = (new Join(setting, "interrupted"), new CountDownLatch(1), Thread.currentThread)
    def door(name: String): Unit =
      if (name == Names.head) isInterrupted.await(WaitS, TimeUnit.SECONDS)
      else if (name == Names.last) new Thread(() => { Thread.sleep(200); task.interrupt(); Thread.sleep(200); isInterrupted.countDown() }).start()
    val made = atDoor(door)(join.version(Start, 1))
    Check.that("the task was interrupted", Thread.interrupted())
    join.same(made, 1)
  }
}
