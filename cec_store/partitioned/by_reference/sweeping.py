"""Objects that no commit names, or names no more, are deleted after a grace period.

docs/format.md §12. The grace period is for readers that began before, and for tasks at work.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from cec_store.format.frame import SEGMENT_HEADER_BYTES, BadHeader, decode_segment_header
from cec_store.partitioned.by_reference.queue_state import QueueState
from cec_store.partitioned.by_reference.reference_log import ReferenceLog
from cec_store.storage.names import DATA_FOLDER
from cec_store.storage.stores.store import Store


def sweep_gone(
    store: Store, log: ReferenceLog, state: QueueState, older_than_us: int, after: int
) -> int:
    """Delete what merges and trims behind commit ``after`` took away before this moment.

    Returns the last commit whose objects are all deleted. A state that was opened by a whole
    summary does not know what was taken away before: that is left to :func:`rubbish`.
    """
    swept = after
    numbers = sorted({n for n in state.gone.column("removed_at").to_pylist() if n > after})
    for number in numbers:
        if log.created_us(number) > older_than_us:
            break
        rows = state.gone.filter(pc.equal(state.gone.column("removed_at"), number))
        # A file of version 1 may hold records that count beside some that do not.
        is_needed = pc.is_in(rows.column("file"), value_set=state.live.column("file"))
        store.delete(rows.column("file").filter(pc.invert(is_needed)).unique().to_pylist())
        swept = number
    return swept


def counted_at(log: ReferenceLog, state: QueueState, moment_us: int) -> set[str]:
    """Names of the objects that counted at this moment: readers that began then read them still.

    What was removed before is read by nobody, and what was added since is younger. The commit is
    found by halving: some twenty requests.

    Raises:
        CorruptLog: a commit is missing or damaged.
    """
    low, high = 0, state.number
    while low < high:
        middle = (low + high + 1) // 2
        if log.created_us(middle) <= moment_us:
            low = middle
        else:
            high = middle - 1
    return set(log.at(low).live.column("file").to_pylist())


def rubbish(store: Store, state: QueueState, older_than_us: int) -> Iterator[str]:
    """Names of objects below ``data/`` that count for nobody and are older than this moment.

    Lists every folder there. An object is as old as its header says; what has no sound header is
    not ours, and stays.
    """
    named = set(state.live.column("file").to_pylist())
    for folder in _folders(store, DATA_FOLDER):
        for entry in store.list(folder):
            name = f"{folder}/{entry.name}"
            if not entry.is_folder and name not in named and _age(store, name) <= older_than_us:
                yield name


def _folders(store: Store, above: str) -> Iterator[str]:
    """Of batches: two levels below."""
    for query in store.list(above):
        if query.is_folder:
            for batch in store.list(f"{above}/{query.name}"):
                if batch.is_folder:
                    yield f"{above}/{query.name}/{batch.name}"


def _age(store: Store, name: str) -> float:
    """When an object was made; never, where it does not say so."""
    try:
        return decode_segment_header(store.read(name, 0, SEGMENT_HEADER_BYTES)).created_us
    except (BadHeader, FileNotFoundError):
        return float("inf")
