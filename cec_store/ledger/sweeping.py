"""Objects that no commit names, or names no more, are deleted after a grace period.

docs/format.md §11. The grace period is for readers that began before, and for tasks at work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow.compute as pc

from cec_store.format.frame import SEGMENT_HEADER_BYTES, BadHeader, decode_segment_header
from cec_store.ledger.ages import GRACE_US, store_now_us
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.storage.names import DATA_FOLDER, LOG_FOLDER, commit_object_name
from cec_store.storage.stores.store import Store


def sweep_gone(log: ReferenceLog, state: QueueState, after: int) -> int:
    """Delete what merges and trims behind commit ``after`` took away a grace period ago.

    Returns the last commit whose objects are all deleted. A state that was opened by a
    commit that says all does not know what was taken away before: that is left to :func:`rubbish`.
    """
    swept = after
    numbers = sorted({n for n in state.gone.column("removed_at").to_pylist() if n > after})
    older_than_us = store_now_us(log.store) - GRACE_US if numbers else 0
    for number in numbers:
        if log.made_us(number) > older_than_us:
            break
        rows = state.gone.filter(pc.equal(state.gone.column("removed_at"), number))
        files = rows.column("file")
        # A file may hold several segments, of which some still count. Commits go when they are old.
        is_needed = pc.is_in(files, value_set=state.live.column("file"))
        is_kept = pc.or_(is_needed, pc.starts_with(files, f"{LOG_FOLDER}/"))
        log.store.delete(files.filter(pc.invert(is_kept)).unique().to_pylist())
        swept = number
    return swept


def delete_commits(log: ReferenceLog, state: QueueState, done: int = 0) -> int:
    """Delete the commits before the last one that says all there is, but for commit 0.

    Those stay whose inline frames count, or counted after that one. All stay until it is older than
    the grace period. Returns its number; ``done``, what this returned before, as long as it is not.

    Raises:
        CorruptLog: that one is missing or damaged.
    """
    floor = state.floor
    if floor <= done or log.made_us(floor) > store_now_us(log.store) - GRACE_US:
        return done
    if log.commit(floor).since is not None:  # else it would not have fitted into a frame
        old = (commit_object_name(number) for number in log.numbers_below(floor) if number)
        kept = state.files()
        log.store.delete(name for name in old if name not in kept)
    return floor


def counted_at(log: ReferenceLog, state: QueueState, moment_us: int) -> set[str]:
    """Names of the objects that counted at this moment: readers that began then read them still.

    What was removed before is read by nobody. What was added since was made within the grace period
    before that. The commit is found by halving: some twenty requests.

    Raises:
        CorruptLog: a commit is missing or damaged.
    """
    low, high = 0, state.number
    while low < high:
        middle = (low + high + 1) // 2
        if log.made_us(middle, state.floor) <= moment_us:
            low = middle
        else:
            high = middle - 1
    counted = log.kept_at(low, state.floor)
    if counted is None:  # deleted by somebody else, a moment later than this one
        counted = log.at(state.floor)
    return set(counted.live.column("file").to_pylist())


def rubbish(store: Store, state: QueueState, older_than_us: int) -> Iterator[tuple[str, int]]:
    """Objects below ``data/`` that count for nobody and are older than this moment.

    Yields names, and when each was made by the store's clock. Lists every folder there. What has no
    sound header is not ours, and stays.
    """
    named = set(state.live.column("file").to_pylist())
    for name, _ in data_objects(store):
        if name not in named:
            made_us = _made_us(store, name)
            if made_us is not None and made_us <= older_than_us:
                yield name, made_us


def perhaps_named(log: ReferenceLog, state: QueueState, made_us: Mapping[str, int]) -> set[str]:
    """The objects, of these, that a commit behind the newest may have named, and was lost.

    Such a commit was made within the grace period of its objects. What a commit that is there has
    named, and taken away, no other will name. Reads commits back to the oldest object in doubt.

    Raises:
        CorruptLog: a commit is missing or damaged.
    """
    newest_us = log.made_us(state.number) if made_us else 0
    left = {name for name, when_us in made_us.items() if when_us + GRACE_US >= newest_us}
    oldest_us = min((made_us[name] for name in left), default=0)
    for number in range(state.number, 0, -1):
        if not left:
            break
        commit = log.kept(number, state.floor)
        if commit is None:
            break
        left.difference_update(commit.segments.column("file").to_pylist())
        if log.made_us(number) < oldest_us:
            break
    return left


def data_objects(store: Store) -> Iterator[tuple[str, int]]:
    """Yield name and bytes of each object in the folders of batches, whoever has left it."""
    for query in store.list(DATA_FOLDER):
        for batch in store.list(f"{DATA_FOLDER}/{query.name}") if query.is_folder else ():
            folder = f"{DATA_FOLDER}/{query.name}/{batch.name}"
            for entry in store.list(folder) if batch.is_folder else ():
                if entry.size is not None:
                    yield f"{folder}/{entry.name}", entry.size


def _made_us(store: Store, name: str) -> int | None:
    """Return when a segment was made, in microseconds since 1970 by the store's clock.

    ``None`` where the object is no segment, or is gone.
    """
    try:
        decode_segment_header(store.read(name, 0, SEGMENT_HEADER_BYTES))
        return store.modified_us(name)
    except (BadHeader, FileNotFoundError):
        return None
