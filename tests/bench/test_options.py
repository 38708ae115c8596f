"""Options of benchmarks' command lines: what a script cannot do is refused, with what to do."""

import sys
from pathlib import Path

import pytest

from bench.harness import run_all
from bench.harness.results import Run, kept, rendered
from bench.harness.rounds import options
from bench.harness.targets import all_targets


def test_a_script_with_one_turn_refuses_more_rounds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    monkeypatch.setattr(sys, "argv", ["script.py", "--rounds", "3", "--dir", str(folder)])
    with pytest.raises(SystemExit) as refused, options("A benchmark.", turns=(1, 1)):
        pass
    assert refused.value.code == 2
    assert "--rounds 3: this script has one turn; run it again for more" in capsys.readouterr().err
    assert not folder.exists()


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Facts of this environment, in which each script takes no time."""
    facts = {"python": "3.11.7"}
    monkeypatch.setattr(run_all, "describe", lambda folder: facts)
    monkeypatch.setattr(
        run_all, "run", lambda script, _: Run(f"python bench/{script}", "m", "", {})
    )
    return facts


def run_all_with(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["run_all.py", *arguments])
    run_all.main()


def test_results_of_another_environment_are_not_overwritten_by_some(
    monkeypatch: pytest.MonkeyPatch, facts: dict[str, str], tmp_path: Path
) -> None:
    results = tmp_path / "RESULTS.md"
    runs = {"micro/scan.py": Run("python bench/micro/scan.py", "m", "", {"scan_vs_parquet": 1.0})}
    others = rendered({"python": "3.12.3"}, runs, all_targets())
    results.write_text(others)
    only = ["--only", "micro/seek.py", "--results"]
    with pytest.raises(SystemExit, match=r"of another environment.*--results FILE"):
        run_all_with(monkeypatch, *only, str(results))
    assert results.read_text() == others
    run_all_with(monkeypatch, *only, str(tmp_path / "mine.md"))
    assert kept((tmp_path / "mine.md").read_text(), facts).keys() == {"micro/seek.py"}
    run_all_with(monkeypatch, "--results", str(results))
    assert "micro/scan.py" in kept(results.read_text(), facts)


def test_a_quick_run_does_not_write_the_committed_results(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], facts: dict[str, str],
    tmp_path: Path,
) -> None:  # fmt: skip
    committed = (tmp_path / "RESULTS.md").resolve()
    monkeypatch.setattr(run_all, "RESULTS", committed)
    with pytest.raises(SystemExit):
        run_all_with(monkeypatch, "--quick", "--only", "micro/seek.py")
    assert "--quick: its figures are no results" in capsys.readouterr().err
    assert not committed.exists()
    file = tmp_path / "quick.md"
    run_all_with(monkeypatch, "--quick", "--only", "micro/seek.py", "--results", str(file))
    assert kept(file.read_text(), facts)
