"""Stateful processors in Python: what they say shows all that is in their state."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

TIMER_MS = 10_000
"""Timers of event time fire so long after the newest row that has set them."""
LONG_MS = 3_600_000


def _said(key: Any, what: str, n: int | None, text: str) -> Row:
    return Row(key=key[0], what=what, n=n, text=text)


class Everything(StatefulProcessor):
    """A value, a list, a map and timers, of which one sets itself again and one removes another."""

    def __init__(self, *, is_event_time: bool, ttl_ms: int | None = None) -> None:
        self._is_event_time = is_event_time
        self._ttl_ms = ttl_ms

    def init(self, handle: Any) -> None:
        self._handle = handle
        ttl = self._ttl_ms
        self._count = handle.getValueState("count", "n LONG", ttl)
        self._numbers = handle.getListState("numbers", "n LONG, text STRING", ttl)
        self._parts = handle.getMapState("parts", "part INT", "rows LONG", ttl)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        before = self._count.get()[0] if self._count.exists() else 0
        count, newest = before, 0
        for row in rows:
            count += 1
            newest = max(newest, int(row.ts.timestamp() * 1000))
            self._numbers.appendValue((row.n, row.text))
            seen = self._parts.getValue((row.part,)) if self._parts.exists() else None
            self._parts.updateValue((row.part,), ((seen[0] if seen else 0) + 1,))
        self._count.update((count,))
        self._numbers.appendList([(count, "appended"), (before, "before")])
        if count % 5 == 0:
            self._parts.removeKey((1,))
        now = newest if self._is_event_time else timerValues.getCurrentProcessingTimeInMs()
        for timer in self._handle.listTimers():
            self._handle.deleteTimer(timer)
        self._handle.registerTimer(now + (TIMER_MS if self._is_event_time else 1))
        self._handle.registerTimer(now + (2 * TIMER_MS if self._is_event_time else LONG_MS))
        yield from self._state(key)

    def _state(self, key: Any) -> Iterator[Row]:
        parts = sorted((part[0], rows[0]) for part, rows in self._parts.iterator())
        timers = list(self._handle.listTimers())
        yield _said(key, "rows", self._count.get()[0], f"{len(timers)} timers, {parts}")
        for number, text in self._numbers.get():
            yield _said(key, "list", number, text)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        timers = list(self._handle.listTimers())
        yield _said(key, "timer", len(timers), "")
        if not self._count.exists():
            return
        count = self._count.get()[0]
        self._count.update((count + 1000,))
        if count < 3000:
            # Has expired already: it is for the next batch, and not for this one.
            self._handle.registerTimer(expiredTimerInfo.getExpiryTimeInMs() - 1)
        elif count < 5000:
            self._numbers.put([(count, "put")])
        else:
            self._count.clear()
            self._numbers.clear()
            self._parts.clear()

    def close(self) -> None:
        pass


class EverythingInPandas(Everything):
    """The same on pandas, with a state to begin with."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        each = (row for frame in rows for row in frame.itertuples())
        yield _frame(super().handleInputRows(key, each, timerValues))

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Any]:
        yield _frame(super().handleExpiredTimer(key, timerValues, expiredTimerInfo))

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self._count.update((int(initialState["n"].iloc[0]),))


# The fields of each form, with how each is made of a row.
FIELDS: dict[str, dict[str, str]] = {
    "first": {"n": "INT", "text": "STRING", "gone": "DOUBLE"},
    "added": {"n": "INT", "text": "STRING", "gone": "DOUBLE", "since": "LONG"},
    "removed": {"n": "INT", "text": "STRING", "since": "LONG"},
    "widened": {"n": "LONG", "text": "STRING", "since": "DOUBLE"},
    "reordered": {"since": "DOUBLE", "text": "STRING", "n": "LONG"},
    "refused": {"since": "DOUBLE", "text": "STRING", "n": "STRING"},
}


class Fields(StatefulProcessor):
    """A value, a list and a map whose fields are those of a form; it says all of them."""

    def __init__(self, form: str) -> None:
        self._form = form

    def init(self, handle: Any) -> None:
        schema = ", ".join(f"{name} {kind}" for name, kind in FIELDS[self._form].items())
        self._last = handle.getValueState("last", schema)
        self._all = handle.getListState("all", schema)
        self._parts = handle.getMapState("parts", "part INT", schema)

    def _of(self, row: Any) -> tuple[Any, ...]:
        n = int(row.n) + (2**40 if FIELDS[self._form]["n"] == "LONG" else 0)
        made = {
            "n": n, "text": str(row.text), "gone": n / 4,
            "since": float(n) if FIELDS[self._form].get("since") == "DOUBLE" else n,
        }  # fmt: skip
        return tuple(made[name] for name in FIELDS[self._form])

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self._last.update(self._of(initialState))
        self._all.appendValue(self._of(initialState))

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        yield from self._state(key, "before")
        for row in rows:
            self._last.update(self._of(row))
            self._all.appendValue(self._of(row))
            self._parts.updateValue((int(row.part),), self._of(row))
        yield from self._state(key, self._form)

    def _state(self, key: Any, what: str) -> Iterator[Row]:
        names = list(FIELDS[self._form])
        found = [("last", self._last.get())] if self._last.exists() else []
        found += [("list", one) for one in self._all.get()]
        found += [(f"part {part[0]}", one) for part, one in self._parts.iterator()]
        for name, one in found:
            yield _said(key, what, 0, f"{name}: {dict(zip(names, one, strict=True))}")


class FieldsInPandas(Fields):
    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        super().handleInitialState(key, next(initialState.itertuples()), timerValues)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        each = (row for frame in rows for row in frame.itertuples())
        yield _frame(super().handleInputRows(key, each, timerValues))


def _frame(rows: Iterator[Row]) -> Any:
    import pandas as pd

    found = pd.DataFrame([tuple(row) for row in rows], columns=["key", "what", "n", "text"])
    # Spark cannot take strings in the way in which pandas 3 keeps them.
    return found.astype({"key": object, "what": object, "text": object})
