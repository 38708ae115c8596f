"""The provider's jar: one for each Spark and each state of the sources, never half there."""

import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import pytest

from cec_store.connectors.spark.setup import compiler
from cec_store.connectors.spark.setup.compiler import (
    compile_jar,
    coordinates,
    find_spark,
    has_extension,
    jar,
    jar_name,
    sources_key,
)
from cec_store.connectors.spark.setup.environment import publish
from cec_store.connectors.spark.setup.java import find_java
from cec_store.errors import CecError, CompilationFailed, SparkUnavailable

pytest.importorskip("pyspark")
SMALL = """package small
import org.apache.spark.sql.execution.streaming.state.StateStoreConf
class Small { def kept(conf: StateStoreConf): Int = conf.minVersionsToRetain }
"""


def make_sources(folder: Path, text: str = SMALL) -> Path:
    folder.mkdir()
    (folder / "Small.scala").write_text(text, encoding="utf-8")
    return folder


def settings_with_cache(folder: Path) -> dict[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(folder)}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Sources, cache folder and the jar that came out: the one real compilation that succeeds."""
    folder = tmp_path_factory.mktemp("compiled")
    sources = make_sources(folder / "sources")
    made = jar(settings_with_cache(folder / "cache"), sources=sources, carried=folder / "none")
    return sources, folder / "cache", made


def test_jar_holds_the_classes_and_says_what_it_was_made_from(
    compiled: tuple[Path, Path, Path],
) -> None:
    sources, _, made = compiled
    spark = find_spark()
    assert made.name == f"cec-store-spark-{spark.version}_2.13-{version('cec-store')}.jar"
    with zipfile.ZipFile(made) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["META-INF/MANIFEST.MF", "small/Small.class"]
        manifest = archive.read("META-INF/MANIFEST.MF").decode().splitlines()
        # 61 is Java 17, whatever compiled it.
        assert archive.read("small/Small.class")[:8] == bytes.fromhex("cafebabe0000003d")
    assert f"Cec-Store-Spark: {spark.version}" in manifest
    assert f"Cec-Store-Key: {sources_key(sources, find_java())}" in manifest


def test_second_call_takes_the_jar_from_the_cache(
    compiled: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    sources, cache, made = compiled
    before = made.stat()
    again = jar(settings_with_cache(cache), sources=sources, carried=tmp_path)
    assert again == made
    assert (made.stat().st_ino, made.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_other_sources_have_another_key(tmp_path: Path) -> None:
    keys = {
        sources_key(make_sources(tmp_path / name, text))
        for name, text in {
            "a": SMALL,
            "b": SMALL + " ",
            "c": SMALL.replace("Small", "Other"),
        }.items()
    }
    (make_sources(tmp_path / "d") / "More.scala").write_text("", encoding="utf-8")
    keys.add(sources_key(tmp_path / "d"))
    assert len(keys) == 4
    assert sources_key(make_sources(tmp_path / "e")) in keys


def test_sources_in_sub_folders_are_compiled_and_moving_one_changes_the_key(tmp_path: Path) -> None:
    sources = make_sources(tmp_path / "sources")
    (sources / "below" / "further").mkdir(parents=True)
    other = sources / "below" / "further" / "Other.scala"
    other.write_text("package small.below\nclass Other(val it: small.Small)\n", "utf-8")
    made = jar(settings_with_cache(tmp_path / "cache"), sources=sources, carried=tmp_path)
    with zipfile.ZipFile(made) as archive:
        assert {"small/Small.class", "small/below/Other.class"} <= set(archive.namelist())
    before = sources_key(sources)
    other.rename(sources / "below" / "Other.scala")
    assert sources_key(sources) != before
    (sources / "below" / "Other.scala").rename(other)
    assert sources_key(sources) == before


def test_error_of_the_compiler_is_shown_and_leaves_nothing_behind(
    compiled: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    sources = make_sources(tmp_path / "sources", SMALL.replace("minVersions", "maxVersions"))
    with pytest.raises(CompilationFailed) as caught:
        jar(settings_with_cache(tmp_path / "cache"), sources=sources, carried=tmp_path)
    said = str(caught.value)
    assert "Small.scala:3: error: value maxVersionsToRetain is not a member" in said
    assert find_spark().version in said
    assert isinstance(caught.value, CecError)
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_a_spark_with_other_inner_classes_gets_the_jar_without_what_needs_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sources = make_sources(tmp_path / "sources")
    inner = sources / "transforms"
    inner.mkdir()
    (inner / "Inner.scala").write_text(
        "package small\nclass Inner(a: Small) { val b: Missing = a }\n", encoding="utf-8"
    )
    made = jar(settings_with_cache(tmp_path / "cache"), sources=sources, carried=tmp_path)
    with zipfile.ZipFile(made) as archive:
        assert archive.namelist() == ["META-INF/MANIFEST.MF", "small/Small.class"]
    compiling, said = [record.getMessage() for record in caplog.records]
    assert compiling == (
        f"compiling cec-store's jar, once for Spark {find_spark().version}: about 10 s"
    )
    assert "transformWithState" in said
    assert "not found: type Missing" in said
    caplog.clear()
    assert not has_extension(made)
    (said,) = [record.getMessage() for record in caplog.records]
    assert str(made) in said
    assert "transformWithState cannot run" in said


def test_a_compiler_that_takes_too_long_leaves_nothing_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = make_sources(tmp_path / "sources")
    (sources / "moving").mkdir()
    (sources / "moving" / "Inner.scala").write_text("package small\nclass Inner\n", "utf-8")
    java, calls = find_java(), []

    def hang(command: object, timeout_s: float) -> tuple[int, str]:
        calls.append(command)
        raise TimeoutError("scala did not end within 600 s")

    monkeypatch.setattr(compiler, "run_program", hang)
    with pytest.raises(CompilationFailed, match="did not end within 600 s"):
        compile_jar(find_spark(), java, sources)
    assert len(calls) == 1


def test_the_providers_own_jar_has_the_extension(caplog: pytest.LogCaptureFixture) -> None:
    made = jar()
    caplog.clear()
    assert has_extension(made)
    assert not caplog.records


def test_a_jar_that_is_there_is_not_said_to_be_compiled(
    compiled: tuple[Path, Path, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sources, cache, _ = compiled
    jar(settings_with_cache(cache), sources=sources, carried=tmp_path)
    assert not caplog.records


def test_no_sources_are_an_incomplete_installation(tmp_path: Path) -> None:
    with pytest.raises(CompilationFailed, match="holds no Scala source"):
        jar(sources=tmp_path, carried=tmp_path)


def carried_by_a_wheel(compiled: tuple[Path, Path, Path], folder: Path) -> tuple[Path, Path]:
    """A folder with the jar under the name of the pinned Spark, and its sources."""
    sources, _, made = compiled
    carried = publish(folder / made.name, made.read_bytes())
    return carried, sources


def test_carried_jar_needs_no_java(
    compiled: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not find_java().knows_older_releases:
        pytest.skip("this Java makes jars that are for itself only")
    carried, sources = carried_by_a_wheel(compiled, tmp_path / "jars")
    monkeypatch.setattr(compiler, "find_java", None)  # calling it would be an error
    assert jar({"PATH": ""}, sources=sources, carried=tmp_path / "jars") == carried


@pytest.mark.parametrize("damage", ["truncated", "of other sources", "no jar"])
def test_carried_jar_that_does_not_fit_is_passed_over(
    compiled: tuple[Path, Path, Path], tmp_path: Path, damage: str
) -> None:
    carried, sources = carried_by_a_wheel(compiled, tmp_path / "jars")
    whole = carried.read_bytes()
    if damage == "of other sources":
        key = sources_key(sources, find_java())
        with zipfile.ZipFile(carried, "w") as archive:
            archive.writestr("META-INF/MANIFEST.MF", f"Cec-Store-Key: {key[::-1]}\r\n")
    else:
        carried.write_bytes(whole[: len(whole) // 2] if damage == "truncated" else b"")
    _, cache, made = compiled
    assert jar(settings_with_cache(cache), sources=sources, carried=tmp_path / "jars") == made


def test_jar_is_seen_whole_or_not_at_all_while_many_write_it(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b.jar"
    contents = [bytes([number]) * 2_000_000 for number in range(4)]
    seen = 0
    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(publish, target, contents[n % 4]) for n in range(60)]
        while not all(writer.done() for writer in writers):
            if target.exists():
                assert target.read_bytes() in contents
                seen += 1
        assert all(writer.result() == target for writer in writers)
    assert seen
    assert [path.name for path in target.parent.iterdir()] == ["b.jar"]


def test_write_that_fails_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = publish(tmp_path / "b.jar", b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        publish(target, b"new")
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["b.jar"]


def fake_spark(folder: Path, *names: str) -> dict[str, str]:
    (folder / "jars").mkdir()
    for name in names:
        (folder / "jars" / name).touch()
    return {"SPARK_HOME": str(folder)}


def test_version_is_that_of_the_jars_that_will_run(tmp_path: Path) -> None:
    found = find_spark(fake_spark(tmp_path, "spark-core_2.13-4.4.0-SNAPSHOT.jar"))
    assert (found.jars, found.version) == (tmp_path / "jars", "4.4.0-SNAPSHOT")
    assert jar_name(found) == f"cec-store-spark-4.4.0-SNAPSHOT_2.13-{version('cec-store')}.jar"
    assert coordinates("4.4.0-SNAPSHOT") == (
        f"io.github.cec-store:cec-store-spark-4.4.0-SNAPSHOT_2.13:{version('cec-store')}"
    )


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), "SPARK_HOME points to no Spark"),
        (("spark-core_2.12-3.5.1.jar",), "is Spark 3.5.1; the state store provider needs Spark 4"),
        (("spark-core_2.13-40.0.0.jar",), "is Spark 40.0.0"),
    ],
)
def test_spark_that_does_not_fit_is_refused(
    tmp_path: Path, names: tuple[str, ...], said: str
) -> None:
    with pytest.raises(SparkUnavailable, match=said):
        find_spark(fake_spark(tmp_path, *names))


def test_spark_without_its_compiler_is_refused(tmp_path: Path) -> None:
    spark = find_spark(
        fake_spark(tmp_path, "spark-core_2.13-4.3.0.jar", "scala-library-2.13.18.jar")
    )
    with pytest.raises(SparkUnavailable, match=r"lacks the Scala 2\.13 compiler"):
        compile_jar(spark, find_java())


def test_missing_pyspark_is_named_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "find_spec", lambda name: None)
    with pytest.raises(SparkUnavailable, match=r"pip install 'cec-store\[spark\]'"):
        find_spark({})
