"""Steps of an operator that depends on chance: what is chosen, written down, and followed again.

High-availability paper (Hwang and others, 2005), 3.2 and 6. An operator never looks at the clock,
never draws and never waits by itself: order, clock and seed come with each step. So what it does
follows from its steps, and the steps can be taken again from the log's determinants.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from cec_store.checkpoints.determinants import Determinants, last_clock_us
from cec_store.errors import RecoveryError
from cec_store.format.columns import Ints
from cec_store.format.records import empty_batch
from cec_store.format.schema import DETERMINANT_TYPE
from cec_store.log.reader import LogReader
from cec_store.operators.contract import Choices, Operator, Source, Step
from cec_store.operators.inputs.arrivals import InputAgain, arrivals, runs_of
from cec_store.operators.inputs.live import LiveInputs, now_us
from cec_store.operators.inputs.merge import BATCH_ROWS_MAX
from cec_store.operators.inputs.sources import reads_of
from cec_store.operators.taxonomy import Chance


def _any_seed() -> int:
    return secrets.randbits(63)


@dataclass(frozen=True)
class Luck:
    """Source of chance: the clock, in microseconds since 1970, and seeds below 2**63.

    Examples:
        >>> luck = Luck(seed=lambda: 7)
        >>> observe(lambda: RandomFilter(0.5, bids.schema), [source], luck=lambda: luck).type.value
        'repeatable'
    """

    clock_us: Callable[[], int] = now_us
    seed: Callable[[], int] = _any_seed


class Choosing:
    """The steps that an operator takes next, with what chance decides about each."""

    def __init__(
        self, operator: Operator, sources: Sequence[Source], step_rows_max: int, luck: Luck
    ) -> None:
        self._chances = operator.chances
        self._sources = sources
        self._step_rows_max = step_rows_max
        self._luck = luck
        idle_timeout_us = operator.idle_timeout_us
        self._is_by_arrival = Chance.ARRIVALS in operator.chances and idle_timeout_us is None
        self._live = LiveInputs(sources, step_rows_max, idle_timeout_us, luck.clock_us)
        self._clock_us: int | None = None
        """Clock of the last step; it stands still while the system's clock is behind it."""

    @property
    def waits_for(self) -> tuple[int, ...]:
        """Silent inputs for which rows of the others were held back by the last steps."""
        return self._live.waits_for

    def steps(self, start: Ints) -> Iterator[Step]:
        """The input that is there and decided, from ``start`` on, shape (inputs,)."""
        read = self._by_arrival(start) if self._is_by_arrival else self._live.steps(start)
        if self._chances is Chance.NONE:
            yield from read
            return
        begin = start
        for step in read:
            yield replace(step, begin=begin, choices=self._choose())
            begin = step.end

    def _by_arrival(self, start: Ints) -> Iterator[Step]:
        schemas = [source.schema for source in self._sources]
        reads = reads_of(self._sources, start, None, self._step_rows_max)
        return arrivals(reads, start, schemas, self._step_rows_max)

    def tick(self, position: Ints) -> Step:
        """A step without rows at this position, shape (inputs,): time has passed."""
        none = [empty_batch(source.schema) for source in self._sources]
        return Step(
            tuple(none),
            np.empty(0, np.int8),
            np.empty((0, len(position)), np.int64),
            np.empty(0, np.int64),
            position,
            self._choose(),
        )

    def go_on(self, chain: LogReader) -> None:
        """Behind what was chosen before: the clock does not fall below its last reading there."""
        if Chance.CLOCK in self._chances:
            self._clock_us = last_clock_us(chain)

    def _choose(self) -> Choices:
        if Chance.CLOCK in self._chances:
            self._clock_us = max(self._luck.clock_us(), self._clock_us or 0)
        seed = self._luck.seed() if Chance.RANDOM in self._chances else None
        return Choices(self._clock_us, seed)


def determinant_of(step: Step, chances: Chance) -> pa.StructArray:
    """Return the log's record of a step: the order in runs of one input, not in rows."""
    runs = runs_of(step.source) if Chance.ARRIVALS in chances else None
    value = {
        "arrivals": runs,
        "clock_us": step.choices.clock_us if Chance.CLOCK in chances else None,
        "seed": step.choices.seed if Chance.RANDOM in chances else None,
    }
    return pa.array([value], DETERMINANT_TYPE)


def steps_again(
    operator: Operator, sources: Sequence[Source], determinants: Determinants
) -> Iterator[Step]:
    """The steps that these are of: the same rows in the same order, with the same choices.

    Raises:
        RecoveryError: an input has fewer rows than it had, or the log lacks what the operator
            depends on.
    """
    if not len(determinants):
        return
    begin, stop = determinants.begin, determinants.end
    schemas = [source.schema for source in sources]
    inputs = InputAgain(reads_of(sources, begin, stop, BATCH_ROWS_MAX), begin, schemas)
    values = determinants.choices.to_pylist()  # one a step
    for end, value in zip(determinants.positions, values, strict=True):
        runs = value["arrivals"] if value is not None else None
        is_told = value is not None and all(
            value[name] is not None
            for chance, name in _FIELDS.items()
            if chance in operator.chances
        )
        pairs = None if runs is None else list(zip(runs[::2], runs[1::2], strict=True))
        step = inputs.step(end, pairs) if is_told else None
        if step is None:
            why = "rows are missing" if is_told else "it does not say what was chosen"
            raise RecoveryError(
                f"the step from input position {begin.tolist()} to {end.tolist()} cannot be taken "
                f"again as the log has it: {why}; give the inputs back what they had"
            )
        yield replace(step, begin=begin, choices=Choices(value["clock_us"], value["seed"]))
        begin = end


_FIELDS = {Chance.ARRIVALS: "arrivals", Chance.CLOCK: "clock_us", Chance.RANDOM: "seed"}
