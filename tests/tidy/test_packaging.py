"""What tells others of the package agrees with pyproject.toml."""

import re
import subprocess
import sys

import pytest

from cec_store.connectors.spark.setup.compiler import artifact
from cec_store.connectors.spark.setup.settings import JARS, PREFIX, session_settings
from support.paths import DOCS, ROOT
from support.release.sparks import SPARKS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
BYTES_MAX = 1_000_000
OF_CONDA = {"lmdb": "python-lmdb"}
"""Where conda-forge calls a package otherwise."""


def recipe() -> str:
    return (ROOT / "conda" / "meta.yaml").read_text("utf-8")


def test_conda_recipe_needs_what_the_package_needs() -> None:
    run = recipe().split("  run:\n")[1].split("  run_constrained:")[0]
    listed = set(re.findall(r"^    - ([\w-]+) >=(\S+)$", run, re.MULTILINE))
    wanted = {("python", PROJECT["requires-python"].removeprefix(">="))}
    for needed in PROJECT["dependencies"]:
        name, least = needed.split(">=")
        wanted.add((OF_CONDA.get(name, name), least))
    assert listed == wanted
    ((command, target),) = PROJECT["scripts"].items()
    assert f"- {command} = {target}\n" in recipe()


def test_versions_agree() -> None:
    assert f'set version = "{PROJECT["version"]}"' in recipe()
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {PROJECT['version']}\n" in citation
    assert f"\nlicense: {PROJECT['license']}\n" in citation
    # A pre-release stands below the release that it is to become.
    final = re.sub(r"(a|b|rc)\d+$", "", PROJECT["version"])
    assert f"## [{final}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_jars_on_pages_have_the_name_of_this_release() -> None:
    names = [
        name
        for page in [ROOT / "README.md", ROOT / "Dockerfile", *DOCS.rglob("*.md")]
        for name in re.findall(r"cec-store-spark-\d[\w.-]*", page.read_text("utf-8"))
    ]
    assert len(names) >= 3
    known = {f"{artifact(spark)}{end}" for spark in SPARKS
             for end in ("", f"-{PROJECT['version']}.jar")}  # fmt: skip
    assert set(names) <= known


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_nothing_large_or_made_by_tools_is_under_version_control() -> None:
    command = ["git", "-C", str(ROOT), "ls-files", "-z"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    files = [ROOT / name for name in names if name and not (ROOT / name).is_symlink()]
    assert len(files) > 1000
    assert [f for f in files if f.is_file() and f.stat().st_size > BYTES_MAX] == []
    assert [name for name in names if name.startswith((".venv", "build/", "dist/", "site/"))] == []


def test_the_page_of_services_has_the_settings_that_are_printed() -> None:
    text = (DOCS / "production" / "services.md").read_text("utf-8")
    settings = session_settings("JAR", {f"{PREFIX}replicas": "1"})
    for name, value in settings.items():
        if name != f"{PREFIX}replicas":
            assert f"`{name}`" in text, name
            assert name == JARS or f"`{value}`" in text, value
    assert f"{PREFIX}recoveryTimeMs" in text


def test_image_installs_extras_that_there_are() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    (extras,) = re.findall(r"'/src\[([\w,]+)\]'", text)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
