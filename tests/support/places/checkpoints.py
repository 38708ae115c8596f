"""Checkpoint directories as Spark writes them, made by hand, state by the tests' own writer."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from cec_store.connectors.spark.setup.settings import PROVIDER, PROVIDER_KEY
from cec_store.storage.local import LocalFolder
from support.places.state_logs import EMPTY, Commit, Writer, random_changes

START_MS = 1_767_225_600_000
STEP_MS = 10_000
JOIN = (
    "left-keyToNumValues",
    "left-keyWithIndexToValue",
    "right-keyToNumValues",
    "right-keyWithIndexToValue",
)
"""Names of the stores of a join, which are its column families in state format 3."""


def began_us(batch: int) -> int:
    return (START_MS + batch * STEP_MS) * 1000


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    # What Hadoop leaves beside each file on a local disk.
    (path.parent / f".{path.name}.crc").write_bytes(b"crc\0")


@dataclass
class Store:
    """One state store, and every attempt that stands in its log."""

    path: Path
    random: Random
    made: list[Commit] = field(default_factory=lambda: [EMPTY])
    """By version."""

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True)
        self.folder = LocalFolder(self.path)
        self.restart()

    def restart(self) -> None:
        self.writer = Writer(self.folder, self.random)

    def commit(self, base: Commit | None = None) -> Commit:
        base = base or self.made[-1]
        commit = self.writer.commit(base, random_changes(self.random, base, 6), renew=6)
        self.made = [*self.made[: base.version + 1], commit]
        return commit


@dataclass
class Made:
    """A query of one operator, with a file source of its own and a source as Kafka is."""

    path: Path
    seed: int = 0
    version: int = 1
    stores: Sequence[str] = ("default",)
    partitions: int = 2
    conf: dict[str, str] = field(default_factory=lambda: {PROVIDER_KEY: PROVIDER})
    compact_every: int = 4

    def __post_init__(self) -> None:
        random = Random(self.seed)
        write(self.path / "metadata", '{"id":"46ec949f-30e1-46fd-a299-3291543c1296"}')
        self.states = {}
        for partition in range(self.partitions):
            for store in self.stores:
                inside = Path(str(partition), *([] if store == "default" else [store]))
                self.states[partition, store] = Store(self.path / "state" / "0" / inside, random)
                write(self.path / "state" / "0" / inside / "_metadata" / "schema", "v3 of Spark")
        write(self.path / "state" / "0" / "_metadata" / "metadata", 'v1\n{"operatorInfo":{}}')
        write(self.path / "sources" / "1" / "0", 'v1\n{"topic":{"0":17}}')
        self.batches = 0

    def run(self, batches: int) -> None:
        for _ in range(batches):
            self.plan()
            for state in self.states.values():
                state.commit()
            self.commit()

    def plan(self) -> None:
        """The entry of the file source, and the offsets, as before a batch."""
        batch = self.batches
        entry = f'{{"path":"file:///in/{batch}","timestamp":1,"batchId":{batch}}}'
        folder = self.path / "sources" / "0"
        if (batch + 1) % self.compact_every == 0:
            write(folder / f"{batch}.compact", f"v1\n{entry}")
        else:
            write(folder / str(batch), f"v1\n{entry}")
        said = {"batchWatermarkMs": 0, "batchTimestampMs": began_us(batch) // 1000}
        first = json.dumps({**said, "conf": self.conf})
        offsets = f'{{"logOffset":{batch}}}\n{{"topic":{{"0":{17 + batch}}}}}'
        write(self.path / "offsets" / str(batch), f"v1\n{first}\n{offsets}")

    def commit(self) -> None:
        said: dict[str, Any] = {"nextBatchWatermarkMs": 0}
        if self.version == 2:
            said["stateUniqueIds"] = {"0": self.unique_ids()}
        write(self.path / "commits" / str(self.batches), f"v{self.version}\n{json.dumps(said)}")
        self.batches += 1

    def unique_ids(self) -> list[list[str]]:
        return [
            [self.states[partition, store].made[-1].unique_id for store in self.stores]
            for partition in range(self.partitions)
        ]

    def restart(self) -> None:
        for state in self.states.values():
            state.restart()


def tree_of(path: Path) -> dict[str, tuple[str, int]]:
    """Every file with a digest of its bytes and its time of change, and every folder."""
    folders = {f"{each.relative_to(path)}/": ("", 0) for each in path.rglob("*") if each.is_dir()}
    return folders | {
        str(file.relative_to(path)): (
            sha256(file.read_bytes()).hexdigest(),
            file.stat().st_mtime_ns,
        )
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }
