"""Scala and Python read each other's state logs: golden ones, and random ones."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cec_store import open_queue
from cec_store.format.ends import judge
from cec_store.inspector.verifying.log import verify
from cec_store.state_logs.state_log import StateLog
from cec_store.storage.local import LocalFolder
from support.disks.memory_folder import MemoryFolder
from support.places.state_folders import STATE_CASES, At, expected, log_in, put, put_case
from support.places.state_logs import EMPTY, Grown, Writer, grow
from support.vectors import lists
from support.vectors.ends import CASES
from support.vectors.make import FOLDER, STATE_LOG_SCALA

pytest.importorskip("pyspark")

from support.spark.jvm import run_jvm

FIGURES = ("state", "open_windows", "extent_records")
Wanted = list[tuple[At, dict[str, Any]]]


def found_by_scala(folder: Path, logs: dict[str, Wanted]) -> dict[str, Wanted]:
    said = run_jvm("read", logs=folder, timeout_s=500)
    assert said == {"logs": len(logs), "versions": sum(map(len, logs.values()))}
    found = {}
    for name, wanted in logs.items():
        read = json.loads((folder / name / "found.json").read_text("utf-8"))
        found[name] = [(at, each) for (at, _), each in zip(wanted, read, strict=True)]
    return found


def figures(wanted: Wanted) -> Wanted:
    return [(at, {name: each[name] for name in FIGURES}) for at, each in wanted]


@pytest.mark.quick
def test_scala_reads_the_golden_logs_as_python_does(tmp_path: Path) -> None:
    logs = {case["name"]: put_case(tmp_path / case["name"], case) for case in STATE_CASES}
    assert len(logs) == 4
    found = found_by_scala(tmp_path, logs)
    for name, wanted in logs.items():
        assert found[name] == figures(wanted), name


def test_scala_still_writes_the_golden_log(tmp_path: Path) -> None:
    (case,) = [case for case in STATE_CASES if case["name"] == STATE_LOG_SCALA]
    said = run_jvm("golden", into=tmp_path)
    assert said["unique_ids"] == [each["unique_id"] for each in case["expect"]["versions"]]
    golden = {path.name: path.read_bytes() for path in (FOLDER / STATE_LOG_SCALA).iterdir()}
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.seg")} == golden


def test_scala_reads_the_golden_lists_and_appends_to_each(tmp_path: Path) -> None:
    """Lists in one record among them: version 1 has these."""
    put(tmp_path / "0" / "0", log_in(FOLDER / lists.NAME), [])
    found = run_jvm("lists", root=tmp_path, last=len(lists.LISTS))
    assert len(lists.LISTS) == found["appended"] == 5
    for number, said in enumerate(found["versions"], 1):
        wanted = {k: [[n, lists.text_of(n)] for n in ns] for k, ns in lists.LISTS[number].items()}
        assert said["lists"] == wanted, number
        assert [tuple(each) for each in said["told"]] == [
            (how, key, None if n is None else [n, lists.text_of(n)])
            for how, key, n in lists.TOLD[number]
        ], number


@pytest.mark.parametrize("kept", [(0,), (1,), ()], ids=["no last", "no first", "none"])
def test_scala_refuses_a_list_that_lacks_a_chunk(tmp_path: Path, kept: tuple[int, ...]) -> None:
    folder = MemoryFolder({})
    chunks = {lists.chunk_key("a", n): lists.chunk(0, n) for n in kept}
    changes = {**lists.names(chunks=True), lists.list_key("a"): lists.head(2), **chunks}
    Writer(folder, Random(1)).commit(EMPTY, changes)
    put(tmp_path / "0" / "0", folder, [])
    said = run_jvm("refusedLists", root=tmp_path)["said"]
    assert re.search(r"CecLogException: .*operator 0, partition 0.* lacks .*verify", said), said


def wanted_of(grown: Grown) -> Wanted:
    by_number: Wanted = [(number, expected(each)) for number, each in grown.versions().items()]
    return by_number + [(each.unique_id, expected(each)) for each in grown.attempts]


@pytest.mark.quick
def test_scala_reads_what_python_writes(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    """Trees with retries, twins, rolls, commits in several frames, and merged segments."""
    logs: dict[str, Wanted] = {}
    merged = twins = 0
    for seed in range(crash_count(30, 1500)):
        folder = MemoryFolder({})
        grown = grow(folder, Random(seed), 14)
        logs[f"{seed}"] = wanted_of(grown)
        put(tmp_path / f"{seed}", folder, logs[f"{seed}"])
        merged += bool(grown.merged)
        twins += len(grown.versions()) < len(grown.attempts)
    assert merged > 5
    assert twins > 5
    found = found_by_scala(tmp_path, logs)
    for name, wanted in logs.items():
        assert found[name] == figures(wanted), f"seed {name}"


def by_family(log: StateLog, at: At) -> tuple[dict[str, dict[str, str]], int]:
    """Keys and values by the name of their column family, and how many names are in the log."""
    found = log.rebuild(at=at)
    rows = list(zip(found.keys.to_pylist(), found.states.to_pylist(), strict=True))
    names = {1: "default"}
    for key, state in rows:
        if key["family"] == 0 and key["key"]:  # the empty name: the highest number given up
            names[int.from_bytes(state["value"], "little")] = key["key"].decode()
    content: dict[str, dict[str, str]] = {name: {} for name in names.values()}
    for key, state in rows:
        if key["family"]:
            content[names[key["family"]]][key["key"].hex()] = state["value"].hex()
    assert found.open_windows == len(rows)
    return content, sum(key["family"] == 0 for key, _ in rows)


@pytest.mark.parametrize("v2", [False, True], ids=["V1", "V2"])
def test_python_reads_what_scala_writes(
    tmp_path: Path, crash_count: Callable[[int, int], int], v2: bool
) -> None:
    seeds = crash_count(2, 200)
    run_jvm(
        "model", root=tmp_path, families=True, v2=v2, maintenance=True, until=seeds, dump=True,
        timeout_s=60 + 5 * seeds,
    )  # fmt: skip
    versions = families = 0
    for seed in range(seeds):
        folder = tmp_path / f"seed-{seed}"
        log = open_queue(folder / "0" / "0")
        assert isinstance(log, StateLog)
        for each in json.loads((folder / "expected.json").read_text("utf-8")):
            at = each["id"] or each["version"]
            content, named = by_family(log, at)
            assert content == each["families"], (seed, at)
            assert each["id"] in (None, log.unique_id(at))
            extent = log.extent(at)
            assert (extent.open_windows, extent.records) == (each["open_windows"], each["extent"])
            assert each["open_windows"] == named + sum(map(len, content.values()))
            versions += 1
            families += named
        assert verify(LocalFolder(folder / "0" / "0")).is_sound, seed
    assert versions > 8 * seeds
    assert families > versions


@pytest.mark.quick
def test_scala_judges_the_end_of_a_segment_as_python_does(tmp_path: Path) -> None:
    """Each case of the table of docs/format.md, which tests/format/test_ends.py holds to it."""
    lines = []
    for kind, _, facts in CASES:
        words = ["-" if value is None else str(value).lower() for value in facts]
        lines.append(" ".join((kind.value.title(), *words)))
    (tmp_path / "cases").write_text("\n".join(lines), encoding="utf-8")
    found = run_jvm("ends", cases=tmp_path / "cases")["verdicts"]
    for (kind, _, facts), said in zip(CASES, found, strict=True):
        verdict, byte = judge(kind, facts)
        assert said == f"{verdict.name.title().replace('_', '')} {byte}", (kind, facts)
