"""The names and limits of the provider's settings, and how they reach a Spark session."""

import re
import shlex
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cec_store.connectors import spark
from cec_store.connectors.spark.setup.compiler import SOURCES
from cec_store.connectors.spark.setup.session import (
    JARS,
    apply,
    default_properties,
    submit_arguments_with_jar,
    submitted_settings,
    with_jar,
)
from cec_store.connectors.spark.setup.settings import (
    EXTENSION,
    EXTENSIONS,
    PLUGIN,
    PLUGINS,
    PREFIX,
    PROVIDER,
    PROVIDER_KEY,
    SETTINGS,
    STORE_PREFIX,
    WITHOUT_EFFECT,
    check_names,
    check_texts,
    has_effect,
    session_settings,
    spark_settings,
)
from cec_store.errors import SparkUnavailable
from cec_store.storage import mounts
from cec_store.storage.mounts import Mount

SQL = pytest.importorskip("pyspark.sql")
JAR = "/cache/cec-store-spark-4.3.0_2.13-0.1.0.jar"
CHOSEN = {PROVIDER_KEY: PROVIDER, JARS: JAR}


def test_names_are_those_that_the_provider_knows() -> None:
    scala = (SOURCES / "store" / "Settings.scala").read_text(encoding="utf-8")
    names = re.search(r"val Names = Seq\(([^)]*)\)", scala)
    assert names
    assert set(re.findall(r'"(\w+)"', names[1])) == {setting.name for setting in SETTINGS}
    assert f'val Prefix = "{PREFIX}"' in scala


def test_settings_without_effect_are_those_of_the_provider() -> None:
    scala = (SOURCES / "store" / "SparksSettings.scala").read_text(encoding="utf-8")
    names = re.search(r"val Ignored = Map\((.*?)\)\n", scala, re.DOTALL)
    assert names
    assert tuple(re.findall(r'"([\w.]+)" ->', names[1])) == WITHOUT_EFFECT
    assert f'val Prefix = "{STORE_PREFIX}"' in scala


@pytest.mark.parametrize(
    ("name", "value", "has"),
    [
        ("compression.codec", "zstd", False),
        ("rocksdb.changelogCheckpointing.enabled", "true", False),
        ("rocksdb.trackTotalNumberOfRows", "false", True),
        ("unloadOnCommit.enabled", "true", True),
    ],
)
def test_what_has_an_effect(name: str, value: str, has: bool) -> None:
    assert has_effect(STORE_PREFIX + name, value) is has


@pytest.mark.parametrize(
    ("name", "text", "is_allowed"),
    [
        ("recoveryTimeMs", "100", True), ("recoveryTimeMs", "99", False),
        ("recoveryTimeMs", "2.5", False), ("extentFactor", "1.25", True),
        ("extentFactor", "1", False), ("extentMaxRecords", "0", False),
        ("syncMode", "none", True), ("syncMode", "off", False), ("segmentBytes", "64m", True),
        ("segmentBytes", "1k", False), ("segmentBytes", "64 m", False),
        ("segmentBytes", "1.5m", False), ("segmentBytes", "64MiB", True),
        ("replicaMemoryBytes", "1t", True), ("replicaMemoryBytes", "1pb", True),
        ("replicaMemoryBytes", "2p", False), ("replicaMemoryBytes", "1e6", False),
        ("replicas", " 2 ", True), ("replicas", "-1", False),
        ("replicaWarmLagVersions", "0", True), ("replicaWarmLagVersions", "1.5", False),
        ("replicaWarmUps", " 2 ", True), ("replicaWarmUps", "all", False),
    ],
)  # fmt: skip
def test_texts_are_checked_as_the_provider_does(name: str, text: str, is_allowed: bool) -> None:
    with nullcontext() if is_allowed else pytest.raises(ValueError, match=r"must be"):
        check_texts({PREFIX + name: text})


def test_submitted_settings_are_those_of_spark_submit() -> None:
    words = (
        "--conf a=1 -c b=x=y --conf=c=3 --jars /x.jar,/y.jar --master=yarn --deploy-mode cluster "
        "--name 'an app' --driver-class-path /z.jar pyspark-shell"
    )
    assert submitted_settings(words) == {
        "a": "1", "b": "x=y", "c": "3", "spark.jars": "/x.jar,/y.jar", "spark.master": "yarn",
        "spark.submit.deployMode": "cluster", "spark.driver.extraClassPath": "/z.jar",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("keyword", "value", "name", "text"),
    [
        ("recovery_time_s", 2, "recoveryTimeMs", "2000"),
        ("recovery_time_s", 0.1, "recoveryTimeMs", "100"),
        ("recovery_time_s", 86_400, "recoveryTimeMs", "86400000"),
        ("extent_factor", 1.25, "extentFactor", "1.25"),
        ("extent_factor", 1000, "extentFactor", "1000.0"),
        ("extent_max_records", 1, "extentMaxRecords", "1"),
        ("check_time_ms", 0, "checkTimeMs", "0"),
        ("sync_mode", "none", "syncMode", "none"),
        ("compression_level", 19, "compressionLevel", "19"),
        ("segment_bytes", 1 << 16, "segmentBytes", "65536"),
        ("segment_bytes", "64m", "segmentBytes", "67108864"),
        ("segment_bytes", "1 GB", "segmentBytes", "1073741824"),
        ("segment_bytes", "1.5 MiB", "segmentBytes", "1572864"),
        ("replicas", 2, "replicas", "2"),
        ("replica_memory_bytes", "1t", "replicaMemoryBytes", str(1 << 40)),
        ("replica_memory_bytes", "512m", "replicaMemoryBytes", "536870912"),
        ("replica_memory_bytes", 0, "replicaMemoryBytes", "0"),
        ("replica_warm_lag_versions", 0, "replicaWarmLagVersions", "0"),
        ("replica_warm_ups", 2, "replicaWarmUps", "2"),
        ("memory_bytes", "1GiB", "memoryBytes", "1073741824"),
        ("key_directories", True, "keyDirectories", "true"),
        ("key_directories", False, "keyDirectories", "false"),
        ("check_directories", True, "checkDirectories", "true"),
    ],
)
def test_value_is_written_as_spark_reads_it(
    keyword: str, value: object, name: str, text: str
) -> None:
    assert spark_settings({keyword: value}) == {PREFIX + name: text}


@pytest.mark.parametrize(
    ("keyword", "value", "allowed"),
    [
        ("recovery_time_s", 0.0999, "0.1 to 86,400"),
        ("recovery_time_s", 86_401, "0.1 to 86,400"),
        ("recovery_time_s", float("nan"), "0.1 to 86,400"),
        ("recovery_time_s", float("inf"), "0.1 to 86,400"),
        ("recovery_time_s", "soon", "0.1 to 86,400"),
        ("recovery_time_s", True, "0.1 to 86,400"),
        ("extent_factor", 1.2, "1.25 to 1000"),
        ("extent_factor", 1000.5, "1.25 to 1000"),
        ("extent_factor", float("nan"), "1.25 to 1000"),
        ("extent_max_records", 0, "1 or more"),
        ("extent_max_records", 2**61, "1 or more"),
        ("extent_max_records", 1.5, "1 or more"),
        ("check_time_ms", -1, "0 to 3,600,000"),
        ("check_time_ms", 3_600_001, "0 to 3,600,000"),
        ("sync_mode", "always", "'commit' or 'none'"),
        ("compression_level", 20, "0 (none) to 19"),
        ("compression_level", -1, "0 (none) to 19"),
        ("segment_bytes", (1 << 16) - 1, "64 KiB to 1 GiB"),
        ("segment_bytes", "2g", "64 KiB to 1 GiB"),
        ("segment_bytes", "64 miles", "64 KiB to 1 GiB"),
        ("replicas", -1, "0 to 100"),
        ("replicas", 101, "0 to 100"),
        ("replica_memory_bytes", "much", "0 to 1 PiB"),
        ("replica_warm_lag_versions", -1, "0 to 1,000,000"),
        ("replica_warm_ups", 10_001, "0 to 10,000"),
        ("memory_bytes", -1, "0 to 1 PiB"),
        ("key_directories", "yes", "True or False"),
        ("check_directories", "yes", "True or False"),
    ],
)
def test_refusal_has_the_name_the_value_and_what_is_allowed(
    keyword: str, value: object, allowed: str
) -> None:
    with pytest.raises(ValueError, match="must be") as caught:
        spark_settings({keyword: value})
    assert str(caught.value).startswith(f"{keyword} must be {allowed}")
    assert str(caught.value).endswith(f"not {value!r}")


def test_two_targets_are_refused_by_their_names() -> None:
    with pytest.raises(ValueError, match="recovery_time_s and extent_max_records"):
        spark_settings({"recovery_time_s": 2, "extent_max_records": 5})
    with pytest.raises(ValueError, match="recoveryTimeMs and extentFactor"):
        check_names([PREFIX + "recoveryTimeMs", PREFIX + "extentFactor"])


def test_misspelt_keyword_is_refused_with_the_one_that_was_meant() -> None:
    misspelt: Any = {"recovery_time": 2}
    with pytest.raises(ValueError, match=r"did you mean recovery_time_s\?"):
        spark.conf(**misspelt)


def test_misspelt_spark_name_is_refused_before_spark_takes_it() -> None:
    with pytest.raises(ValueError, match=r"did you mean .*\.cec\.extentFactor\?"):
        check_names([PREFIX + "extentfactor"])
    with pytest.raises(ValueError, match=r"did you mean .*\.cec\.syncMode\?"):
        check_names([PREFIX.lower() + "syncmode"])
    check_names([PREFIX + "syncMode", "spark.sql.streaming.stateStore.providerClass"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", JAR),
        ("a.jar, b.jar", f"a.jar,b.jar,{JAR}"),
        ("a.jar,/old/cec-store-spark-4.2.0_2.13-0.0.9.jar,b.jar", f"a.jar,b.jar,{JAR}"),
        (JAR, JAR),
        ("/ivy/jars/io.github.cec-store_cec-store-spark-4.3.0_2.13-0.1.0.jar", JAR),
        ("/x/my-cec-store-spark-4.3.0.jar", f"/x/my-cec-store-spark-4.3.0.jar,{JAR}"),
    ],
)
def test_other_jars_stay_and_older_ones_of_ours_go(before: str, after: str) -> None:
    assert with_jar(before, JAR) == after


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("pyspark-shell", "pyspark-shell"),
        ("--conf  spark.x=1 pyspark-shell", "--conf  spark.x=1 pyspark-shell"),
        ("--jars a.jar pyspark-shell", f"--jars a.jar,{JAR} pyspark-shell"),
        ("--jars=a.jar pyspark-shell", f"--jars=a.jar,{JAR} pyspark-shell"),
        ("--conf spark.jars=a.jar pyspark-shell", f"--conf spark.jars=a.jar,{JAR} pyspark-shell"),
        ("--conf=spark.jars=a.jar pyspark-shell", f"--conf=spark.jars=a.jar,{JAR} pyspark-shell"),
        ("--name 'a b' --jars a pyspark-shell", f"--name 'a b' --jars a,{JAR} pyspark-shell"),
    ],
)  # fmt: skip
def test_jars_in_submit_arguments_do_not_hide_ours(arguments: str, expected: str) -> None:
    assert shlex.split(submit_arguments_with_jar(arguments, JAR)) == shlex.split(expected)


def variables(tmp_path: Path, **more: str) -> dict[str, str]:
    """A Spark and a Java by name only: enough to find them, and nothing is started."""
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    (jars / "spark-core_2.13-4.3.0.jar").touch()
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\necho ' java.home = /jdk'\necho ' java.specification.version = 17'\n",
        encoding="utf-8",
    )
    java.chmod(0o755)
    return {"SPARK_HOME": str(jars.parent), "JAVA_HOME": str(java.parent.parent), **more}


def options_of(builder: Any) -> dict[str, str]:
    return {name: value for name, value in builder._options.items() if name in (JARS, PROVIDER_KEY)}


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Any:
    """pyspark's own, in a process whose JVM, if another test started one, is out of sight."""
    from pyspark import SparkContext

    monkeypatch.setattr(SparkContext, "_gateway", None)
    return SQL.SparkSession.Builder()


def test_jars_of_the_builder_stay(tmp_path: Path, builder: Any) -> None:
    builder.config(JARS, "a.jar")
    assert apply(builder, CHOSEN, variables(tmp_path)) is builder
    assert options_of(builder) == {PROVIDER_KEY: PROVIDER, JARS: f"a.jar,{JAR}"}
    apply(builder, CHOSEN, dict(variables(tmp_path / "again")))
    assert options_of(builder)[JARS] == f"a.jar,{JAR}"


@pytest.mark.parametrize("form", ["--properties-file {}", "--properties-file={}"])
def test_a_file_of_properties_stands_in_place_of_sparks_defaults(
    tmp_path: Path, builder: Any, form: str
) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.jars d.jar\nspark.x 1\n", "utf-8")
    own = tmp_path / "own.conf"
    own.write_text("# at C:\\\nspark.jars /a.jar,\\\n  /b.jar\nspark.y 2\n", "utf-8")
    words = form.format(own)
    settings = variables(
        tmp_path, SPARK_CONF_DIR=str(tmp_path), PYSPARK_SUBMIT_ARGS=f"{words} pyspark-shell"
    )
    assert default_properties(settings) == {"spark.jars": "/a.jar,/b.jar", "spark.y": "2"}
    assert options_of(apply(builder, CHOSEN, settings))[JARS] == f"/a.jar,/b.jar,{JAR}"
    settings["PYSPARK_SUBMIT_ARGS"] = f"--load-spark-defaults {words} pyspark-shell"
    assert default_properties(settings) == {
        "spark.jars": "/a.jar,/b.jar", "spark.x": "1", "spark.y": "2",
    }  # fmt: skip


def test_jars_of_spark_defaults_stay_unless_the_builder_hides_them(
    tmp_path: Path, builder: Any
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# a comment\n\nspark.jars   d.jar\nspark.x=1\nspark.y: 2\n", encoding="utf-8"
    )
    settings = variables(tmp_path, SPARK_CONF_DIR=str(tmp_path))
    assert default_properties(settings) == {"spark.jars": "d.jar", "spark.x": "1", "spark.y": "2"}
    assert options_of(apply(builder, CHOSEN, settings))[JARS] == f"d.jar,{JAR}"
    other = SQL.SparkSession.Builder().config(JARS, "a.jar")
    assert options_of(apply(other, CHOSEN, settings))[JARS] == f"a.jar,{JAR}"


def test_a_mount_of_checkpoints_that_keeps_less_is_told(
    tmp_path: Path, builder: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mount = Mount("tmpfs", "none", str(tmp_path), "rw")
    monkeypatch.setattr(mounts, "mount_of", lambda path: mount)
    monkeypatch.setattr(mounts, "_told", set())
    places = ["s3a://bucket/c", "", f"file:{tmp_path}/c", f"{tmp_path}/d"]
    for number, place in enumerate(places):
        builder.config("spark.sql.streaming.checkpointLocation", place)
        apply(builder, CHOSEN, variables(tmp_path / str(number)))
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith(f"{tmp_path}/c is on tmpfs (none at {tmp_path}): it is kept in memory")


def test_submit_arguments_and_python_are_set_in_the_environment(
    tmp_path: Path, builder: Any
) -> None:
    settings = variables(tmp_path, PYSPARK_SUBMIT_ARGS="--jars a.jar pyspark-shell")
    apply(builder, CHOSEN, settings)
    assert settings["PYSPARK_SUBMIT_ARGS"] == f"--jars a.jar,{JAR} pyspark-shell"
    assert Path(settings["PYSPARK_PYTHON"]).exists()


def test_what_was_submitted_stays_as_well(tmp_path: Path, builder: Any) -> None:
    """pyspark sets the builder's settings over those of the command line."""
    others = {JARS: "/opt/udfs.jar", EXTENSIONS: "com.example.E", PLUGINS: "com.example.P"}
    words = " ".join(f"--conf {name}={value}" for name, value in others.items() if name != JARS)
    arguments = f"--jars {others[JARS]} {words} pyspark-shell"
    chosen = session_settings(JAR, spark_settings({"replicas": 1}))
    apply(builder, chosen, variables(tmp_path, PYSPARK_SUBMIT_ARGS=arguments))
    for name, other in others.items():
        assert builder._options[name].split(",") == [other, chosen[name]]


def test_settings_of_spark_defaults_are_checked_too(tmp_path: Path, builder: Any) -> None:
    (tmp_path / "spark-defaults.conf").write_text(f"{PREFIX}recoveryTimeMs 2000\n")
    chosen = {**CHOSEN, **spark_settings({"extent_factor": 3})}
    with pytest.raises(ValueError, match="give one of them"):
        apply(builder, chosen, variables(tmp_path, SPARK_CONF_DIR=str(tmp_path)))


def test_builder_with_another_target_is_refused(tmp_path: Path, builder: Any) -> None:
    builder.config(PREFIX + "extentFactor", "3")
    with pytest.raises(ValueError, match="give one of them"):
        apply(builder, {**CHOSEN, **spark_settings({"recovery_time_s": 2})}, variables(tmp_path))


def test_replicas_come_with_the_plugin_and_others_stay(tmp_path: Path, builder: Any) -> None:
    assert PLUGINS not in session_settings(JAR, spark_settings({"replicas": 0}))
    chosen = session_settings(JAR, spark_settings({"replicas": 1}))
    assert chosen[PLUGINS] == PLUGIN
    builder.config(PLUGINS, "com.example.Other")
    apply(builder, chosen, variables(tmp_path))
    assert builder._options[PLUGINS] == f"com.example.Other,{PLUGIN}"
    apply(builder, chosen, variables(tmp_path / "again"))
    assert builder._options[PLUGINS] == f"com.example.Other,{PLUGIN}"


def test_replicas_are_refused_where_a_session_runs_without_the_plugin(
    tmp_path: Path, builder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark import SparkContext

    def running(plugins: str) -> Any:
        return SimpleNamespace(getConf=lambda: {PLUGINS: plugins})

    chosen = session_settings(JAR, spark_settings({"replicas": 1}))
    monkeypatch.setattr(SparkContext, "_active_spark_context", running("com.example.Other"))
    with pytest.raises(SparkUnavailable, match="stop it first"):
        apply(builder, chosen, variables(tmp_path))
    assert PLUGINS not in builder._options
    monkeypatch.setattr(SparkContext, "_active_spark_context", running(f"other,{PLUGIN}"))
    apply(builder, chosen, variables(tmp_path / "again"))


def test_the_extension_stands_beside_others_and_once(tmp_path: Path, builder: Any) -> None:
    chosen = session_settings(JAR, spark_settings({}))
    builder.config(EXTENSIONS, "com.example.Other")
    for folder in ("once", "again"):
        apply(builder, chosen, variables(tmp_path / folder))
        assert builder._options[EXTENSIONS] == f"com.example.Other,{EXTENSION}"


def test_a_jar_without_the_extension_goes_on_without_it(tmp_path: Path, builder: Any) -> None:
    chosen = session_settings(JAR, spark_settings({}), has_extension=False)
    builder.config(EXTENSIONS, "com.example.Other")
    apply(builder, chosen, variables(tmp_path))
    assert builder._options[EXTENSIONS] == "com.example.Other"
    assert options_of(builder) == {PROVIDER_KEY: PROVIDER, JARS: JAR}


@pytest.mark.parametrize(
    ("extensions", "warns"), [("", True), ("com.example.Other", True), (f"o,{EXTENSION}", False)]
)
def test_a_session_that_runs_without_the_extension_is_warned_of(
    tmp_path: Path, builder: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    extensions: str, warns: bool,
) -> None:  # fmt: skip
    from pyspark import SparkContext

    running = SimpleNamespace(getConf=lambda: {EXTENSIONS: extensions})
    monkeypatch.setattr(SparkContext, "_active_spark_context", running)
    apply(builder, session_settings(JAR, spark_settings({})), variables(tmp_path))
    said = [record.getMessage() for record in caplog.records]
    assert [f"transformWithState needs {EXTENSIONS}" in each for each in said] == [True] * warns
