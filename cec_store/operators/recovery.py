"""Getting an operator's state back: load the eventual checkpoint, then take the input after it.

Input rows below the position that the log's end reflects may touch restored windows only. A window
that is open at the log's end has a footprint in the extent, so it has been restored. Every other
window that such a row belonged to has closed by then, and its result is in the log: opening it
again would write the result a second time. :meth:`Operator.catch_up` therefore opens no window,
and the keys that closed after T need not be looked up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from cec_store.checkpoints.checkpointer import Checkpointer
from cec_store.checkpoints.determinants import (
    Determinants,
    determinants_behind,
    determinants_since,
)
from cec_store.checkpoints.rebuild import rebuild
from cec_store.errors import RecoveryError
from cec_store.format.columns import Ints
from cec_store.log.reader import LogReader
from cec_store.operators.acknowledging import Acknowledging
from cec_store.operators.choosing import steps_again
from cec_store.operators.contract import Operator, Source
from cec_store.operators.inputs.sources import steps_of
from cec_store.operators.taxonomy import Chance
from cec_store.values import Extent


@dataclass(frozen=True)
class Recovery:
    """Work that a recovery of the state took.

    Examples:
        >>> with open_queue("averages", "a") as queue:
        ...     recovery = Runner(averages(), [source], queue).recovery
        >>> recovery.extent.records, recovery.replayed_rows
        (2, 0)
    """

    extent: Extent
    """Input that a state which was kept warm still had to read."""
    load_s: float
    """Reading the extent and restoring the windows."""
    replayed_rows: int
    """Input rows taken again before output went on."""
    replay_s: float
    replay_from: tuple[int, ...]
    replay_upto: tuple[int, ...]
    dropped_rows: int = 0
    """Output that was made again, and that the log had already."""
    appended_rows: int = 0
    """Output that had been made before, and that the log lacked."""

    @property
    def summary(self) -> str:
        """Return the recovery in one line, for logs and terminals."""
        return (
            f"recovered {self.extent.open_windows:,} open windows: {self.extent.records:,} records "
            f"loaded in {self.load_s:.3f} s, {self.replayed_rows:,} rows replayed in "
            f"{self.replay_s:.3f} s"
        )


class Restart(NamedTuple):
    """A runner of a log that is not empty, before its operator has come to the log's end."""

    operator: Operator
    sources: Sequence[Source]
    chain: LogReader
    checkpointer: Checkpointer
    acknowledging: Acknowledging
    step_rows_max: int


Recovering = Callable[[Restart], Recovery]
"""Brings the operator to the log's end, as :func:`recover` does; output goes on from
:attr:`Recovery.replay_upto`."""


@dataclass(frozen=True)
class Restored:
    """An operator's windows as of their footprints. Positions have the shape (inputs,)."""

    end_offset: int
    footprints: Ints
    """The footprints' positions, each once and in order, shape (…, inputs)."""
    replay_from: Ints
    """T: the oldest of them."""
    taken_upto: Ints
    """Input below it is in the windows already; T, unless somebody has replayed ahead."""
    replay_upto: Ints
    """Input below it is reflected in the log."""
    needed_from: Ints | None
    """Position from which on a recovery by these footprints would preload input."""
    preload_from: Ints | None
    """Position from which on input is still to be preloaded."""
    extent: Extent
    determinants: Determinants | None = None
    """Decisions for the steps from ``taken_upto`` on; ``None``: to be looked for in the log."""


class WarmState(Protocol):
    """An operator that was kept close to the log's end."""

    def complete(self, chain: LogReader, checkpointer: Checkpointer) -> Restored:
        """Read what it lacks, and hand its footprints over."""


def restore(operator: Operator, chain: LogReader, checkpointer: Checkpointer) -> Restored:
    """Load the eventual checkpoint of the log's end into a fresh operator."""
    began = time.perf_counter()
    checkpoint = rebuild(chain)
    slots = operator.restore(checkpoint.keys, checkpoint.states, checkpoint.positions)
    checkpointer.restored(slots, checkpoint.offsets, checkpoint.positions.sum(axis=1))
    checkpointer.rates.observe_load(checkpoint.extent.records, time.perf_counter() - began)
    starts = operator.preload_start()
    return Restored(
        end_offset=checkpoint.end_offset,
        footprints=each_once(checkpoint.positions),
        replay_from=checkpoint.replay_from,
        taken_upto=checkpoint.replay_from,
        replay_upto=checkpoint.replay_upto,
        needed_from=starts,
        preload_from=starts,
        extent=checkpoint.extent,
        determinants=(
            None
            if operator.chances is Chance.NONE
            else determinants_behind(chain, checkpoint.extent.first_offset, checkpoint.replay_from)
        ),
    )


def each_once(positions: Ints) -> Ints:
    """Positions that never fall, shape (…, inputs), without those that repeat the one before."""
    if not len(positions):
        return positions
    differs = (positions[1:] != positions[:-1]).any(axis=1)
    once: Ints = positions[np.append(True, differs)]
    return once


def preload(operator: Operator, sources: Sequence[Source], start: Ints, stop: Ints) -> int:
    """Let the operator take input that is its state again; how many rows there were."""
    rows = 0
    for number, source in enumerate(sources):
        for batch in source.read(int(start[number]), int(stop[number])):
            operator.preload(number, batch)
            rows += len(batch.offsets)
    return rows


def recover(restart: Restart, warm: WarmState | None = None) -> Recovery:
    """Bring a fresh operator, or one that was kept ``warm``, to where the log's end stands."""
    operator, sources, chain, checkpointer, acknowledging, step_rows_max = restart
    began = time.perf_counter()
    if warm is None:
        restored = restore(operator, chain, checkpointer)
    else:
        restored = warm.complete(chain, checkpointer)
    loaded = time.perf_counter()
    acknowledging.recovered(
        restored.end_offset, restored.replay_from, restored.footprints, restored.needed_from
    )
    rows = 0
    if restored.preload_from is not None:
        rows = preload(operator, sources, restored.preload_from, restored.taken_upto)
    steps = steps_of(sources, restored.taken_upto, restored.replay_upto, step_rows_max)
    if operator.chances is not Chance.NONE:
        determinants = restored.determinants
        if determinants is None:
            determinants = determinants_since(chain, restored.taken_upto)
        if (determinants.end != restored.replay_upto).any():
            raise RecoveryError(
                f"{chain.path}: the log reflects input up to {restored.replay_upto.tolist()}, and "
                f"what chance decided is told up to {determinants.end.tolist()} only"
            )
        steps = steps_again(operator, sources, determinants)
    for step in steps:
        operator.catch_up(step)
        rows += step.rows
    return Recovery(
        extent=restored.extent,
        load_s=loaded - began,
        replayed_rows=rows,
        replay_s=time.perf_counter() - loaded,
        replay_from=tuple(restored.taken_upto.tolist()),
        replay_upto=tuple(restored.replay_upto.tolist()),
    )
