"""Inputs that grow while they are read: new rows in the order that is in them.

An input that has no rows now is silent, and not ended: the others' rows wait for it. Whoever
cannot wait for ever says for how long (``idle_timeout_us``). Then the order depends on when rows
come, and is logged (:attr:`.Chance.ARRIVALS`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from cec_store.format.columns import Ints
from cec_store.operators.contract import Source, Step
from cec_store.operators.inputs.merge import merge
from cec_store.operators.inputs.reading import Reading
from cec_store.operators.inputs.sources import reads_of


def now_us() -> int:
    """The clock, in microseconds since 1970."""
    return time.time_ns() // 1_000


class LiveInputs:
    """Steps of all rows that are decided now, again and again."""

    def __init__(
        self,
        sources: Sequence[Source],
        rows_max: int,
        idle_timeout_us: int | None = None,
        clock_us: Callable[[], int] = now_us,
    ) -> None:
        """An input that was waited for ``idle_timeout_us`` is passed over until it has rows."""
        self._sources = sources
        self._rows_max = rows_max
        self._idle_timeout_us = idle_timeout_us
        self._clock_us = clock_us
        self._silent_since_us: dict[int, int] = {}
        """Microseconds since 1970 when each silent input first held up others; 0 without a
        timeout."""
        self.waits_for: tuple[int, ...] = ()
        """Inputs without rows for which the rows of others waited when last looked at."""

    def steps(self, start: Ints) -> Iterator[Step]:
        """The decided rows from ``start`` on, shape (inputs,)."""
        readings = reads_of(self._sources, start, None, self._rows_max)
        self.waits_for = self._awaited(readings)
        if self.waits_for:
            return
        live = [
            reading.is_live and number not in self._silent_since_us
            for number, reading in enumerate(readings)
        ]
        schemas = [source.schema for source in self._sources]
        for step in merge(readings, start, schemas, self._rows_max, live):
            yield step
            start = step.end
        if any(live):
            # One of them may have run dry before the others.
            self.waits_for = self._awaited(reads_of(self._sources, start, None, self._rows_max))

    def _awaited(self, readings: Sequence[Reading]) -> tuple[int, ...]:
        """The silent inputs that hold up others, and have not done so for too long."""
        silent = [
            number
            for number, reading in enumerate(readings)
            if reading.is_live and reading.is_exhausted
        ]
        now_us = self._clock_us() if silent and self._idle_timeout_us is not None else 0
        since_us = self._silent_since_us
        for number in set(since_us).difference(silent):
            del since_us[number]
        if not any(not reading.is_exhausted for reading in readings):
            return ()
        for number in silent:
            # A clock that was set back begins anew, or the wait would be as long as it went back.
            since_us[number] = min(since_us.get(number, now_us), now_us)
        limit_us = self._idle_timeout_us
        return tuple(
            number for number in silent if limit_us is None or now_us - since_us[number] < limit_us
        )
