"""Commits in a store in memory, of a clock that a test sets, and a long history of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from cec_store.format.by_reference.commit_body import segments_of
from cec_store.format.by_reference.commits import Operation, ReferenceCommit, ReferenceObject
from cec_store.format.schema import RecordSchema
from cec_store.ledger import ages
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.storage.names import commit_number_of
from cec_store.storage.stores.store import Entry

PLAIN = RecordSchema(pa.schema([("n", pa.int64())]))
LOG_ID = bytes(range(16))


class Objects:
    """A store in memory that counts what is asked of it. As the contract has it, and no more."""

    appends = False
    creates_exclusively = True
    racing = None
    url = "memory://queue"

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self.calls: list[str] = []

    def create(self, name: str, parts: Any) -> None:
        self.calls.append("create")
        if self.held.setdefault(name, b"".join(parts)) != b"".join(parts):
            raise FileExistsError(name)

    def read(self, name: str, byte: int = 0, size: int | None = None) -> bytes:
        self.calls.append("read")
        if name not in self.held:
            raise FileNotFoundError(name)
        return self.held[name][byte : None if size is None else byte + size]

    def size(self, name: str) -> int:
        return len(self.held[name])

    def list(self, folder: str = "") -> list[Any]:
        self.calls.append("list")
        below = [name[len(folder) + 1 :] for name in self.held if name.startswith(f"{folder}/")]
        folders = sorted({name.split("/")[0] for name in below if "/" in name})
        return [Entry(name, None) for name in folders] + [
            Entry(name, 1) for name in sorted(below) if "/" not in name
        ]

    def delete(self, names: Any) -> None:
        for name in names:
            self.held.pop(name, None)


def made(log: ReferenceLog) -> QueueState:
    commit = ReferenceCommit(Operation.MAKE, starts=(0,), ends=(0,), schema=PLAIN)
    return log.make(ReferenceObject(0, LOG_ID, commit, segments_of([]), 1))


def row(number: int, first_offset: int, records: int, **more: Any) -> dict[str, Any]:
    return {
        "partition": 0, "first_offset": first_offset, "records": records,
        "file": f"data/q/{number}.seg", "byte": 0, "bytes": 10, "least_us": 0, "greatest_us": 9,
        "frames": 1, "salt": 7, "written_us": 1, **more,
    }  # fmt: skip


def appended(state: QueueState) -> ReferenceObject:
    """One segment more, of as many records as its number."""
    number = state.number + 1
    end = state.commit.ends[0]
    commit = replace(
        state.commit, operation=Operation.APPEND, schema=None, ends=(end + number,), query="q",
        batch=number, queries={"q": number},
    )  # fmt: skip
    segments = segments_of([row(number, end, number)])
    return ReferenceObject(number, LOG_ID, commit, segments, number)


def held(state: QueueState) -> list[tuple[str, int, int]]:
    return sorted(
        (each["file"], each["first_offset"], each["records"]) for each in state.live.to_pylist()
    )


COMMITS, FLOOR = 4_120, 4_096
HOUR_S = 3_600


class AgedObjects(Objects):
    """Objects with times of their making, by a clock that a test sets."""

    def __init__(self, held: dict[str, bytes] | None = None) -> None:
        super().__init__()
        self.held = {} if held is None else {**held}
        self.now_us = 0
        self.made: dict[str, int] = {}
        self.before_create: Callable[[], None] = lambda: None

    def create(self, name: str, parts: Any) -> None:
        self.before_create()
        super().create(name, parts)
        self.made[name] = self.now_us

    def modified_us(self, name: str) -> int:
        if name not in self.held:
            raise FileNotFoundError(name)
        return self.made.get(name, 0)

    def numbers(self) -> list[int]:
        names = [name.rpartition("/")[2] for name in self.held]
        return sorted(number for name in names if (number := commit_number_of(name)) is not None)


class Clock:
    """The time since the machine was started, which a test can pass."""

    def __init__(self) -> None:
        self.passed_us = 0
        self._uptime_us = ages.uptime_us

    def __call__(self) -> int:
        return self._uptime_us() + self.passed_us

    def sleep(self, hours: float) -> None:
        self.passed_us += int(hours * HOUR_S * 1_000_000)


def write_old(folder: Path, objects: Mapping[str, bytes]) -> None:
    """Write the files of a queue that was written two days ago."""
    two_days_ago = time.time() - 2 * 24 * HOUR_S
    for name, data in objects.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (two_days_ago, two_days_ago))


def long_history() -> tuple[dict[str, bytes], dict[int, QueueState]]:
    """Return the objects of a queue of many commits, and its state after some of them."""
    store = AgedObjects()
    log = ReferenceLog(store)
    state = made(log)
    states = {0: state}
    while state.number < COMMITS:
        state = log.add(state, appended)
        if state.number % 100 == 0 or state.number > FLOOR - 3:
            states[state.number] = state
    return store.held, states
