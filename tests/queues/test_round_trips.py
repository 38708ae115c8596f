"""What `append` takes comes back equal, or nothing of it was written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cec_store import QueueOptions, SchemaMismatch, open_queue, read_queue
from cec_store.format.records import stored_table
from support.vectors.limit_tables import Tables

_TABLES = 8
"""Appended to each queue."""
KINDS = {
    "body": {"options": QueueOptions(compression="body", sync="none")},
    "columns": {"options": QueueOptions(compression="columns", sync="none")},
    "partitioned": {"partitions": 1},
}


def refusal_of(queue: Any, table: pa.Table) -> str:
    """What is said of a table that is refused; nothing where it is appended."""
    try:
        queue.append(table)
    except SchemaMismatch as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", KINDS)
def test_all_that_is_appended_comes_back_equal(
    name: str, tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    refused = appended = 0
    for seed in range(crash_count(6, 20_000 // (len(KINDS) * _TABLES) + 1)):
        tables, rng = Tables(seed), np.random.default_rng(seed)
        schema, path = tables.schema(), tmp_path / str(seed)
        kept = []
        with open_queue(path, "a", schema=schema, **KINDS[name]) as queue:
            for _ in range(_TABLES):
                rows = int(rng.choice([1, 20, 300, 3000], p=[0.3, 0.4, 0.25, 0.05]))
                table = tables.table(schema, rows, may_be_refused=True)
                table = table.slice(int(rng.integers(2)))
                refusal = refusal_of(queue, table)
                if not refusal:
                    kept.append(stored_table(table))
                assert not refusal or (tables.has_beyond and ", row " in refusal), (seed, refusal)
                refused += bool(refusal)
                appended += not refusal
        found = read_queue(path).read_all()
        due = pa.concat_tables(kept) if kept else found.slice(0, 0)
        assert found.equals(due), (seed, schema)
        for column in schema.names:
            alone = read_queue(path, columns=[column]).read_all()
            assert alone.column(column).equals(due.column(column)), (seed, column)
    assert appended > 3 * refused
    assert refused
