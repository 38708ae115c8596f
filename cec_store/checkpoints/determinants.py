"""Decisions of chance in the log, read back to the step at which a recovery begins.

High-availability paper (Hwang and others, 2005), 6: determinants. Each step of an operator that
depends on chance leaves one record, behind its output and before its footprints. So those behind
the oldest footprint are those of the steps after T, and they stand in the extent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cec_store.errors import RecoveryError
from cec_store.format.columns import Ints
from cec_store.format.records import inputs_of, kinds_of
from cec_store.format.schema import (
    DETERMINANT,
    DETERMINANT_TYPE,
    KIND,
    RecordKind,
    input_column,
)
from cec_store.log.reader import LogReader


@dataclass(frozen=True)
class Determinants:
    """Determinants of consecutive steps, in the order of the log."""

    begin: Ints
    """Input position at which the first of the steps begins, shape (inputs,)."""
    positions: Ints
    """The next unread offsets at each step's end, shape (steps, inputs)."""
    choices: pa.StructArray
    """One choice a step, of type :data:`cec_store.format.schema.DETERMINANT_TYPE`."""

    @property
    def end(self) -> Ints:
        """Input position at which the last of the steps ends, shape (inputs,)."""
        last: Ints = self.positions[-1] if len(self) else self.begin
        return last

    def __len__(self) -> int:
        return len(self.positions)


def determinants_behind(chain: LogReader, offset: int, begin: Ints) -> Determinants:
    """Return those of the steps behind the footprints at ``offset``, which are as of ``begin``."""
    frames: list[tuple[Ints, pa.Array]] = []
    for first_offset, rows, positions, choices in _newest_first(chain):
        behind = first_offset + rows >= offset
        frames.append((positions[behind], choices.filter(pa.array(behind))))
        if first_offset <= offset:
            break
    return _in_order(begin, frames)


def determinants_since(chain: LogReader, begin: Ints) -> Determinants:
    """Return those of all steps that take input from ``begin`` on, where one of them begins.

    Raises:
        RecoveryError: they are not in the log: trimmed, or no step begins there.
    """
    frames: list[tuple[Ints, pa.Array]] = []
    total = int(begin.sum())
    for _, _, positions, choices in _newest_first(chain):
        is_after = positions.sum(axis=1) > total
        frames.append((positions[is_after], choices.filter(pa.array(is_after))))
        if not is_after.all():
            if (positions[~is_after][-1] == begin).all():
                return _in_order(begin, frames)
            break
    else:
        if chain.first_offset() == 0 and not total:
            return _in_order(begin, frames)
    raise RecoveryError(
        f"{chain.path}: what chance has decided since the input position {begin.tolist()} is "
        f"not in the log, which begins at offset {chain.first_offset()}; go on from its checkpoint"
    )


def last_clock_us(chain: LogReader) -> int | None:
    """Return the clock of the newest step in microseconds; ``None`` where there is none."""
    for _, rows, _, choices in _newest_first(chain):
        if len(rows):
            return int(choices[-1].as_py()["clock_us"])
    return None


def _newest_first(chain: LogReader) -> Iterator[tuple[int, Ints, Ints, pa.Array]]:
    """Yield, for each frame, its first offset and its determinants' rows, positions and choices."""
    schema = chain.schema()
    names = [KIND, *(input_column(i) for i in range(schema.inputs)), DETERMINANT]
    frame = chain.last()
    while frame is not None:
        records = chain.records(frame, backward=True, columns=names)
        rows = np.flatnonzero(kinds_of(records) == RecordKind.DETERMINANT.value)
        choices = records.column(DETERMINANT).take(pa.array(rows))
        positions = inputs_of(records, schema.inputs)[rows]
        yield frame.header.first_offset, rows, positions, choices
        frame = chain.before(frame)


def _in_order(begin: Ints, newest_first: list[tuple[Ints, pa.Array]]) -> Determinants:
    positions = [np.empty((0, len(begin)), np.int64), *(part for part, _ in newest_first[::-1])]
    choices = [pa.array([], DETERMINANT_TYPE), *(part for _, part in newest_first[::-1])]
    return Determinants(begin, np.concatenate(positions), pa.concat_arrays(choices))
