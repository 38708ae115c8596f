"""Whether an operator is of the class that it says: run again, from the beginning and from later.

High-availability paper (Hwang and others, 2005), 3.2. Stands with the operators, as it is their
contract that is checked: it knows no log and no scheme.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cec_store.errors import WrongDeclaration
from cec_store.format.columns import Ints
from cec_store.operators.choosing import Choosing, Luck
from cec_store.operators.contract import Operator, Source
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
        """What came of the input from this position on."""
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
    """Where the run began that showed it; the beginning of the input where two such runs differ."""


def observe(
    make: Callable[[], Operator],
    sources: Sequence[Source],
    *,
    restarts: int = 8,
    step_rows_max: int = 64,
    luck: Callable[[], Luck] = Luck,
) -> Observation:
    """Run an operator twice, cut differently, and again from points in the first half of its input.

    ``make`` makes one with an empty state, ``luck`` the chances of a run. Nothing is shown by input
    that is too short to converge, or too tidy.

    Examples:
        >>> observe(averages, [source], restarts=2).type.value
        'repeatable'
    """
    start = np.zeros(len(sources), np.int64)
    whole, ends = run(make(), sources, start, step_rows_max, luck())
    other, _ = run(make(), sources, start, max(1, step_rows_max // 3), luck())
    if whole.items() != other.items():
        return Observation(NetworkType.ARBITRARY, tuple(start.tolist()))
    found = Observation(NetworkType.REPEATABLE, tuple(start.tolist()))
    order = list(NetworkType)
    half = ends[: max(1, len(ends) // 2)]
    for begin in half[:: max(1, len(half) // restarts)]:
        again, _ = run(make(), sources, begin, step_rows_max, luck())
        shown = _TYPE_OF[compare(whole.since(int(begin.sum())), again)]
        if order.index(shown) > order.index(found.type):
            found = Observation(shown, tuple(begin.tolist()))
    return found


def check_declaration(
    make: Callable[[], Operator],
    sources: Sequence[Source],
    *,
    restarts: int = 8,
    step_rows_max: int = 64,
    luck: Callable[[], Luck] = Luck,
) -> Observation:
    """What :func:`observe` has seen, which must not be more general than what is declared.

    Raises:
        WrongDeclaration: it is.

    Examples:
        >>> check_declaration(averages, [source]).type.value
        'repeatable'
    """
    found = observe(make, sources, restarts=restarts, step_rows_max=step_rows_max, luck=luck)
    operator, order = make(), list(NetworkType)
    if order.index(found.type) > order.index(operator.operator_type):
        raise WrongDeclaration(
            f"{type(operator).__name__} is declared {operator.operator_type.value}, but begun with "
            f"an empty state at input position {list(found.position)} it is {found.type.value}; "
            "declare that as its operator_type"
        )
    return found


def run(
    operator: Operator, sources: Sequence[Source], start: Ints, step_rows_max: int, luck: Luck
) -> tuple[Output, list[Ints]]:
    """All that comes of the input from ``start`` on, shape (inputs,), and where each step ended."""
    positions, rows, ends = [np.empty(0, np.int64)], [], []
    for step in Choosing(operator, sources, step_rows_max, luck).steps(start):
        effects = operator.apply(step)
        sums = np.append(step.positions.sum(axis=1), 0 if step.begin is None else step.begin.sum())
        positions.append(sums[effects.causes])
        rows += [repr(row) for row in effects.rows.to_pylist()]
        ends.append(step.end)
    return Output(np.concatenate(positions), rows), ends


def compare(expected: Output, again: Output) -> RecoveryType:
    """What somebody downstream sees who has had the one and gets the other (3.1).

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
