"""The log of commits in Scala: what it writes Python reads, and the other way round."""

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cec_store.errors import CorruptLog
from cec_store.format.by_reference.commit_body import segments_of
from cec_store.format.by_reference.commits import (
    Operation,
    ReferenceCommit,
    ReferenceObject,
    Since,
)
from cec_store.format.schema import RecordSchema
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_commits import batch_after, making, merge_after
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.partitioned.by_reference.segment_objects import SegmentMaker
from cec_store.storage.names import commit_number_of, commit_object_name
from cec_store.storage.stores.local_store import LocalStore
from support.disks.fault_shim import Order, calls_in, library
from support.places.commits_in_memory import COMMITS, FLOOR, AgedObjects, long_history, write_old
from support.spark.jvm import run_jvm
from support.vectors.commits import OBJECTS, object_of
from support.vectors.make import FOLDER

SCHEMA = RecordSchema(pa.schema([("n", pa.int64()), ("text", pa.string())]), key_columns=("n",))
SEGMENT = {
    "partition": 1, "first_offset": 5, "records": 7, "file": "data/q/3/00001-9.seg", "byte": 900,
    "bytes": 77, "least_us": -5, "greatest_us": 8, "frames": 2, "salt": 2**64 - 1, "written_us": 6,
}  # fmt: skip


def objects() -> dict[str, ReferenceObject]:
    """By the name of a file: golden ones, and others with nothing and with many segments."""
    golden = [object_of(name) for name in OBJECTS]
    log_id, append = golden[1].log_id, golden[1].commit
    many = [{**SEGMENT, "first_offset": 7 * n, "removed": n % 3 == 0} for n in range(5000)]
    return {
        **{f"{made.number}.commit": made for made in golden},
        "76.commit": ReferenceObject(
            76,
            log_id,
            append,
            segments_of(many[:2]),
            2**40,
            3,
            (75, 2),
            Since((64, 2**64 - 1), segments_of(many)),
        ),
        "5.commit": ReferenceObject(
            5, log_id, ReferenceCommit(Operation.TRIM, starts=(3,), ends=(3,)), segments_of([]), -1
        ),
    }


def shown(found: ReferenceObject) -> dict[str, Any]:
    commit = found.commit
    schema = b"" if commit.schema is None else commit.schema.encode()
    return {
        "number": found.number, "log_id": found.log_id.hex(), "created_us": found.created_us,
        "salt": str(found.salt), "after": shown_base(found.after),
        "since": None if found.since is None else {
            "base": shown_base(found.since.base), "segments": shown_rows(found.since.segments),
        },
        "commit": {
            "operation": int(commit.operation), "query": commit.query, "batch": commit.batch,
            "starts": [*commit.starts], "ends": [*commit.ends], "queries": {**commit.queries},
            "consumed": {queue: [*ends] for queue, ends in commit.consumed.items()},
            "settings": {**commit.settings}, "schema_bytes": len(schema),
        },
        "segments": shown_rows(found.segments),
    }  # fmt: skip


def shown_base(base: tuple[int, int] | None) -> str | None:
    return None if base is None else "{} {}".format(*base)


def shown_rows(segments: pa.RecordBatch) -> list[dict[str, Any]]:
    return [{**row, "salt": str(row["salt"])} for row in segments.to_pylist()]


def test_objects_of_either_side_are_read_by_the_other(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    written = objects()
    for name, found in written.items():
        (tmp_path / "in" / name).write_bytes(b"".join(found.encode()))
    for name in OBJECTS:
        golden = object_of(name)
        file = tmp_path / "in" / f"{golden.number}.commit"
        shutil.copy(FOLDER / f"{name}.bin", file)
        written[file.name] = ReferenceObject.decode(file.read_bytes(), name, golden.number)
    said = run_jvm("logObjects", **{"in": tmp_path / "in", "out": tmp_path / "out"})
    assert said == {name: shown(found) for name, found in written.items()}
    for name, found in written.items():
        data = (tmp_path / "out" / name).read_bytes()
        back = ReferenceObject.decode(data, name, found.number)
        assert shown(back) == shown(found)
        assert back.commit.schema == found.commit.schema


def test_what_is_damaged_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    data = b"".join(objects()["17.commit"].encode())
    step = len(data) // 40
    places = sorted({*range(0, len(data), step), len(data) - 1})
    for place in places:
        flipped = bytearray(data)
        flipped[place] ^= 0x10
        (tmp_path / "in" / f"{1000 + place}.commit").write_bytes(flipped)
        (tmp_path / "in" / f"{100_000 + place}.commit").write_bytes(data[:place])
    said = run_jvm("logObjects", **{"in": tmp_path / "in", "out": tmp_path / "out"})
    assert len(said) == 2 * len(places)
    for name, outcome in said.items():
        assert name in outcome["refused"], outcome
    assert not list((tmp_path / "out").iterdir())


def made(path: Path, partitions: int = 2) -> ReferenceLog:
    log = ReferenceLog(LocalStore(path))
    log.make(making(SCHEMA, partitions, {}, 1))
    return log


def add(log: ReferenceLog, count: int) -> None:
    state = log.open()
    for number in range(count):
        row = {**SEGMENT, "file": f"data/python/{state.number}-{number}.seg"}
        del row["first_offset"]
        state = log.add(
            state, lambda now, row=row: batch_after(now, "python", 1, [row], 7, is_stream=False)
        )


def test_a_queue_that_is_replaced_or_loses_its_newest_commit_is_told_by_the_jvm(
    tmp_path: Path,
) -> None:
    """As Python tells it: tests/partitioned/by_reference/test_replaced_queues.py."""
    (tmp_path / "in").mkdir()
    (tmp_path / "now").mkdir()
    newest = commit_object_name(4)
    names = ["removed", "anew", "older", "lost", "link", "fifo", "folder", "same"]
    for name in names:
        log = made(tmp_path / "in" / name)
        add(log, 2)
        if name == "older":
            shutil.copytree(tmp_path / "in" / name, tmp_path / "now" / name)
        add(log, 2)
        if name == "anew":
            add(made(tmp_path / "now" / name), 4)
        elif name not in ("removed", "older"):
            shutil.copytree(tmp_path / "in" / name, tmp_path / "now" / name)
    harmed = {name: tmp_path / "now" / name / newest for name in names}
    for name in ("lost", "link", "fifo", "folder"):
        harmed[name].rename(tmp_path / f"{name}.commit")
    harmed["link"].symlink_to(tmp_path / "link.commit")
    os.mkfifo(harmed["fifo"])
    harmed["folder"].mkdir()
    said = run_jvm("replacedQueues", **{"in": tmp_path / "in", "now": tmp_path / "now"})
    for name in ("removed", "anew", "older"):
        for call in ("refresh", "add"):
            assert said[name][call].startswith("QueueReplaced: "), (name, call, said)
    assert said["removed"]["open"].startswith("NotAQueue: ")
    assert (said["anew"]["open"], said["older"]["open"]) == ("commit 4", "commit 2")
    for name in ("lost", "link", "fifo", "folder"):
        for call in ("refresh", "add", "open"):
            kind = said[name][call].split(":")[0]
            assert kind in ("CecLogException", "DamagedLog"), (name, call, said)
            assert newest in said[name][call]
    assert "a symbolic link is in the place of a file" in said["link"]["open"]
    assert said["same"] == {"add": "commit 5", "refresh": "commit 5", "open": "commit 5"}
    (tmp_path / "in" / "same" / commit_object_name(5)).unlink()
    with pytest.raises(CorruptLog, match="commit is missing"):  # the JVM has noted it, too
        ReferenceLog(LocalStore(tmp_path / "in" / "same")).open()


def test_old_commits_are_deleted_by_the_jvm_and_who_slept_there_goes_on(tmp_path: Path) -> None:
    """As in Python: tests/partitioned/by_reference/test_old_commits.py."""
    objects, _ = long_history()
    write_old(tmp_path / "q", objects)
    said = run_jvm("deleteOldCommits", path=tmp_path / "q")
    assert said == {"before": FLOOR, "number": COMMITS}
    left = [*(tmp_path / "q").rglob("*.commit")]
    assert len(left) == COMMITS + 2 - FLOOR
    for name in ("slept", "slept at 0", "awake"):
        early = 1 if name == "slept at 0" else 101
        first = {commit_object_name(n): objects[commit_object_name(n)] for n in range(early)}
        write_old(tmp_path / "in" / name, first)
        shutil.copytree(tmp_path / "q", tmp_path / "now" / name)
    said = run_jvm("replacedQueues", **{"in": tmp_path / "in", "now": tmp_path / "now"})
    after = f"commit {COMMITS + 1}"
    for name in ("slept", "slept at 0"):
        assert said[name] == {"add": after, "refresh": after, "open": after}
    assert said["awake"]["refresh"].startswith("QueueReplaced")


def test_the_jvm_keeps_old_commits_whose_rows_count(tmp_path: Path) -> None:
    """Those of commits 7 and 4,000 do; those of 100 were merged after the last that says all.

    So were those of an object of three; another's were merged before it, and go with the commits.
    """
    store = AgedObjects()
    log, files = ReferenceLog(store), [f"data/q/{number}.seg" for number in (50, 60, 70)]
    merges = {
        200: merge_of(files[0]), FLOOR + 3: merge_of(commit_object_name(100)),
        FLOOR + 4: merge_of(files[1]),
    }  # fmt: skip
    state = log.make(making(SCHEMA, 1, {}, 1))
    while state.number < COMMITS:
        number = state.number + 1
        made = inline if number in (7, 100, 4_000) else merges.get(number, plain)
        state = log.add(state, made)
    write_old(tmp_path / "q", {**store.held, **dict.fromkeys(files, b"rows")})
    said = run_jvm("deleteOldCommits", path=tmp_path / "q")
    assert said == {"before": FLOOR, "number": COMMITS}
    names = [path.name for path in (tmp_path / "q").rglob("*.commit")]
    left = sorted(number for name in names if (number := commit_number_of(name)) is not None)
    assert left == [0, 7, 100, 4_000, *range(FLOOR, COMMITS + 1)]
    assert [(tmp_path / "q" / file).exists() for file in files] == [False, True, True]
    opened = ReferenceLog(LocalStore(tmp_path / "q")).open()
    assert opened.live.drop_columns("added").equals(state.live.drop_columns("added"))


def plain(now: QueueState) -> ReferenceObject | None:
    row = {**SEGMENT, "partition": 0, "file": f"data/q/{now.number}.seg"}
    return batch_after(now, "q", 1, [row], 7, is_stream=False)


def inline(now: QueueState) -> ReferenceObject | None:
    maker = SegmentMaker(SCHEMA, lambda: 7)
    maker.append(pa.record_batch({"n": [1, 2], "text": ["a", "b"]}, schema=SCHEMA.data))
    finished = maker.finish_inline(0, 0)
    assert finished is not None
    made = batch_after(now, "q", 1, [finished[0]], 7, is_stream=False)
    return None if made is None else replace(made, inline=[finished[1]])


def merge_of(file: str) -> Callable[[QueueState], ReferenceObject | None]:
    """Return what puts another object in the place of this one."""

    def merge(now: QueueState) -> ReferenceObject | None:
        (row,) = (row for row in now.live.to_pylist() if row["file"] == file)
        gone = pa.Table.from_pylist([row], now.live.schema)
        del row["added"]
        return merge_after(now, gone, [{**row, "file": f"data/merge/{now.number}/1.seg"}], 7)

    return merge


@pytest.mark.parametrize("count", [3, 4, 64, 70])
def test_logs_of_either_side_are_opened_by_the_other(tmp_path: Path, count: int) -> None:
    log = made(tmp_path / "q")
    add(log, count)
    said = run_jvm("addCommits", path=tmp_path / "q", commits=count)
    state = log.open()
    assert (state.number, said["number"]) == (2 * count, 2 * count)
    assert said["ends"] == [*state.commit.ends] == [3 * count, 7 * count]
    assert said["queries"] == state.commit.queries
    files = state.live.column("file").to_pylist()
    assert [each["file"] for each in said["live"]] == files
    says_since = [n for n in range(2 * count + 1) if log.commit(n).since is not None]
    assert says_since == [*range(4, 2 * count + 1, 4)]
    add(log, 1)
    assert run_jvm("addCommits", path=tmp_path / "q")["number"] == 2 * count + 1


def test_writers_of_both_sides_that_race_lose_nothing(tmp_path: Path) -> None:
    log = made(tmp_path / "q")
    each, jvms, pythons = 40, 2, 2

    def jvm(number: int) -> None:
        run_jvm("addCommits", path=tmp_path / "q", commits=each, query=f"jvm{number}", alone=0)

    with ThreadPoolExecutor(jvms + pythons) as pool:
        waiting = [pool.submit(jvm, number) for number in range(jvms)]
        waiting += [
            pool.submit(add, ReferenceLog(LocalStore(tmp_path / "q")), each) for _ in range(pythons)
        ]
        for one in waiting:
            one.result()
    state = log.open()
    assert state.number == (jvms + pythons) * each
    assert state.commit.ends == (3 * jvms * each, 7 * pythons * each)
    assert state.live.num_rows == state.number


# -- a file system without hard links -------------------------------------------------------------


def created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: Order, name: str) -> str:
    root, log = tmp_path / "q", tmp_path / f"calls-{order.at}"
    monkeypatch.setenv("LD_PRELOAD", str(library()))
    for variable, value in order.environment(root, log).items():
        monkeypatch.setenv(variable, value)
    outcome = run_jvm("createObject", path=root, name=name)["outcome"]
    assert isinstance(outcome, str)
    return outcome


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("EPERM", "NoHardLinks: {path}: this file system has no hard links"),
        ("EIO", "FileSystemException: {path} -> "),
    ],
)
def test_a_link_that_the_file_system_lacks_is_refused_by_name_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, told: str
) -> None:
    assert created(tmp_path, monkeypatch, Order(kind, -1), "first/a") == "made"
    calls = [call.name for call in calls_in(tmp_path / "calls--1")]
    os.rename(tmp_path / "q", tmp_path / "before")
    outcome = created(tmp_path, monkeypatch, Order(kind, calls.index("link")), "first/a")
    assert outcome.startswith(told.format(path=tmp_path / "q" / "first" / "a")), outcome
    # A disk that fails may keep the folder; what is not to be used at all keeps nothing.
    assert (tmp_path / "q").exists() == (kind == "EIO")
