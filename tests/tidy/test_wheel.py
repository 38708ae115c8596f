"""What a wheel carries besides Python: Spark's provider, its jar, and the parts of the report."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cec_store.connectors.spark.setup.compiler import SOURCES
from support.paths import ROOT

JAR = "cec_store/connectors/spark/jars/cec-store-spark-4.3.0_2.13-0.1.0a0.jar"


@pytest.mark.skipif(not (ROOT / ".gitignore").exists(), reason="not a checkout")
def test_wheel_holds_the_jar_the_scala_sources_and_the_report(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    copy = tmp_path / "checkout"
    for name in ("cec_store", "connectors", "indexes"):
        shutil.copytree(
            ROOT / name,
            copy / name,
            symlinks=True,
            ignore=shutil.ignore_patterns("__pycache__", "jars"),
        )
    shutil.copytree(ROOT / "docs" / "json", copy / "docs" / "json")
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, copy / name)
    # git-ignored, as `make wheel` leaves it.
    (copy / "connectors/spark/jars").mkdir()
    (copy / "connectors/spark/jars" / Path(JAR).name).write_bytes(b"a jar")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")],
        cwd=copy, check=True, capture_output=True,
    )  # fmt: skip
    [wheel] = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        assert archive.read(JAR) == b"a jar"
    carried = (path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.scala"))
    scala = {f"cec_store/connectors/spark/scala/{name}" for name in carried}
    assert scala
    assert scala <= names
    page = {"page.html", "page.css", "page.js", "plots.js", "parts.js", "chart.umd.min.js",
            "chart.LICENSE.md", "cluster.html", "cluster.js", "axes.js", "graph.js", "fleet.html",
            "fleet.js"}  # fmt: skip
    assert {f"cec_store/report/{name}" for name in page} <= names
    assert "cec_store/py.typed" in names
    schemas = {path.name for path in (ROOT / "docs" / "json").glob("*.schema.json")}
    assert len(schemas) >= 14
    assert {f"cec_store/json/{name}" for name in schemas} <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"cec_store"}
