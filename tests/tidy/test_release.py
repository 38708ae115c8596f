"""A release: what it must have, what it must not, and what its notes say."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import pytest

from cec_store.connectors.spark.setup.compiler import Spark, artifact, jar_name, release
from support.paths import ROOT
from support.release import archives, bom, interpreters, jars, maven, notes, sparks
from support.release.interpreters import Outcome

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
VERSION = PROJECT["version"]
POM = "{http://maven.apache.org/POM/4.0.0}"


def test_classifiers_are_those_of_the_index() -> None:
    known = pytest.importorskip("trove_classifiers").classifiers
    assert [name for name in PROJECT["classifiers"] if name not in known] == []
    assert len(PROJECT["classifiers"]) > 8


def test_sparks_of_a_release_are_the_pinned_one_and_those_that_are_tested() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    (pinned,) = re.findall(r'"pyspark==(4\.\d+)\.\*', text)
    assert sparks.PINNED.startswith(f"{pinned}.")
    tested = (ROOT / "docs" / "spark.md").read_text("utf-8")
    assert all(re.search(rf"\| {re.escape(spark)} \|", tested) for spark in sparks.SPARKS[1:])


def test_an_installed_spark_is_taken_and_none_is_fetched(tmp_path: Path) -> None:
    home = tmp_path / "4.9.1" / "pyspark" / "jars"
    home.mkdir(parents=True)
    (home / "spark-core_2.13-4.9.1.jar").touch()
    assert sparks.distribution("4.9.1", tmp_path) == Spark(home, "4.9.1")


# -- jars and the Maven repository --------------------------------------------------------------


def made(folder: Path, scala: Path, spark: str = "4.9.1") -> jars.Jar:
    """Return a jar with a manifest as the compiler writes it, and its sources."""
    folder.mkdir(exist_ok=True)
    path = folder / jar_name(Spark(Path("jars"), spark))
    key = jars.sources_key(scala, jars.find_java())
    with zipfile.ZipFile(path, "w") as archive:
        manifest = f"Manifest-Version: 1.0\nCec-Store-Spark: {spark}\nCec-Store-Key: {key}\n"
        archive.writestr("META-INF/MANIFEST.MF", manifest)
    return jars.Jar(spark, path, folder / f"{path.stem}-sources.jar")


@pytest.fixture
def scala(tmp_path: Path) -> Path:
    folder = tmp_path / "scala"
    folder.mkdir()
    (folder / "A.scala").write_text("class A\n")
    return folder


def test_a_jar_of_other_sources_or_of_another_spark_is_named(tmp_path: Path, scala: Path) -> None:
    jar = made(tmp_path / "jars", scala)
    assert jars.faults(jar, scala) == []
    assert (
        "Cec-Store-Spark: 4.9.2" in jars.faults(dataclasses.replace(jar, spark="4.9.2"), scala)[0]
    )
    (scala / "A.scala").write_text("class B\n")
    assert "Cec-Store-Key" in jars.faults(jar, scala)[0]


def test_sources_of_a_jar_are_those_that_its_spark_takes(tmp_path: Path) -> None:
    scala = ROOT / "connectors" / "spark" / "scala"
    no_spark = Spark(tmp_path / "none", "4.0.0")
    jars.pack_sources(no_spark, scala, ROOT / "LICENSE", tmp_path / "a.jar")
    jars.pack_sources(no_spark, scala, ROOT / "LICENSE", tmp_path / "b.jar")
    assert (tmp_path / "a.jar").read_bytes() == (tmp_path / "b.jar").read_bytes()
    names = zipfile.ZipFile(tmp_path / "a.jar").namelist()
    assert "META-INF/LICENSE" in names
    assert "store/CecStateStoreProvider.scala" in names
    folders = {name.rsplit("/", 1)[0] for name in names}
    assert "sparks/reusable_iterators/absent" in folders
    assert "sparks/reusable_iterators/present" not in folders


def test_the_pom_names_artifact_version_and_a_spark_that_is_there_already() -> None:
    root = ET.fromstring(maven.pom("4.9.1", {**PROJECT, "description": "state & output"}))
    assert root.findtext(f"{POM}artifactId") == artifact("4.9.1") == "cec-store-spark-4.9.1_2.13"
    assert root.findtext(f"{POM}version") == release()
    assert root.findtext(f"{POM}description") == "state & output"
    (dependency,) = root.iter(f"{POM}dependency")
    assert [child.text for child in dependency] == [
        "org.apache.spark", "spark-sql_2.13", "4.9.1", "provided",
    ]  # fmt: skip


def test_a_repository_that_lacks_a_file_or_has_another_jar_is_found(
    tmp_path: Path, scala: Path
) -> None:
    jar = made(tmp_path / "jars", scala)
    folder = tmp_path.joinpath("maven", "io", "github", "cec-store", artifact("4.9.1"), release())
    folder.mkdir(parents=True)
    stem = f"{artifact('4.9.1')}-{release()}"
    for end in (".jar", "-sources.jar", ".pom"):
        (folder / f"{stem}{end}").write_bytes(jar.path.read_bytes())
        (folder / f"{stem}{end}.sha1").touch()
    assert maven.faults([jar], tmp_path / "maven") == []
    (folder / f"{stem}.jar").write_bytes(b"other")
    (folder / f"{stem}.pom.sha1").unlink()
    first, second = maven.faults([jar], tmp_path / "maven")
    assert first.endswith(".pom or its checksum is not there")
    assert second.endswith("is another than that of the wheel")


# -- wheel and sdist ----------------------------------------------------------------------------

FILES = {"cec_store/__init__.py", "cec_store/indexes/timestamp.py"}
WHOLE = FILES | {f"cec_store/report/{name}" for name in archives._REPORT} | {
    "cec_store/connectors/spark/jars/a.jar", "cec_store-1.dist-info/METADATA",
}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "less", "fault"),
    [
        ((), (), None),
        ((), ("cec_store/indexes/timestamp.py",), "lacks cec_store/indexes/timestamp.py"),
        ((), ("cec_store/connectors/spark/jars/a.jar",), "lacks cec_store/connectors/spark/jars"),
        (("tests/test_a.py",), (), "tests/test_a.py, which is no part"),
        (("cec_store/connectors/spark/jars/b.jar",), (), "b.jar, a jar of no Spark here"),
    ],
)
def test_wheel_rule(more: tuple[str, ...], less: tuple[str, ...], fault: str | None) -> None:
    faults = archives.wheel_faults((WHOLE | set(more)) - set(less), FILES, ["a.jar"])
    assert (not faults) if fault is None else fault in faults[0]


def test_an_sdist_without_its_site_or_of_which_less_is_built_is_found() -> None:
    names = FILES | {*archives.SITE, *archives._PAGES, "pyproject.toml", "PKG-INFO"}
    assert archives.sdist_faults(names, FILES, WHOLE, WHOLE) == []
    without = archives.sdist_faults(names - {"site/index.html"}, FILES, WHOLE, WHOLE)
    assert without == ["the sdist lacks site/index.html"]
    lost = archives.sdist_faults(names, FILES, WHOLE, WHOLE - {"cec_store/__init__.py", "a.jar"})
    assert lost == ["a wheel built of the sdist lacks cec_store/__init__.py"]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_files_under_version_control_have_the_names_that_they_have_in_a_wheel() -> None:
    names = archives.committed(ROOT)
    assert {"cec_store/py.typed", "cec_store/indexes/timestamp.py"} <= names
    assert "cec_store/connectors/spark/setup/compiler.py" in names
    assert not names & {"cec_store/indexes", "cec_store/connectors"}
    assert all(name.startswith("cec_store/") for name in names)


# -- Pythons, the SBOM and the notes ------------------------------------------------------------


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_python_that_does_not_run_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin" / "python3.99", "echo not switched on >&2; exit 127")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    assert interpreters.find("3.99", tmp_path / "versions") is None
    outcome = interpreters.try_wheel(tmp_path / "a.whl", "1", "3.99", tmp_path / "venv")
    assert (outcome.is_tried, outcome.is_sound) == (False, True)
    assert "not tried" in outcome.text
    program(tmp_path / "versions" / "3.99.0" / "bin" / "python3.99", "echo 3.98")
    assert interpreters.find("3.99", tmp_path / "versions") is None
    real = program(tmp_path / "versions" / "3.99.1" / "bin" / "python3.99", "echo 3.99")
    assert interpreters.find("3.99", tmp_path / "versions") == real


def test_a_wheel_that_cannot_be_installed_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'case "$1" in -c) echo 3.99;; *) echo no room >&2; exit 1;; esac'
    program(tmp_path / "bin" / "python3.99", text)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    outcome = interpreters.try_wheel(tmp_path / "a.whl", "1", "3.99", tmp_path / "python")
    assert outcome.is_tried
    assert interpreters.faults([outcome]) == [f"Python 3.99: {outcome.text}"]
    assert "no room" in outcome.text


def test_the_sbom_has_what_the_report_carries() -> None:
    script = (ROOT / "cec_store" / "report" / "chart.umd.min.js").read_text("utf-8")
    components = bom.carried(script)
    assert [component["name"] for component in components] == ["chart.js", "@kurkle/color"]
    document = {
        "metadata": {"component": {"bom-ref": "root"}},
        "components": [{"name": "numpy", "bom-ref": "numpy"}, {"name": "pip", "bom-ref": "pip"}],
        "dependencies": [{"ref": "root", "dependsOn": ["numpy"]}, {"ref": "numpy"}, {"ref": "pip"}],
    }
    whole = bom.with_components(bom.without_installer(document), components)
    assert [c["name"] for c in whole["components"]] == ["numpy", "chart.js", "@kurkle/color"]
    assert whole["dependencies"][0]["dependsOn"] == [
        "numpy", *sorted(component["bom-ref"] for component in components)
    ]  # fmt: skip
    assert {entry["ref"] for entry in whole["dependencies"]} == {
        "root", "numpy", *(component["bom-ref"] for component in components)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("version", "final"), [("0.1.0a0", "0.1.0"), ("0.1.0rc2", "0.1.0"), ("0.1.0", "0.1.0")]
)
def test_a_pre_release_is_told_from_what_it_becomes(version: str, final: str) -> None:
    assert notes.final_version(version) == final
    assert notes.is_pre_release(version) is (version != final)


def test_notes_have_changes_files_what_was_tried_and_what_the_proof_lacks() -> None:
    changed = notes.changes((ROOT / "CHANGELOG.md").read_text("utf-8"), VERSION)
    assert "Output queues" in changed
    outcomes = [Outcome("Python 3.14", "not tried: this machine has none", False, True)]
    text = notes.rendered(
        VERSION, "abc", changed, [("a.whl", 8_500_000)], outcomes, ["check: never run"]
    )
    for line in ("| `a.whl` | 8,500 kB |", "| Python 3.14 | not tried: this machine has none |",
                 "- check: never run"):  # fmt: skip
        assert line in text
    with pytest.raises(SystemExit, match=r"says nothing of 9\.9"):
        notes.changes("# Changelog\n\n## [0.1.0]\n\n- All.\n", "9.9")


def test_checksums_are_read_by_the_tool_that_checks_them(tmp_path: Path) -> None:
    (tmp_path / "maven").mkdir()
    (tmp_path / "maven" / "a.jar").write_bytes(b"a")
    (tmp_path / "a.whl").write_bytes(b"b")
    (tmp_path / notes.CHECKSUMS).write_text(notes.checksums(tmp_path))
    command = ["sha256sum", "--strict", "-c", notes.CHECKSUMS]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 0
    (tmp_path / "a.whl").write_bytes(b"c")
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 1
