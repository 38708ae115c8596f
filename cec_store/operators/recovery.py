"""Getting an operator's state back: load the eventual checkpoint, then take the input after it.

Input rows below the position that the log's end reflects may touch restored windows only. A window
that is open at the log's end has a footprint in the extent, so it has been restored. Every other
window that such a row belonged to has closed by then, and its result is in the log: opening it
again would write the result a second time. :meth:`Operator.catch_up` therefore opens no window,
and the keys that closed after T need not be looked up.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from cec_store.checkpoints.checkpointer import Checkpointer
from cec_store.checkpoints.rebuild import rebuild
from cec_store.log.reader import LogReader
from cec_store.operators.acknowledging import Acknowledging
from cec_store.operators.contract import Operator, Source
from cec_store.operators.inputs.sources import steps_of
from cec_store.values import Extent


@dataclass(frozen=True)
class Recovery:
    """What getting the state back took."""

    extent: Extent
    load_s: float
    """Reading the extent and restoring the windows."""
    replayed_rows: int
    """Input rows taken again before output went on."""
    replay_s: float
    replay_from: tuple[int, ...]
    replay_upto: tuple[int, ...]


def recover(
    operator: Operator,
    sources: Sequence[Source],
    chain: LogReader,
    checkpointer: Checkpointer,
    acknowledging: Acknowledging,
    step_rows_max: int,
) -> Recovery:
    """Bring a fresh operator to where the log's end stands."""
    began = time.perf_counter()
    found = rebuild(chain)
    slots = operator.restore(found.keys, found.states, found.positions)
    checkpointer.restored(slots, found.offsets, found.positions.sum(axis=1))
    loaded = time.perf_counter()
    checkpointer.rates.observe_load(found.extent.records, loaded - began)
    acknowledging.recovered(found)
    rows = 0
    starts = operator.preload_start()
    if starts is not None:
        for number, source in enumerate(sources):
            for batch in source.read(int(starts[number]), int(found.replay_from[number])):
                operator.preload(number, batch)
                rows += len(batch.offsets)
    for step in steps_of(sources, found.replay_from, found.replay_upto, step_rows_max):
        operator.catch_up(step)
        rows += step.rows
    return Recovery(
        extent=found.extent,
        load_s=loaded - began,
        replayed_rows=rows,
        replay_s=time.perf_counter() - loaded,
        replay_from=tuple(found.replay_from.tolist()),
        replay_upto=tuple(found.replay_upto.tolist()),
    )
