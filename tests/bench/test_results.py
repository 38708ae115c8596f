"""RESULTS.md and the targets that it shows: what is missed, kept, or not measured."""

import re
from pathlib import Path

import pytest

from bench.harness.results import NOT_MEASURED, Run, in_order, kept, rendered
from bench.harness.targets import BENCH, Target, all_targets, stated

TARGETS = (
    Target("micro/append.py", "append_vs_ipc", "at least 0.8"),
    Target("micro/append.py", "append_vs_sqlite", "at least 3"),
    Target("micro/seek.py", "seek_vs_scan", "at least 20"),
    Target("spark/sink.py", "sink_vs_parquet", "report"),
)
FACTS = {"commit": "abc", "processor": "fast", "python": "3.11"}


def a_run(script: str, **figures: float) -> Run:
    return Run(f"python bench/{script}", "date d, commit abc", "some\n\nlines", figures)


def test_results_say_what_is_missed() -> None:
    runs = {"micro/append.py": a_run("micro/append.py", append_vs_ipc=0.5, append_vs_sqlite=4.0)}
    text = rendered(FACTS, runs, TARGETS)
    assert "| `micro/append.py` | `append_vs_ipc` | 0.50 (missed) | at least 0.8 |" in text
    assert "| `micro/append.py` | `append_vs_sqlite` | 4.00 | at least 3 |" in text
    assert "| python | 3.11 |" in text
    assert "fast" not in text


def test_results_say_which_targets_were_not_measured() -> None:
    runs = {"micro/append.py": a_run("micro/append.py", append_vs_ipc=1.0)}
    text = rendered(FACTS, runs, TARGETS)
    assert f"| `micro/append.py` | `append_vs_sqlite` | {NOT_MEASURED} | at least 3 |" in text
    assert f"| `micro/seek.py` | `seek_vs_scan` | {NOT_MEASURED} | at least 20 |" in text
    assert f"| `spark/sink.py` | `sink_vs_parquet` | {NOT_MEASURED} | report |" in text


def test_results_of_the_scripts_not_asked_for_stay() -> None:
    runs = {
        "micro/append.py": a_run("micro/append.py", append_vs_ipc=0.123456),
        "micro/seek.py": Run("python bench/micro/seek.py --quick", "d", "", {"seek_vs_scan": 25.0}),
    }
    assert kept(rendered(FACTS, runs, TARGETS), {**FACTS, "commit": "def"}) == runs


def test_results_of_another_machine_do_not_stay() -> None:
    runs = {"micro/append.py": a_run("micro/append.py", append_vs_ipc=1.0)}
    assert kept(rendered(FACTS, runs, TARGETS), {"python": "3.12"}) == {}


def test_committed_results_have_a_row_for_each_target() -> None:
    text = (BENCH / "RESULTS.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+)` \| `(\S+)` \| [^|]+ \| ([^|]+) \|$", text, re.MULTILINE)
    targets = all_targets()
    assert len(targets) > 100
    assert rows == [(target.script, target.figure, target.bound) for target in in_order(targets)]


def test_committed_results_have_the_head_that_is_written() -> None:
    head, _ = rendered({}, {}, ()).split("| | |")
    assert "Where each had one turn" in " ".join(head.split())
    assert (BENCH / "RESULTS.md").read_text(encoding="utf-8").startswith(head)


def test_targets_with_watermarks_come_first_and_none_is_lost() -> None:
    late = Target("spark/replicas.py", "replica_load_watermark_vs_cold", "report")
    script = Target("spark/watermarks.py", "session_vs_rocksdb", "at most 1")
    assert in_order([*TARGETS, late, script]) == [late, script, *TARGETS]


def test_results_of_an_earlier_version_of_ours_stay() -> None:
    runs = {"micro/append.py": a_run("micro/append.py", append_vs_ipc=0.123456)}
    text = rendered({"packages": "cec-store 0.1.0, numpy 2.4.6"}, runs, TARGETS)
    assert kept(text, {"packages": "cec-store 0.1.0a0, numpy 2.4.6"}) == runs
    assert kept(text, {"packages": "cec-store 0.1.0, numpy 2.4.7"}) == {}


def test_targets_stand_in_the_scripts_that_are_run() -> None:
    targets = all_targets()
    scripts = {target.script for target in targets}
    assert {script.split("/")[0] for script in scripts} == {"micro", "papers", "spark", "fleet"}
    assert len({target.figure for target in targets}) == len(targets), "a name stands twice"
    sources = [(BENCH / script).read_text(encoding="utf-8") for script in scripts]
    assert all("__main__" in source for source in sources)


def test_targets_are_read_without_running_the_script(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    script = 'import nowhere\nTARGETS = {"a": "at most 2", "b": "report"}\nraise SystemExit\n'
    (tmp_path / "spark" / "x.py").write_text(script)
    (tmp_path / "spark" / "input.py").write_text("ROWS = 1\n")
    assert all_targets(tmp_path) == (
        Target("spark/x.py", "a", "at most 2"), Target("spark/x.py", "b", "report"),
    )  # fmt: skip


def test_targets_that_are_no_literal_are_refused() -> None:
    with pytest.raises(ValueError, match="malformed"):
        stated("TARGETS = {name: 'report' for name in NAMES}")


@pytest.mark.parametrize(
    ("bound", "value", "is_met"),
    [
        ("at least 3", 3, True),
        ("at least 3", 2.9, False),
        ("at least 1e7", 9_999_999, False),
        ("at most 3", 3, True),
        ("at most 3", 3.1, False),
        ("report", 0, True),
    ],
)
def test_target_rule(bound: str, value: float, is_met: bool) -> None:
    assert Target("x.py", "x", bound).met_by(value) is is_met


@pytest.mark.parametrize("bound", ["", "3", "below 3", "at least", "at least three"])
def test_a_bound_of_no_known_form_is_refused(bound: str) -> None:
    with pytest.raises(ValueError, match=r"no such bound|could not convert"):
        Target("x.py", "x", bound)
