"""Which slots hold windows of which kind. A new kind of window is added here, and nowhere else."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa

from cec_store.operators.aggregate.accumulators import Accumulators
from cec_store.operators.aggregate.count_slots import CountSlots
from cec_store.operators.aggregate.slots import Slots
from cec_store.operators.aggregate.time_slots import TimeSlots
from cec_store.operators.aggregate.windows import CountWindow, TimeWindow

Window: TypeAlias = CountWindow | TimeWindow


def slots_for(window: Window, groups: list[pa.Field], accumulators: Accumulators) -> Slots:
    """Empty slots for such windows, whose groups have these columns."""
    if isinstance(window, TimeWindow):
        return TimeSlots(window, groups, accumulators)
    return CountSlots(window, groups, accumulators)
