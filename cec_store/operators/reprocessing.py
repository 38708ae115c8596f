"""Recovery without checkpoints: input is taken again, and output that the log has is dropped.

Upstream backup (high-availability paper, 5.2). The input's queues keep all from the position on
that the operator has acknowledged at level 1, which is before the first row of every window that
was open at the log's end. Windows that had begun before it are made of a part of their rows, and
have closed by then: they put out nothing but what is dropped.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from cec_store.checkpoints.determinants import determinants_since
from cec_store.errors import RecoveryError
from cec_store.format.columns import Ints
from cec_store.format.records import inputs_of
from cec_store.format.schema import input_column
from cec_store.log.frames import Frame
from cec_store.log.reader import LogReader
from cec_store.operators.choosing import steps_again
from cec_store.operators.contract import Source
from cec_store.operators.inputs.sources import steps_of
from cec_store.operators.recovery import Recovery, Restart
from cec_store.operators.taxonomy import Chance
from cec_store.values import Extent


def process_again(restart: Restart) -> Recovery:
    """Bring an empty operator to where the log's end stands.

    Where an input has no consumer all of it is taken again. In operators that are not
    convergent-capable (count windows, 3.2) windows begin at other rows then, unless it is all.

    Raises:
        RecoveryError: the log was written with checkpoints, or an input is shorter than it was.
    """
    operator, sources, chain, _, acknowledging, step_rows_max = restart
    began = time.perf_counter()
    start = acknowledging.start(0)
    last = chain.last()
    upto = start
    if last is not None:
        refuse_checkpoints(chain, last)
        upto = np.maximum(start, _reflected(chain, last, sources, start, step_rows_max))
    end, rows, dropped, before = chain.end.offset, 0, 0, start
    steps = steps_of(sources, start, upto, step_rows_max)
    if operator.chances is not Chance.NONE and last is not None:
        steps = steps_again(operator, sources, determinants_since(chain, start))
    for step in steps:
        effects = operator.apply(step)
        acknowledging.follow(effects, before, end)
        acknowledging.note(step, effects, end)
        rows, dropped = rows + step.rows, dropped + effects.rows.num_rows
        before = step.end
    if (before < upto).any():
        raise _too_short(chain, int(upto.sum()), before)
    return Recovery(
        extent=Extent(0, 0, 0, 0, 0, end, end),
        load_s=0.0,
        replayed_rows=rows,
        replay_s=time.perf_counter() - began,
        replay_from=tuple(start.tolist()),
        replay_upto=tuple(upto.tolist()),
        dropped_rows=dropped,
    )


def refuse_checkpoints(chain: LogReader, last: Frame) -> None:
    """Raises :class:`RecoveryError` where the log was written with checkpoints."""
    if last.header.is_counted:
        raise RecoveryError(
            f"{chain.path}: frame {last.header.seq} was written with checkpoints, and the input "
            "before them may be gone; go on with checkpoints"
        )


def _reflected(
    chain: LogReader, last: Frame, sources: Sequence[Source], start: Ints, step_rows_max: int
) -> Ints:
    """The input that the log's end reflects, shape (inputs,).

    Its last record says which row caused it; the frame, how many rows its step took behind that.
    What was acknowledged, up to ``start``, it reflects in any case, and it may have been trimmed.
    Only where there are several inputs are their rows read, to share out that number.
    """
    total = last.header.input_upto
    if len(sources) == 1:
        return np.array([total], np.int64)
    names = [input_column(number) for number in range(len(sources))]
    position: Ints = inputs_of(chain.records(last, columns=names), len(sources))[-1]
    position = np.maximum(position, start)
    if int(position.sum()) >= total:
        return position
    for step in steps_of(sources, position, None, step_rows_max):
        totals = step.positions.sum(axis=1)
        if totals[-1] >= total:
            positions: Ints = step.positions[np.searchsorted(totals, total)]
            return positions
    raise _too_short(chain, total, position)


def _too_short(chain: LogReader, total: int, position: Ints) -> RecoveryError:
    return RecoveryError(
        f"{chain.path}: the log reflects input up to {total}, summed over the inputs, and the "
        f"sources end before it, behind {position.tolist()}"
    )
