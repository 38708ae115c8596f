"""What the package says it needs at least is what `make test-oldest` installs."""

from importlib.metadata import version

from support.paths import ROOT
from support.runs.oldest import least_versions


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(".") if part.isdigit()]


def test_each_dependency_has_a_least_version_below_the_one_here() -> None:
    found = least_versions(ROOT / "pyproject.toml")
    assert {"numpy", "pyarrow", "lmdb", "zstandard", "crcmod-plus", "typer", "rich"} < set(found)
    for name, least in found.items():
        assert numbers(least) <= numbers(version(name)), name
    assert "python -m support.runs.oldest" in (ROOT / "Makefile").read_text("utf-8").replace(
        "$(PYTHON)", "python"
    )
