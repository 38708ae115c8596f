"""Checkpoints of `transformWithState` as Spark leaves them, made without Spark, in both encodings.

The variables are those of the golden log, each in the forms that it has there; plain rows are all
of the newest form.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from cec_store.connectors.spark.setup.settings import ENCODING_KEY
from cec_store.storage.local import LocalFolder
from support.models import avro_row_encoder, unsafe_row_encoder
from support.places.made_checkpoints import START_MS, java_text, publish, spark_json
from support.places.state_logs import EMPTY, Commit, Key, Writer
from support.vectors.variables import FAMILIES, INDEX, NUMBERS, joined

VALUE, LIST, MAP = "ValueState", "ListState", "MapState"
KINDS = {"count": VALUE, "items": LIST, "parts": MAP}
CHUNKS = "\0items"


@dataclass
class MadeVariables:
    """A query with one such operator, in one partition."""

    path: Path
    in_avro: bool
    numbers: dict[str, int] = field(default_factory=lambda: dict(NUMBERS))
    """Numbers of the families in the log, by name."""
    families: tuple[str, ...] = tuple(FAMILIES)
    """Those that the schema files have."""
    batches: int = 0
    last: Commit = EMPTY

    def __post_init__(self) -> None:
        for name in ("offsets", "commits", "state/0/0"):
            (self.path / name).mkdir(parents=True)
        (self.path / "metadata").write_text('{"id":"8899ad08-fb7f-40e5-b571-232e78756679"}')
        # The second run has come with other forms, of which plain rows have none.
        runs = [0, 1] if self.in_avro else [1]
        files = [self._schema_file(run) for run in runs]
        variables = [
            {"stateName": name, "stateVariableType": kind, "ttlEnabled": False}
            for name, kind in KINDS.items()
        ]
        about = {
            "operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateExec"},
            "stateStoreInfo": [
                {
                    "storeName": "default", "numColsPrefixKey": 0, "numPartitions": 1,
                    "stateSchemaFilePaths": [str(file) for file in files],
                }
            ],
            "operatorPropertiesJson": json.dumps({"stateVariables": variables}),
        }  # fmt: skip
        self._put("_metadata/v2/0", f"v2\n{json.dumps(about)}".encode())
        self._writer = Writer(LocalFolder(self.folder), Random(str(self.path)), blocks=True)

    @property
    def folder(self) -> Path:
        return self.path / "state" / "0" / "0"

    def _put(self, name: str, data: bytes) -> Path:
        path = self.path / "state" / "0" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def _schema_file(self, run: int) -> Path:
        data = java_text("v3") + len(self.families).to_bytes(4, "big")
        for name in self.families:
            variable = FAMILIES[name]
            forms = variable.forms or {}
            number = min(run, max(forms)) if self.in_avro else 0
            kind = forms[number] if self.in_avro else variable.value
            data += java_text(name) + bytes(2) + _pieces(spark_json(variable.key))
            data += number.to_bytes(2, "big") + _pieces(spark_json(kind))
            how = {"numColsPrefixKey": variable.prefix_fields} if variable.prefix_fields else {}
            ordered = {"orderingOrdinals": list(variable.ordered)} if variable.ordered else {}
            data += _pieces({**how, **ordered}) + _pieces({})
        return self._put(f"_stateSchema/default/{run}_file", data)

    # -- rows ---------------------------------------------------------------------------------

    def key(self, family: str, row: dict[str, Any]) -> Key:
        variable, number = FAMILIES[family], self.numbers[family]
        encoder = avro_row_encoder if self.in_avro else unsafe_row_encoder
        if variable.ordered:
            return number, encoder.ordered_key(variable.key, row, variable.ordered)
        return number, encoder.key(variable.key, row, variable.prefix_fields)

    def value(self, family: str, row: dict[str, Any], form: int | None = None) -> bytes:
        """In a form by its number, or in the newest."""
        variable = FAMILIES[family]
        if not self.in_avro:
            return b"\0" + unsafe_row_encoder.row(variable.value, row)
        forms = variable.forms or {}
        number = max(forms) if form is None else form
        return avro_row_encoder.value(forms[number], number, row)

    def list_of(self, *rows: dict[str, Any]) -> bytes:
        return joined(*(self.value("items", row) for row in rows))

    def chunk_key(self, row: dict[str, Any], number: int) -> Key:
        return self.numbers[CHUNKS], self.key("items", row)[1] + struct.pack(">I", number)

    def names(self, *families: str) -> dict[Key, bytes | None]:
        return {
            (0, name.encode()): self.numbers[name].to_bytes(2, "little")
            for name in families or self.numbers
        }

    def chunks(self, row: dict[str, Any], *parts: tuple[dict[str, Any], ...]) -> dict[Key, bytes]:
        """A list as its chunks and the head that counts them."""
        chunks = {
            self.chunk_key(row, number): struct.pack("<I", 0) + self.list_of(*part)
            for number, part in enumerate(parts)
        }
        return {**chunks, self.key("items", row): struct.pack("<II", 0, len(parts))}

    # -- batches ------------------------------------------------------------------------------

    def batch(self, changes: dict[Key, bytes | None], base: Commit | None = None) -> Commit:
        """One more batch, committed; from another state than the last one left, if so told."""
        number, self.batches = self.batches, self.batches + 1
        encoding = "avro" if self.in_avro else "unsaferow"
        about = {
            "batchWatermarkMs": 0,
            "batchTimestampMs": START_MS,
            "conf": {ENCODING_KEY: encoding},
        }
        publish(self.path / "offsets" / str(number), f"v1\n{json.dumps(about)}\n0")
        self.last = self._writer.commit(self.last if base is None else base, changes)
        publish(self.path / "commits" / str(number), 'v1\n{"nextBatchWatermarkMs":0}')
        return self.last

    def attempt(self, changes: dict[Key, bytes | None], base: Commit) -> None:
        """Another attempt at the version after ``base``, which the log has beside the first."""
        self._writer.commit(base, changes)

    def roll(self) -> None:
        """The next batch begins a new segment."""
        self._writer.roll()

    def close(self) -> Path:
        self._writer.close()
        return self.path


def _pieces(value: Any) -> bytes:
    return (1).to_bytes(4, "big") + java_text(json.dumps(value))


def every_kind(made: MadeVariables) -> dict[Key, bytes | None]:
    """A row of each kind: a value, a list in one record and one in chunks, a map, an index."""
    one, two = {"since": None, "n": 1}, {"since": 5, "n": 2**40}
    ann, bob = {"k": "ann"}, {"k": "bob"}
    return {
        **made.names(),
        made.key("count", ann): made.value("count", one),
        made.key("items", ann): made.list_of(one, two),
        **made.chunks(bob, (one,), (two, one)),
        made.key("parts", {"key": ann, "userKey": {"part": -3}}): made.value(
            "parts", {"amount": "-1.50", "tags": ["x"]}
        ),
        made.key(INDEX, {"expirationMs": -7, "elementKey": bob}): made.value(
            INDEX, {"__empty__": None}
        ),
    }
