"""The proof: what counts as tried, at which tree, and which promises it covers."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.harness.targets import all_targets
from support.paths import ROOT, TESTS
from support.proof import counts, findings, page, parts, promises, prove, records, running, trees
from support.proof.parts import PARTS, Part
from support.proof.records import Record

LINE = "| sigkill | 12,000 processes killed | 0 to 300,000 by sync mode | held | 625 s |"
PYTEST = "===== 3 failed, 120 passed, 2 skipped in 61.20s (0:01:01) ====="


def a_record(**facts: object) -> Record:
    record = Record("check", "t", "c", "2026-11-29", 1.0, "held", 1, "run")
    return dataclasses.replace(record, **facts)  # type: ignore[arg-type]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    for name in (*trees.PRODUCT, "tests", "bench"):
        (root / name).mkdir(parents=True)
        (root / name / "file").write_text(name)
    (root / "PROOF.jsonl").touch()
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        subprocess.run(
            ["git", "-c", "user.name=n", "-c", "user.email=e", *command], cwd=root, check=True
        )
    return root


# -- promises ---------------------------------------------------------------------------------


def test_promises_are_quoted_as_their_pages_make_them() -> None:
    assert promises.strange_quotes(ROOT) == []


def test_each_row_and_item_of_the_promising_passages_is_among_them() -> None:
    assert promises.missing(ROOT) == []


def test_a_promise_that_nobody_lists_is_found(tmp_path: Path) -> None:
    for name in promises.PROMISING:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        text = (ROOT / name).read_text("utf-8")
        (tmp_path / name).write_text(
            text.replace("**Limits**", "* It is never slow.\n\n**Limits**")
        )
    assert promises.missing(tmp_path) == ["* It is never slow."]


def test_a_promise_is_tried_by_parts_that_are_there() -> None:
    assert len(promises.PROMISES) > 50
    assert {name for promise in promises.PROMISES for name in promise.parts} <= set(PARTS)


def test_rows_of_tables_and_items_are_statements_and_heads_are_not() -> None:
    text = "Text.\n\n| a | b |\n|---|---|\n| c | d |\n\n* one\n  more\n* two\n\nText.\n"
    assert promises.statements(text) == ["| c | d |", "* one more", "* two"]


# -- parts ------------------------------------------------------------------------------------


def test_tests_with_spark_are_each_in_one_part() -> None:
    folders = [folder for rooms in parts.SPARK_ROOMS.values() for folder in rooms]
    assert len(folders) == len(set(folders))
    assert all((ROOT / folder).is_dir() for folder in folders)
    listed = re.findall(r'"([\w/]+/test_\w+\.py)"', (TESTS / "conftest.py").read_text("utf-8"))
    marked = [
        path.relative_to(TESTS).as_posix()
        for path in TESTS.rglob("test_*.py")
        if re.search(r"mark\.spark\b", path.read_text("utf-8"))
    ]
    assert len(listed) > 50
    for file in [*listed, *marked]:
        assert sum(f"tests/{file}".startswith(f"{folder}/") for folder in folders) == 1, file


def test_each_script_with_targets_is_in_one_part() -> None:
    scripts = [script for entries in parts.BENCHES.values() for script in parts.scripts_of(entries)]
    assert sorted(scripts) == sorted({target.script for target in all_targets()})


def test_each_command_of_a_part_is_one_of_the_makefile() -> None:
    text = (ROOT / "Makefile").read_text("utf-8")
    for part in PARTS.values():
        assert part.command[0] == "make"
        assert re.search(rf"^{part.command[1]}:", text, re.MULTILINE), part.name
        for word in part.command[2:]:
            assert f"$({word.split('=')[0]})" in text, word


def test_pythons_that_are_waited_for_are_those_of_the_classifiers() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)
    assert tuple(named) == parts.NAMED
    required = {name for name, part in PARTS.items() if part.is_required and part.needs}
    assert required == {f"wheel-{minor}" for minor in named}


# -- what a run shows -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tally", "text", "expected"),
    [
        (counts.of_suites, LINE, (12000, "processes killed", "", True)),
        (counts.of_suites, LINE.replace("held", "held, 2 tests skipped"),
         (12000, "processes killed", "sigkill: held, 2 tests skipped", True)),
        (counts.of_suites, LINE.replace("held", "skipped: no root"),
         (12000, "processes killed", "sigkill: skipped: no root", False)),
        (counts.of_tests, PYTEST, (120, "tests", "3 failed, 2 skipped", True)),
        (counts.of_tests, f"{PYTEST}\n{PYTEST}", (240, "tests", "6 failed, 4 skipped", True)),
        (counts.of_mutants, "| mutants | 440 mutants, 89.9 % noticed | 1 | 9 s |",
         (440, "mutants", "89.9 % noticed", False)),
        (counts.of_sparks_suites, "12 passed, 0 failed", (12, "tests of Spark's own", "", True)),
        (counts.of_bench, "micro/a.py …\nload is 0.88, not at most 0.3",
         (1, "scripts", "load 0.88, not at most 0.3", False)),
        (counts.of_bench, "micro/a.py …\nevery target is met", (1, "scripts", "", True)),
        (counts.of_findings, findings.summary(["as it was", "otherwise"]),
         (1, "scripts", "1 otherwise, 0 too slow", True)),
        (counts.of_suites, "nothing", None),
        (counts.of_tests, "nothing", None),
    ],
)  # fmt: skip
def test_counts_are_read_from_what_was_printed(tally, text: str, expected) -> None:  # type: ignore[no-untyped-def]
    assert tally(text) == expected


@pytest.mark.parametrize(
    ("status", "text", "verdict", "note"),
    [
        (0, LINE, "held", ""),
        (1, LINE, "failed", "status 1"),
        (None, LINE, "failed", "ended after 100 minutes"),
        (0, "no line", "failed", "status 0, and it printed no counts"),
        (0, LINE.replace("12,000", "3,000"), "short", "3,000 of 12,000"),
        (0, LINE.replace("held", "skipped: no root"), "short", "sigkill: skipped: no root"),
    ],
)
def test_verdict_rule(status: int | None, text: str, verdict: str, note: str) -> None:
    judged = prove.judged(PARTS["crash-sigkill"], status, text)
    assert (judged[0], judged[3]) == (verdict, note)


def test_missed_targets_are_short_and_no_failure() -> None:
    text = "micro/a.py …\nload is 0.88, not at most 0.3"
    assert prove.judged(PARTS["bench-micro"], 1, text)[0] == "short"


# -- trees and records ------------------------------------------------------------------------


def test_a_result_counts_for_its_own_tree_alone() -> None:
    part = PARTS["check"]
    assert page.state(part, a_record(tree="t"), "t") == "held"
    assert page.state(part, a_record(tree="t"), "u") == "held at an older tree"
    assert page.state(part, a_record(tree="t", verdict="failed"), "t") == "failed"
    assert page.state(part, None, "t") == "never run"
    strange = dataclasses.replace(part, needs="3.99")
    assert page.state(strange, None, "t").startswith("not tried: no Python 3.99")


def test_the_tree_is_that_of_the_product_and_of_nothing_else(repository: Path) -> None:
    def commit(path: str) -> str:
        (repository / path).write_text("changed")
        assert trees.changed(repository) == ([] if path in trees.WRITTEN else [path])
        command = ["git", "-c", "user.name=n", "-c", "user.email=e", "commit", "-qam", "more"]
        subprocess.run(command, cwd=repository, check=True)
        return trees.tree(repository)

    first = trees.tree(repository)
    assert commit("tests/file") == first
    assert commit("PROOF.jsonl") == first
    assert commit("connectors/file") != first
    shell = "git rev-parse HEAD:cec_store HEAD:connectors HEAD:indexes | sha256sum"
    done = subprocess.run(shell, shell=True, cwd=repository, capture_output=True, text=True)
    assert done.stdout[:12] == trees.tree(repository)


def part_of(program: str) -> Part:
    return Part("p", (sys.executable, "-c", program), "a program", counts.of_commands)


def test_a_part_is_run_and_its_result_kept_with_its_tree(repository: Path, tmp_path: Path) -> None:
    record = prove.prove(part_of("print('done')"), repository, tmp_path / "logs")
    assert (record.verdict, record.tree) == ("held", trees.tree(repository))
    assert records.read(repository) == {"p": record}
    failed = prove.prove(part_of("raise SystemExit(3)"), repository, tmp_path / "logs")
    assert failed.verdict == "failed"
    assert records.read(repository) == {"p": failed}


def test_a_part_is_told_that_servers_and_a_browser_are_required(
    repository: Path, tmp_path: Path
) -> None:
    program = (
        "import os; assert os.environ['CEC_STORES'] == os.environ['CEC_CHROMIUM'] == 'required'"
    )
    assert prove.prove(part_of(program), repository, tmp_path / "logs").verdict == "held"


def test_nothing_is_kept_of_changed_files(repository: Path, tmp_path: Path) -> None:
    changes = part_of("open('tests/file', 'w').write('other')")
    with pytest.raises(SystemExit, match="files changed while it ran"):
        prove.prove(changes, repository, tmp_path / "logs")
    with pytest.raises(SystemExit, match="commit or undo first: tests/file"):
        prove.prove(part_of("pass"), repository, tmp_path / "logs")
    assert records.read(repository) == {}


def test_a_part_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    command = ["bash", "-c", "sleep 60 & sleep 60"]
    began = time.monotonic()
    assert running.run(command, tmp_path / "log", 0.2, tmp_path) is None
    assert time.monotonic() - began < 30


def test_records_are_a_line_each_and_a_strange_line_is_named(tmp_path: Path) -> None:
    records.keep(tmp_path, a_record(part="b"))
    records.keep(tmp_path, a_record(part="a"))
    records.keep(tmp_path, a_record(part="b", verdict="short"))
    lines = (tmp_path / records.FILE).read_text("utf-8").splitlines()
    assert [json.loads(line)["part"] for line in lines] == ["a", "b"]
    assert records.read(tmp_path)["b"].verdict == "short"
    (tmp_path / records.FILE).write_text(lines[0] + '\n{"part": "c"}\n')
    with pytest.raises(SystemExit, match="line 2"):
        records.read(tmp_path)


def test_the_committed_page_has_each_part_promise_and_record() -> None:
    text = (ROOT / page.FILE).read_text("utf-8")
    assert re.findall(r"^\| `([\w.-]+)` \|", text, re.MULTILINE) == list(PARTS)
    for promise in promises.PROMISES:
        assert f"| {promise.quote.strip('| ')} |" in text
    known = records.read(ROOT)
    assert set(known) <= set(PARTS)
    for record in known.values():
        assert f"`{record.tree}` of `{record.commit}`" in text
    assert "## Gaps" in text


def test_a_finding_that_changed_is_told_and_fails_nothing(tmp_path: Path) -> None:
    for name, body in (
        ("same", "echo as ever"),
        ("other", "echo new; exit 1"),
        ("slow", "sleep 9"),
    ):
        (tmp_path / f"{name}.sh").write_text(body)
    assert findings.outcome(tmp_path / "same.sh", 5) == ("as it was", "as ever")
    assert findings.outcome(tmp_path / "other.sh", 5) == ("otherwise", "new")
    assert findings.outcome(tmp_path / "slow.sh", 0.2)[0] == "too slow"
