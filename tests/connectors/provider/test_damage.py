"""Damage to state logs, read by the provider: exactly what was written, or a refusal by name.

The Scala program makes every wound to every small log and itself stops at any other answer. Here
its refusals are compared with what Python says of the same wound.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cec_store import CorruptLog, NotAQueue, OutOfRange, open_queue
from cec_store.state_logs.state_log import StateLog
from cec_store.storage.names import segment_name
from support.disks.memory_folder import MemoryFolder
from support.places.state_folders import STATE_CASES, At, expected, log_in, put, put_case
from support.places.state_logs import EMPTY, Writer
from support.runs.counts import crash_cases, crash_count
from support.vectors import lists

pytest.importorskip("pyspark")

from support.spark.jvm import run_jvm

Wanted = list[tuple[At, dict[str, Any]]]
TWINS = "twins"
# Lists are records like any, and a log of many takes long to be wounded everywhere.
FOUND = [case for case in STATE_CASES if case["name"] != lists.NAME]
# At less than full size one of each side's, flipped and cut at every 31st byte.
CASES = crash_cases([c for c in FOUND if c["name"].endswith(("merged", "linked"))], FOUND)
EVERY = crash_count(31, 1)
# Where all of an attempt is gone, nobody can tell it from one that died before it wrote.
WITHOUT_TRACE = {"cut", "fill", "missing", "zero", "swap"}


def put_twins(folder: Path) -> Wanted:
    """Two attempts at version 3, each the end of its segment: nothing builds on either."""
    log, random = MemoryFolder({}), Random(5)
    first = Writer(log, random, level=0)
    one = first.commit(EMPTY, {(1, b"a"): b"1", (1, b"b"): b"2"})
    two = first.commit(one, {(1, b"b"): None, (1, b"c"): b"3"})
    given_up = first.commit(two, {(1, b"a"): b"4"})
    counted = Writer(log, random, level=0).commit(two, {(1, b"d"): b"5"})
    by_number = [(each.version, expected(each)) for each in (one, two, counted)]
    by_id = [(each.unique_id, expected(each)) for each in (one, two, given_up, counted)]
    wanted: Wanted = [*by_number, *by_id]
    put(folder, log, wanted)
    return wanted


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Wanted]]:
    folder = tmp_path_factory.mktemp("logs")
    logs = {case["name"]: put_case(folder / case["name"], case) for case in CASES}
    return folder, {**logs, TWINS: put_twins(folder / TWINS)}


@pytest.fixture(scope="module")
def counts(
    logs: tuple[Path, dict[str, Wanted]], crash_count: Callable[[int, int], int]
) -> dict[str, dict[str, int]]:
    """By log: how often each kind of wound had which outcome; for a version wanted each."""
    folder, names = logs
    bits = {name: crash_count(2 if name == TWINS else 1, 8) for name in names}
    return run_jvm("damage", logs=folder, every=EVERY, timeout_s=900, **bits)


def total(counts: dict[str, int], kind: str, outcomes: str = "=or") -> int:
    return sum(counts.get(f"{kind} {each}", 0) for each in outcomes)


def test_every_wound_gives_the_content_or_a_refusal_by_name(
    logs: tuple[Path, dict[str, Wanted]], counts: dict[str, dict[str, int]]
) -> None:
    folder, names = logs
    for name, wanted in names.items():
        found = counts[name]
        sizes = [path.stat().st_size for path in (folder / name).glob("*.seg")]
        places = sum(len(range(0, size, EVERY)) for size in sizes)
        assert total(found, "flip") >= places * len(wanted)
        assert total(found, "cut") == places * len(wanted)
        for kind in ("flip", "cut", "zero", "fill", "missing", "stray"):
            assert total(found, kind, "r") > 0, (name, kind)
            assert total(found, kind, "=") > 0, (name, kind)
        assert (total(found, "lost"), total(found, "lost", "r")) == (len(wanted), len(wanted))


def test_another_attempt_answers_only_where_the_first_is_gone_without_trace(
    counts: dict[str, dict[str, int]],
) -> None:
    """And by its number only; never where something builds on it, or for a flipped bit."""
    others = {name: {key for key in found if key.endswith("o")} for name, found in counts.items()}
    kinds = {key.split()[0] for key in others.pop(TWINS)}
    assert {"cut", "missing"} <= kinds <= WITHOUT_TRACE
    assert others == {case["name"]: set() for case in CASES}


def wounded(log: MemoryFolder, words: list[str]) -> MemoryFolder:
    """The same that Damage.scala does, by its words."""
    kind, files = words[0], log.copy().files
    if kind == "lost":
        return MemoryFolder({})
    name = segment_name(int(words[1]))
    at = int(words[2]) if len(words) > 2 and words[2].isdigit() else 0
    if kind == "flip":
        files[name][at // 8] ^= 1 << at % 8
    elif kind in ("zero", "fill"):
        end = min(at + 64, len(files[name])) if kind == "zero" else len(files[name])
        files[name][at:end] = bytes(end - at)
    elif kind == "cut":
        del files[name][at:]
    elif kind == "missing":
        del files[name]
    elif kind == "swap":
        other = segment_name(at)
        files[name], files[other] = files[other], files[name]
    else:
        first = files[min(files)]
        files[name] = {"text": bytearray(b"t" * 300), "first": first, "none": bytearray()}[words[2]]
    return MemoryFolder({each: bytes(data) for each, data in files.items()})


def outcome(log: MemoryFolder, at: At, expect: dict[str, Any]) -> str:
    try:
        found = open_queue(log)
        assert isinstance(found, StateLog)
        state = found.rebuild(at=at)
    except (CorruptLog, OutOfRange, NotAQueue):
        return "r"
    rows = zip(state.keys.to_pylist(), state.states.to_pylist(), strict=True)
    content = sorted([k["family"], k["key"].hex(), s["value"].hex()] for k, s in rows)
    return "=" if content == expect["state"] else "o"


# The first test that asks for the counts waits for them, which is most of its time.
@pytest.mark.full
def test_python_answers_no_more_than_scala_of_the_same_damage(
    logs: tuple[Path, dict[str, Wanted]],
    counts: dict[str, dict[str, int]],
    crash_count: Callable[[int, int], int],
) -> None:
    """It answers less: it proves all that a version builds on, where Scala reads the extent."""
    assert counts
    folder, names = logs
    stricter = 0
    every = crash_count(211, 5)
    differing = []
    for name, wanted in names.items():
        log = log_in(folder / name)
        lines = (folder / name / "outcomes").read_text("utf-8").splitlines()
        rare = [line for line in lines if line.split()[0] not in ("flip", "cut", "fill")]
        assert len(rare) > 5
        for line in [*lines[::every], *rare]:
            *words, scala = line.split()
            damaged = wounded(log, words)
            python = "".join(outcome(damaged, at, expect) for at, expect in wanted)
            for (at, _), ours, theirs in zip(wanted, python, scala, strict=True):
                stricter += (ours, theirs) == ("r", "=")
                if ours != theirs and (ours, theirs) != ("r", "="):
                    differing.append(f"{name} {' '.join(words)}: {at}: {ours} where {theirs} is")
    assert differing == [], "Python's answer, and Scala's"
    assert stricter > 0
