"""Ages of objects by one clock, the store's own: clocks of the machines that write may differ.

docs/format.md §11.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection

from cec_store.errors import StorageError
from cec_store.storage.names import probe_name
from cec_store.storage.stores.store import Store

GRACE_US = 86_400_000_000
"""Microseconds for which an object stays that no commit names, or names no more."""
DOUBT_US = 3_600_000_000
"""Time after which a process asks the store what has come meanwhile, by any clock of its own."""


def store_now_us(store: Store) -> int:
    """Return the store's time, in microseconds since 1970: that of an object made for it."""
    name = probe_name(secrets.token_hex(16))
    store.create(name, [name.encode()])
    try:
        return store.modified_us(name)
    finally:
        store.delete([name])


class Stopwatch:
    """The time since it was made, by the clock that is given and by one that is never set."""

    def __init__(self, clock_us: Callable[[], int]) -> None:
        self._clock_us = clock_us
        self._began = clock_us(), uptime_us()

    def elapsed_us(self) -> int:
        """Return the longer of the two times; a clock that was set back has run as well."""
        by_clock, by_uptime = self._began
        return max(abs(self._clock_us() - by_clock), uptime_us() - by_uptime)


def uptime_us() -> int:
    """Return the microseconds since the machine was started, those included that it slept."""
    # CLOCK_MONOTONIC stands still while a machine is suspended.
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1000


def require_young(store: Store, names: Collection[str], elapsed_us: int) -> None:
    """See that no clean-up has taken these objects for rubbish, before a commit names them.

    ``elapsed_us`` is how long they may have been there by the clocks of those who wrote them. The
    store is asked only where that is long.

    Raises:
        StorageError: they are about as old as the grace period, or deleted already.
    """
    if elapsed_us <= DOUBT_US or not names:
        return
    advice = "what is not committed within a day may be deleted: write it"
    try:
        oldest_us = min(store.modified_us(name) for name in names)
    except FileNotFoundError as error:
        raise StorageError(f"{error}; rows not committed, and {advice} again") from error
    age_us = store_now_us(store) - oldest_us
    if age_us > GRACE_US - DOUBT_US:
        hours = age_us / 3_600_000_000
        what = f"the rows of this batch were written {hours:.0f} hours ago by the store's clock"
        raise StorageError(f"{store.url}: {what}, and {advice} again")
