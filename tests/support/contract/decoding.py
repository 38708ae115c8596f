"""Counts what readers decode: records, and columns besides those of the log itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from cec_store.format import bodies
from cec_store.log import reader
from cec_store.partitioned.by_reference import segment_objects


@dataclass
class Decoded:
    """Frames that were decoded since the last :meth:`reset`."""

    rows: int = 0
    frames: int = 0
    columns: set[str] = field(default_factory=set)

    def reset(self) -> None:
        self.rows, self.frames = 0, 0
        self.columns.clear()


def count_decoding(patch: pytest.MonkeyPatch) -> Decoded:
    """Count from here on, in this process, what is decoded of queues of any layout."""
    decoded = Decoded()

    def decode(
        stored: Any,
        codec: int,
        raw_bytes: int,
        schema: Any,
        record_count: int,
        columns: Sequence[str] | None = None,
        keep_dictionaries: bool = False,
    ) -> Any:
        decoded.rows += record_count
        decoded.frames += 1
        names = schema.arrow.names if columns is None else columns
        decoded.columns.update(name for name in names if not name.startswith("_"))
        return bodies.decode_body(
            stored, codec, raw_bytes, schema, record_count, columns, keep_dictionaries
        )

    for module in (reader, segment_objects):
        patch.setattr(module, "decode_body", decode)
    return decoded
