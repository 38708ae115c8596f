"""`cec-store spark`: the same settings as from Python, for those who start Spark another way."""

import json
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cec_store.cli import app
from cec_store.connectors.spark.setup.compiler import coordinates, find_spark
from cec_store.connectors.spark.setup.settings import PREFIX, PROVIDER, session_settings

JAR = "s3a://somewhere/cec.jar"
EXPECTED = session_settings(JAR, {PREFIX + "recoveryTimeMs": "1500"})


def call(*words: str) -> Result:
    return CliRunner().invoke(app, ["spark", *words])


def conf(*words: str) -> Result:
    return call("conf", "--jar", JAR, *words)


def test_each_format_says_the_same() -> None:
    given = ("--recovery-time-s", "1.5")
    as_arguments = conf(*given).output.split()
    assert as_arguments[::2] == ["--conf"] * len(EXPECTED)
    assert dict(word.split("=", 1) for word in as_arguments[1::2]) == EXPECTED
    as_defaults = conf(*given, "--format", "spark-defaults").output.splitlines()
    assert dict(line.split(" ", 1) for line in as_defaults) == EXPECTED
    assert json.loads(conf(*given, "--json").output) == EXPECTED


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--extent-factor", "1"), "1.25 to 1000"),
        (("--recovery-time-s", "2", "--extent-factor", "2"), "give one of them"),
        (("--sync-mode", "comit"), "'commit' or 'none'"),
        (("--recovery-time", "2"), "--recovery-time-s"),
    ],
)
def test_wrong_use_has_status_2_and_says_why(words: tuple[str, ...], said: str) -> None:
    result = conf(*words)
    assert result.exit_code == 2
    assert said in result.output


def test_the_jar_may_come_from_a_maven_repository() -> None:
    pytest.importorskip("pyspark")
    settings = json.loads(call("conf", "--package", "--json").output)
    version = find_spark().version
    assert settings["spark.jars.packages"] == coordinates(version)
    assert "spark.jars" not in settings
    both = conf("--package")
    assert both.exit_code == 2
    assert "give one of them" in both.output


def test_jar_is_copied_into_a_folder_of_the_users(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    made = Path(call("jar").output.strip())
    copied = Path(json.loads(call("jar", "--into", str(tmp_path), "--json").output)["jar"])
    assert copied == tmp_path / made.name
    assert copied.read_bytes() == made.read_bytes()
    with zipfile.ZipFile(copied) as archive:
        assert PROVIDER.replace(".", "/") + ".class" in archive.namelist()
