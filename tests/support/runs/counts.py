"""How much a crash suite does: `CEC_CRASH` is `full`, `quarter`, or `quick` where it is not set.

At a quarter, counts are a quarter of the full ones and lists of cases a fixed quarter of the full
lists, but never less than quick ones. What is done at full size alone is left out.
"""

import os
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

SIZES = ("quick", "quarter", "full")
SIZE = os.environ.get("CEC_CRASH", "quick")
if SIZE not in SIZES:
    raise ValueError(f"CEC_CRASH={SIZE!r}: it is one of {', '.join(SIZES)}")
CRASH_FULL = SIZE == "full"
CRASH_QUICK = SIZE == "quick"


def crash_count(quick: int, full: int, size: str = SIZE) -> int:
    """Return how many crashes to take, or the stride over them if `full` is the smaller."""
    if size == "quick":
        return quick
    if size == "full":
        return full
    return max(quick, -(-full // 4)) if full >= quick else min(quick, full * 4)


def crash_cases(quick: Sequence[T], full: Sequence[T], size: str = SIZE) -> Sequence[T]:
    """Return the cases to try, in the order of the list that they are from."""
    if size == "quick":
        return quick
    count = -(-len(full) // 4)
    if size == "full":
        return full
    if count <= len(quick):
        return quick
    # Chosen at random, because every fourth of a product is always the same value of a parameter.
    return [full[place] for place in sorted(random.Random(0).sample(range(len(full)), count))]
