"""Classes of operators by what they do when run again, and recoveries: the availability paper.

High-availability paper (Hwang and others, 2005), 3.1 and 3.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, Flag, auto


class NetworkType(str, Enum):
    """Class of an operator, or of a network of them, by what it does when it is run again (3.2).

    Each one is a special case of the next.

    Examples:
        >>> averages().operator_type
        <NetworkType.DETERMINISTIC: 'deterministic'>
    """

    REPEATABLE = "repeatable"
    """Each output comes of one tuple of each input: filter, map."""
    CONVERGENT = "convergent-capable"
    """The same output in the end, also from an empty state: aligned windows."""
    DETERMINISTIC = "deterministic"
    """The same from the same state; from an empty one its windows may never align again."""
    ARBITRARY = "arbitrary"
    """Time, order of arrival or chance decide: union, operators with a timeout."""


ALIGNING = (NetworkType.REPEATABLE, NetworkType.CONVERGENT)
"""Classes that come to the same output again from an empty state, so can begin in the middle."""


class RecoveryType(str, Enum):
    """Class of a recovery by what readers downstream see of a failure (3.1).

    Examples:
        >>> [each.value for each in RecoveryType]
        ['precise', 'repeating', 'convergent', 'divergent', 'gap']
    """

    PRECISE = "precise"
    REPEATING = "repeating"
    CONVERGENT = "convergent"
    DIVERGENT = "divergent"
    GAP = "gap"


class Chance(Flag):
    """The three causes of what is not deterministic (3.2). What they decide is in the log.

    Examples:
        >>> Chance.RANDOM in RandomFilter(0.5, bids.schema).chances
        True
    """

    NONE = 0
    ARRIVALS = auto()
    """Order in which rows of different inputs come."""
    CLOCK = auto()
    """Time at which a step is taken."""
    RANDOM = auto()
    """Numbers that are drawn."""


def chance_of_order(by_arrival: bool, idle_timeout_us: int | None) -> Chance:
    """ARRIVALS where the order of several inputs' rows is not in the rows alone.

    Raises:
        ValueError: both are asked for, or a timeout below a microsecond.

    Examples:
        >>> chance_of_order(by_arrival=False, idle_timeout_us=None)
        <Chance.NONE: 0>
    """
    if idle_timeout_us is None:
        return Chance.ARRIVALS if by_arrival else Chance.NONE
    if by_arrival:
        raise ValueError("by_arrival waits for no input: leave idle_timeout_us out")
    if idle_timeout_us < 1:
        raise ValueError(
            f"an idle timeout of {idle_timeout_us} microseconds waits for no input: take by_arrival"
        )
    return Chance.ARRIVALS


def type_of_network(types: Iterable[NetworkType]) -> NetworkType:
    """The most general of its operators'; a network of none passes tuples on: repeatable.

    Examples:
        >>> type_of_network([NetworkType.REPEATABLE, averages().operator_type]).value
        'deterministic'
    """
    order = list(NetworkType)
    return max(types, key=order.index, default=NetworkType.REPEATABLE)
