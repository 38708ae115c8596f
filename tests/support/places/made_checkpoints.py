"""Checkpoint directories as Spark leaves them, made without Spark: what a reader is tried on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from cec_store.storage.local import LocalFolder
from support.models import unsafe_row_encoder as encoder
from support.places.state_logs import EMPTY, Commit, Key, Writer

START_MS = 1_700_000_000_000
"""When batch 0 begins; each after it begins a minute later."""
JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
NAMES = {
    pa.int64(): "long", pa.string(): "string", pa.null(): "void", pa.bool_(): "boolean",
    pa.int32(): "integer", pa.decimal128(5, 2): "decimal(5,2)",
}  # fmt: skip
Rows = dict[tuple[Any, ...], "tuple[Any, ...] | None"]
"""By key; None removes it."""
KEY = pa.struct([("user", pa.string()), ("page", pa.int64())])
VALUE = pa.struct([("count", pa.int64()), ("last", pa.string())])
Model = dict[int, dict[tuple[Any, ...], tuple[Any, ...]]]
"""By partition, and key."""


def spark_json(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        element = spark_json(kind.value_type)
        return {"type": "array", "elementType": element, "containsNull": True}
    if not pa.types.is_struct(kind):
        return NAMES[kind]
    fields = [
        {"name": each.name, "type": spark_json(each.type), "nullable": True, "metadata": {}}
        for each in kind
    ]
    return {"type": "struct", "fields": fields}


def java_text(text: str) -> bytes:
    """As ``DataOutputStream.writeUTF``: beyond 16 bits, a character is two."""
    pairs = text.encode("utf-16-be", "surrogatepass")
    units = [
        pairs[at : at + 2].decode("utf-16-be", "surrogatepass") for at in range(0, len(pairs), 2)
    ]
    data = "".join(units).encode("utf-8", "surrogatepass")
    return len(data).to_bytes(2, "big") + data


def schema_file(key: str, value: str, version: int = 2, piece: int = 65_535) -> bytes:
    data = java_text(f"v{version}")
    for text in (key, value):
        if version == 1:
            data += java_text(text)
            continue
        pieces = [text[at : at + piece] for at in range(0, len(text), piece)]
        data += len(pieces).to_bytes(4, "big") + b"".join(map(java_text, pieces))
    return data


@dataclass
class MadeCheckpoint:
    """A query with one stateful operator, of which every batch is what the test says."""

    path: Path
    key: pa.StructType
    value: pa.StructType
    stores: tuple[str, ...] = ("default",)
    partitions: int = 2
    prefix: int = 0
    format: int = 1
    beside: dict[Key, bytes | None] = field(default_factory=dict)
    """What families that no operator has get in each batch."""
    conf: dict[str, str] = field(default_factory=dict)
    """Settings in the offset log, beside the state format of a join: Spark's default is 2."""
    operator: str = "stateStoreSave"
    """Spark's name for it, unless the stores are a join's."""
    batches: int = 0
    _writers: dict[Path, Writer] = field(default_factory=dict)
    _last: dict[Path, Commit] = field(default_factory=dict)
    _before: dict[Path, Commit] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("offsets", "commits"):
            (self.path / name).mkdir(parents=True)
        (self.path / "metadata").write_text('{"id":"8899ad08-fb7f-40e5-b571-232e78756679"}')
        is_join = any(store.startswith("left-") for store in self.stores)
        name = "symmetricHashJoin" if is_join else self.operator
        if is_join:
            self.conf = {JOIN_FORMAT: "2", **self.conf}
        about = {
            "operatorInfo": {"operatorId": 0, "operatorName": name},
            "stateStoreInfo": [
                {"storeName": s, "numColsPrefixKey": self.prefix, "numPartitions": self.partitions}
                for s in self.stores
            ],
        }
        self.put("_metadata/metadata", f"v1\n{json.dumps(about)}".encode())
        for store in self.stores:
            for partition in range(self.partitions):
                self.folder(partition, store).mkdir(parents=True)
            self.put_schema(
                json.dumps(spark_json(self.key)), json.dumps(spark_json(self.value)), store
            )

    def put(self, name: str, data: bytes) -> Path:
        path = self.path / "state" / "0" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def put_schema(self, key: str, value: str, store: str = "default", **how: int) -> Path:
        data = schema_file(key, value, **how)
        return self.put(f"0/{'' if store == 'default' else store}/_metadata/schema", data)

    def folder(self, partition: int, store: str = "default") -> Path:
        return self.path / "state" / "0" / str(partition) / ("" if store == "default" else store)

    def batch(self, *changes: Rows, commits: bool = True, renew: int = 0) -> None:
        """One more batch; the rows that it changes, by partition, the same in every store."""
        number, self.batches = self.batches, self.batches + 1
        about = {
            "batchWatermarkMs": 0, "batchTimestampMs": START_MS + 60_000 * number,
            "conf": self.conf,
        }  # fmt: skip
        publish(self.path / "offsets" / str(number), f"v1\n{json.dumps(about)}\n0")
        ids: list[list[str]] = []
        for partition in range(self.partitions):
            rows = changes[partition] if partition < len(changes) else {}
            ids.append([self._commit(partition, s, rows, renew) for s in self.stores])
        said: dict[str, Any] = {"nextBatchWatermarkMs": 0}
        if self.format == 2:
            said["stateUniqueIds"] = {"0": ids}
        if commits:
            publish(self.path / "commits" / str(number), f"v{self.format}\n{json.dumps(said)}")

    def attempt(self, partition: int, rows: Rows) -> None:
        """Another attempt at the last batch's version, which Spark did not take."""
        folder = self.folder(partition)
        writer = Writer(LocalFolder(folder), Random(99))
        writer.commit(self._before[folder], self._stored(rows))
        writer.close()

    def _commit(self, partition: int, store: str, rows: Rows, renew: int) -> str:
        folder = self.folder(partition, store)
        if folder not in self._writers:
            self._writers[folder] = Writer(LocalFolder(folder), Random(str(folder)), blocks=True)
        base = self._last.get(folder, EMPTY)
        self._before[folder] = base
        made = self._writers[folder].commit(base, self._stored(rows), renew=renew)
        self._last[folder] = made
        return made.unique_id

    def _stored(self, rows: Rows) -> dict[Key, bytes | None]:
        found = dict(self.beside)
        for key, value in rows.items():
            at = 1, encoder.key(self.key, named(self.key, key), self.prefix)
            row = None if value is None else encoder.row(self.value, named(self.value, value))
            found[at] = None if row is None else b"\0" + row
        return found

    def roll(self, partition: int | None = None) -> None:
        """The next batch begins new segments, in one partition or in all."""
        for folder, writer in self._writers.items():
            if partition is None or folder == self.folder(partition):
                writer.roll()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


def publish(path: Path, text: str) -> None:
    """As Spark does: a file is there whole, or not at all."""
    path.with_suffix(".tmp").write_text(text)
    path.with_suffix(".tmp").rename(path)


def named(kind: pa.StructType, values: Iterable[Any]) -> dict[str, Any]:
    return {each.name: value for each, value in zip(kind, values, strict=True)}


def random_rows(random: Random) -> Rows:
    rows: Rows = {}
    for _ in range(random.randrange(12)):
        key = (random.choice([None, "", "ann", "bob", "ßü" * 9]), random.randrange(4))
        value = (random.randrange(-9, 9), random.choice([None, "", "x" * random.randrange(20)]))
        rows[key] = None if random.random() < 0.3 else value
    return rows


def grown(path: Path, batches: int = 6, **how: Any) -> tuple[MadeCheckpoint, list[Model], Any]:
    """A checkpoint, the state that each batch left, and what each changed of what was there."""
    random, made = Random(3), MadeCheckpoint(path, KEY, VALUE, **how)
    states: list[Model] = []
    changes: list[list[Rows]] = []
    for _ in range(batches):
        rows = [random_rows(random) for _ in range(made.partitions)]
        made.batch(*rows, renew=2)
        before = states[-1] if states else {at: {} for at in range(made.partitions)}
        state = {at: dict(each) for at, each in before.items()}
        net: list[Rows] = []
        for at, each in enumerate(rows):
            net.append({key: row for key, row in each.items() if row or key in before[at]})
            for key, row in each.items():
                if row is None:
                    state[at].pop(key, None)
                else:
                    state[at][key] = row
        states.append(state)
        changes.append(net)
    made.close()
    return made, states, changes
