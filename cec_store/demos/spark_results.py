"""Results of the Spark demo: its output, and its state in the checkpoint. No Spark runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cec_store.demos.spark_feed import AIRCRAFT, CHECKPOINT, FLEETS, OUTPUT, QUERIES
from cec_store.state_logs.state_log import StateLog
from cec_store.storage.local import LocalFolder


@dataclass(frozen=True)
class StateRead:
    """An operator's state, read by Python from the checkpoint."""

    query: str
    operator: str
    stores: int
    keys: int
    extent_records: int
    extent_bytes: int
    earlier_version: int
    earlier_keys: int
    recomputed_keys: int
    """Keys that a recompute over the files of that version has."""


def read_inputs(folder: Path, query: str, pieces: Sequence[pa.Table]) -> list[pa.Table]:
    """Return the input of each batch of a query, by Spark's own log of offsets.

    A batch has one file, unless a kill fell between the source's log and that of the offsets: the
    next driver then gives two files to one batch.
    """
    ends = [0]
    logs = (folder / CHECKPOINT / query / "offsets").glob("[0-9]*")
    for path in sorted(logs, key=lambda path: int(path.name)):
        offset = json.loads(path.read_text(encoding="utf-8").splitlines()[-1])
        ends.append(offset["logOffset"] + 1)
    nothing = pieces[0].slice(0, 0)
    return [pa.concat_tables([nothing, *pieces[a:b]]) for a, b in pairwise(ends)]


def read_aircraft(folder: Path) -> pa.Table:
    """The rows of each batch, by name."""
    tables = [
        table.add_column(0, "batch", pa.array([batch] * table.num_rows, pa.int64()))
        for batch, table in _batches(folder / OUTPUT / AIRCRAFT)
    ]
    return pa.concat_tables(tables).combine_chunks()


def read_fleets(folder: Path) -> pa.Table:
    """All rows by day and carrier: the batch of a day depends on the watermark."""
    tables = [table for _, table in _batches(folder / OUTPUT / FLEETS)]
    order = [("day", "ascending"), ("carrier", "ascending")]
    return pa.concat_tables(tables).sort_by(order).combine_chunks()


def _batches(folder: Path) -> Iterator[tuple[int, pa.Table]]:
    for path in sorted(folder.glob("*.parquet")):
        table = pq.read_table(path)
        plain = pa.schema([pa.field(field.name, field.type) for field in table.schema])
        yield int(path.stem), table.cast(plain).sort_by(table.schema.names[0])


def read_states(
    folder: Path, version: int, recomputed: dict[tuple[str, str], int]
) -> Iterator[StateRead]:
    """Each operator's, now and at a version; with how many keys it must have had there."""
    for query in QUERIES:
        for path in sorted((folder / CHECKPOINT / query / "state").iterdir()):
            logs = [StateLog(LocalFolder(store)) for store in sorted(path.glob("[0-9]*"))]
            extents = [log.extent() for log in logs]
            operator = _operator_name(path)
            yield StateRead(
                query=query,
                operator=operator,
                stores=len(logs),
                keys=sum(extent.open_windows for extent in extents),
                extent_records=sum(extent.records for extent in extents),
                extent_bytes=sum(extent.bytes for extent in extents),
                earlier_version=version,
                earlier_keys=sum(log.rebuild(at=version).open_windows for log in logs),
                recomputed_keys=recomputed[query, operator],
            )


def _operator_name(path: Path) -> str:
    """Return Spark's name of the operator, from the second line of its metadata, which is JSON."""
    text = (path / "_metadata" / "metadata").read_text(encoding="utf-8")
    return str(json.loads(text.split("\n", 1)[1])["operatorInfo"]["operatorName"])
