"""Amnesia: an empty operator starts at the live end of its inputs. High-availability paper, 4.

A record of the kind GAP in the log says what is lost: the windows that were open, and the input
between the position of the log and the one at which its output continues.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from cec_store.checkpoints.rebuild import input_taken
from cec_store.format.columns import Ints
from cec_store.format.records import inputs_of
from cec_store.format.schema import (
    KIND,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    RecordKind,
    RecordSchema,
    input_column,
)
from cec_store.log.frames import Frame, FrameMarks
from cec_store.log.reader import LogReader
from cec_store.operators.contract import Source
from cec_store.operators.recovery import Recovery, Restart
from cec_store.queues.appendable_queue import AppendableQueue
from cec_store.values import Extent


def skip(queue: AppendableQueue, restart: Restart) -> Recovery:
    """Let the operator begin anew where its inputs end now: a :class:`.recovery.Recovering`."""
    sources, chain, acknowledging = restart.sources, restart.chain, restart.acknowledging
    began_s = time.perf_counter()
    last = chain.last()
    stood = _stood_at(chain, last, len(sources))
    ends = np.maximum(stood, [_end_of(source) for source in sources])
    gap = gap_record(queue.schema, ends, 0 if last is None else last.header.max_timestamp_us)
    queue.append_records(gap, FrameMarks(input_upto=int(ends.sum())))
    queue.sync()
    end = queue.end_offset
    acknowledging.recovered(end, ends, np.empty((0, len(sources)), np.int64), None)
    return Recovery(
        extent=Extent(0, 0, 0, 0, 0, end, end),
        load_s=time.perf_counter() - began_s,
        replayed_rows=0,
        replay_s=0.0,
        replay_from=tuple(stood.tolist()),
        replay_upto=tuple(ends.tolist()),
    )


def gap_record(schema: RecordSchema, upto: Ints, timestamp_us: int) -> pa.RecordBatch:
    """Return one record: all state is lost, and output continues with the input at ``upto``."""
    values = {KIND: RecordKind.GAP, TIMESTAMP: timestamp_us}
    values |= {input_column(number): int(end) for number, end in enumerate(upto)}
    arrays = []
    for field in schema.arrow:
        if field.name not in values:
            arrays.append(pa.nulls(1, field.type))
        elif field.name == TIMESTAMP:
            arrays.append(pa.array([timestamp_us], pa.int64()).cast(TIMESTAMP_TYPE))
        else:
            arrays.append(pa.array([int(values[field.name])], field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)


def _stood_at(chain: LogReader, last: Frame | None, inputs: int) -> Ints:
    """The input that the log's end reflects, shape (inputs,)."""
    if last is None:
        return np.zeros(inputs, np.int64)
    names = [input_column(number) for number in range(inputs)]
    return input_taken(last.header, inputs_of(chain.records(last, columns=names), inputs))


def _end_of(source: Source) -> int:
    end = getattr(source, "end")  # noqa: B009 - not every source has one; refused without
    return int(end())
