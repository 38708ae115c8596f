"""A partitioned queue with so many commits that nobody would wait for them to be made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from cec_store.format.by_reference.commit_body import SEGMENT_COLUMNS, segments_of
from cec_store.format.by_reference.commits import (
    Operation,
    ReferenceCommit,
    ReferenceObject,
    since_base,
)
from cec_store.format.schema import RecordSchema
from cec_store.ledger.queue_state import QueueState
from cec_store.partitioned.by_reference.segment_objects import SegmentMaker
from cec_store.storage.names import commit_object_name
from cec_store.storage.stores.store import Store

SCHEMA = RecordSchema(pa.schema([("n", pa.int64())]))
LOG_ID = bytes(range(16))
RECORDS = 3
"""Of each commit."""
STEP_US = 1_000_000
"""Between two commits."""


def segments(real: dict[str, object], numbers: np.typing.NDArray[np.int64]) -> pa.RecordBatch:
    """Return the segments of these commits, one each; all of them name the same object."""
    count = len(numbers)
    columns = {
        name: pa.array([real.get(name)] * count, SEGMENT_COLUMNS.field(name).type)
        for name in SEGMENT_COLUMNS.names
    }
    moments = numbers * STEP_US
    columns |= {
        "first_offset": pa.array((numbers - 1) * RECORDS), "least_us": pa.array(moments),
        "greatest_us": pa.array(moments), "removed": pa.array(np.zeros(count, np.bool_)),
    }  # fmt: skip
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=SEGMENT_COLUMNS)


def long_history(store: Store, commits: int) -> None:
    """Make what opening and searching a queue of so many commits reads; the rest is nothing."""
    now = [0]
    maker = SegmentMaker(SCHEMA, lambda: now[0])
    maker.append(pa.record_batch({"n": [1, 2, 3]}))
    real = maker.finish(store, "q", 0, 0)
    assert real is not None
    make = ReferenceCommit(Operation.MAKE, starts=(0,), ends=(0,), schema=SCHEMA)
    first = ReferenceObject(0, LOG_ID, make, segments_of([]), 1, salt=commits)
    store.create(commit_object_name(0), first.encode())
    whole = commits - commits % 4096
    state = QueueState.of([first])
    parts = [np.arange(1, whole + 1), *(np.array([n]) for n in range(whole + 1, commits + 1))]
    last_folder = commits - commits % 1000
    for numbers in parts:
        number = int(numbers[-1])
        commit = ReferenceCommit(
            Operation.APPEND, "q", number, starts=(0,), ends=(number * RECORDS,),
            queries={"q": number},
        )  # fmt: skip
        added = ReferenceObject(
            number, LOG_ID, commit, segments(real, numbers), number, salt=number,
            after=(number - 1, number - 1),
        )  # fmt: skip
        state = state.after(added)
        is_needed = since_base(number) == 0 or number % 64 == 0 or number >= commits - 4
        if is_needed:
            encoded = replace(added, since=state.since()).encode()
            store.create(commit_object_name(number), encoded)
        elif number >= last_folder:
            store.create(commit_object_name(number), [b"not read"])
