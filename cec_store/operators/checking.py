"""Checks an operator's declared class by running it again, from the beginning and from later.

High-availability paper (Hwang and others, 2005), 3.2. Stands with the operators, as it is their
contract that is checked: it knows no log and no scheme.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cec_store.errors import WrongDeclaration
from cec_store.format.columns import Ints
from cec_store.operators.choosing import Choosing, Luck
from cec_store.operators.contract import InputBatch, Operator, Source
from cec_store.operators.inputs.reading import rows_of
from cec_store.operators.taxonomy import NetworkType, RecoveryType

_TYPE_OF = {
    RecoveryType.REPEATING: NetworkType.REPEATABLE,
    RecoveryType.CONVERGENT: NetworkType.CONVERGENT,
    RecoveryType.DIVERGENT: NetworkType.DETERMINISTIC,
}


@dataclass(frozen=True)
class Output:
    """Rows that were put out, each with the position that caused it.

    ``positions`` has shape (rows,): next unread offsets, summed over the inputs. The paper's high
    watermarks. ``rows`` are texts in which equal means equal to the last bit.
    """

    positions: Ints
    rows: list[str]

    def since(self, position: int) -> Output:
        """Return the output that the input from this position on has caused."""
        first = int(np.searchsorted(self.positions, position, side="right"))
        return Output(self.positions[first:], self.rows[first:])

    def items(self) -> list[tuple[int, str]]:
        return list(zip(self.positions.tolist(), self.rows, strict=True))


@dataclass(frozen=True)
class Observation:
    """The most general class that an operator's runs have shown, and where.

    Examples:
        >>> observe(averages, [source], restarts=2).position
        (0,)
    """

    type: NetworkType
    position: tuple[int, ...]
    """Start of the run that showed it; the beginning of the input where two such runs differ."""


def observe(
    make: Callable[[], Operator],
    sources: Sequence[Source],
    *,
    restarts: int = 8,
    step_rows_max: int = 64,
    luck: Callable[[], Luck] = Luck,
) -> Observation:
    """Run an operator twice, cut differently, and again from points in the first half of its input.

    ``make`` makes one with an empty state, ``luck`` the chances of a run. Several inputs are also
    given as live ones are, which lag behind each other. Nothing is shown by input that is too short
    to converge, or too tidy.

    Examples:
        >>> observe(averages, [source], restarts=2).type.value
        'repeatable'
    """
    start = np.zeros(len(sources), np.int64)
    whole, ends = run(make(), sources, start, step_rows_max, luck())
    others = [run(make(), sources, start, max(1, step_rows_max // 3), luck())[0]]
    if len(sources) > 1:
        others += [run_lagging(make(), sources, step_rows_max, luck(), seed) for seed in range(2)]
    if any(whole.items() != other.items() for other in others):
        return Observation(NetworkType.ARBITRARY, tuple(start.tolist()))
    observed = Observation(NetworkType.REPEATABLE, tuple(start.tolist()))
    order = list(NetworkType)
    half = ends[: max(1, len(ends) // 2)]
    for begin in half[:: max(1, len(half) // restarts)]:
        again, _ = run(make(), sources, begin, step_rows_max, luck())
        shown = _TYPE_OF[compare(whole.since(int(begin.sum())), again)]
        if order.index(shown) > order.index(observed.type):
            observed = Observation(shown, tuple(begin.tolist()))
    return observed


def check_declaration(
    make: Callable[[], Operator],
    sources: Sequence[Source],
    *,
    restarts: int = 8,
    step_rows_max: int = 64,
    luck: Callable[[], Luck] = Luck,
) -> Observation:
    """Return what :func:`observe` has seen, which must not be more general than what is declared.

    Raises:
        WrongDeclaration: it is.

    Examples:
        >>> check_declaration(averages, [source]).type.value
        'repeatable'
    """
    observed = observe(make, sources, restarts=restarts, step_rows_max=step_rows_max, luck=luck)
    operator, order = make(), list(NetworkType)
    if order.index(observed.type) > order.index(operator.operator_type):
        raise WrongDeclaration(
            f"{type(operator).__name__} is declared {operator.operator_type.value}, but begun with "
            f"an empty state at input position {list(observed.position)} it is "
            f"{observed.type.value}; declare that as its operator_type"
        )
    return observed


def run(
    operator: Operator, sources: Sequence[Source], start: Ints, step_rows_max: int, luck: Luck
) -> tuple[Output, list[Ints]]:
    """All that comes of the input from ``start`` on, shape (inputs,), and where each step ended."""
    whole = [_Growing(source) for source in sources]
    for source in whole:
        source.has_ended = True
    taking = _Taking(operator, whole, start, step_rows_max, luck)
    taking.take_all()
    return taking.output(), taking.ends


def run_lagging(
    operator: Operator, sources: Sequence[Source], step_rows_max: int, luck: Luck, seed: int
) -> Output:
    """All that comes of the input where now one, now another input lags behind."""
    rng = random.Random(seed)
    growing = [_Growing(source) for source in sources]
    start = np.zeros(len(sources), np.int64)
    taking = _Taking(operator, growing, start, step_rows_max, luck)
    while not all(source.has_ended for source in growing):
        for source in growing:
            source.grow(rng.choice([0, 0, 1, max(1, step_rows_max // 8), step_rows_max]))
        taking.take_all()
    return taking.output()


class _Growing:
    """A source of which there is more from time to time, and in the end all."""

    def __init__(self, source: Source) -> None:
        self.schema = source.schema
        self.has_ended = False
        self._source = source
        self._there = 0
        """Rows below this offset are there."""

    def grow(self, rows: int) -> None:
        """Let so many rows more be there, or those of the source's next batch if it is shorter."""
        if not rows or self.has_ended:
            return
        for read in self._source.read(self._there):
            if len(read.offsets):
                self._there = int(rows_of(read, 0, rows).offsets[-1]) + 1
                return
        self.has_ended = True

    def read(self, start: int, stop: int | None = None) -> Iterator[InputBatch]:
        """Read as :class:`.contract.Source` says."""
        if stop is None and not self.has_ended:
            stop = max(start, self._there)
        return self._source.read(start, stop)


class _Taking:
    """An operator, the input that it has taken, and what came of it."""

    def __init__(
        self,
        operator: Operator,
        sources: Sequence[Source],
        start: Ints,
        step_rows_max: int,
        luck: Luck,
    ) -> None:
        self.ends: list[Ints] = []
        """Position at which each step ended, shape (inputs,)."""
        self._operator = operator
        self._choosing = Choosing(operator, sources, step_rows_max, luck)
        self._position = start
        self._positions = [np.empty(0, np.int64)]
        self._rows: list[str] = []

    def take_all(self) -> None:
        """Take what is there and decided."""
        for step in self._choosing.steps(self._position):
            effects = self._operator.apply(step)
            before = 0 if step.begin is None else step.begin.sum()
            sums = np.append(step.positions.sum(axis=1), before)
            self._positions.append(sums[effects.causes])
            self._rows += [repr(row) for row in effects.rows.to_pylist()]
            self._position = step.end
            self.ends.append(step.end)

    def output(self) -> Output:
        return Output(np.concatenate(self._positions), self._rows)


def compare(expected: Output, again: Output) -> RecoveryType:
    """Return what a reader downstream sees that had the one and gets the other (3.1).

    Repeating: nothing comes that was not there, at its place; in the end all of it does.
    Convergent: other rows come first. Divergent: up to the end. Both begin at one position.
    """
    known, items = expected.items(), again.items()
    if known == items:
        return RecoveryType.REPEATING
    same = 0
    while same < min(len(known), len(items)) and known[-1 - same] == items[-1 - same]:
        same += 1
    if not same:
        return RecoveryType.DIVERGENT
    is_known = set(items) <= set(known)
    return RecoveryType.REPEATING if is_known else RecoveryType.CONVERGENT
