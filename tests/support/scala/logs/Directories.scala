package org.apache.spark.sql.cecstore.testing

import java.nio.file.{Path, Paths}
import scala.util.Using

import org.apache.spark.sql.cecstore.keys.KeyRun
import org.apache.spark.sql.cecstore.log.{Base, StateLog}
import org.apache.spark.sql.cecstore.state.{ExtentTarget, KeyDirectories, RowMemory, SortedKeys, StateLoader}
import org.apache.spark.sql.cecstore.store.TimePlace

/** A golden log with key directories: what loads by them find, and the directories made anew from the log alone. */
private[cecstore] object Directories {
  private val memory = RowMemory(0)
  private val time = TimePlace(isInKey = false, Seq((2, 1)), isInMillis = false)

  /** Versions of `root`, and the directories of those that have one, made in `into`, which has its segments. */
  def run(words: Arguments): Programs.Result = {
    KeyDirectories.keysMin = 1
    KeyRun.keysMin = 1
    SortedKeys.blockRowsMax = 3
    val described = words.text("described").split(",").map(_.toLong)
    described.foreach(write(Paths.get(words.text("into")), _))
    val used = KeyDirectories.used.get
    val root = Paths.get(words.text("root"))
    val found = (1L to words.number("last", 0)).map(contentOf(root, _))
    Map("versions" -> found.map(_.plain), "byDirectory" -> (KeyDirectories.used.get - used))
  }

  private def write(path: Path, version: Long): Unit = withLog(path) { (log, directories) =>
    val last = log.find(version, None)
    val state = StateLoader.load(log, last, _ => false, log.location, memory)
    state.order(2)
    state.notAfter(time, Long.MinValue, () => ()).foreach(_ => ())
    directories.committed(Base.at(last), state, grows = true, ExtentTarget(2.0, None, None))
    directories.maintain()
  }

  private def contentOf(path: Path, version: Long): Content = withLog(path) { (log, directories) =>
    val last = log.find(version, None)
    val state = directories.load(log, last, memory).fold(StateLoader.load(log, last, _ => false, log.location, memory))(_._1)
    Logs.contentOf(state, last.header.extentRecords)
  }

  private def withLog[A](path: Path)(work: (StateLog, KeyDirectories) => A): A = {
    val folder = Logs.onDisk(path)
    Using.resource(new StateLog(folder))(work(_, new KeyDirectories(folder, folder.derivedFiles.get, "golden")))
  }
}
