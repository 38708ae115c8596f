"""Objects that no commit names, or names no more, are deleted after a grace period.

docs/format.md §11. The grace period is for readers that began before, and for tasks at work.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from cec_store.errors import CorruptLog
from cec_store.format.frame import SEGMENT_HEADER_BYTES, BadHeader, decode_segment_header
from cec_store.ledger.ages import GRACE_US, store_now_us
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.storage.names import DATA_FOLDER, LOG_FOLDER, commit_object_name
from cec_store.storage.stores.store import Store

DELETED_COMMITS_MAX = 256
"""Old commits that a writer deletes at a time, beside its work: four times as many as it makes."""
_WALKED_COMMITS_MAX = 256
_log = logging.getLogger(__name__)


def sweep_earlier(log: ReferenceLog, state: QueueState, every: int) -> None:
    """Delete what was taken away a grace period ago by commits behind which ``state`` was opened.

    It does not know of all of that. Looks at the commits that were younger at the look before, as
    somebody looks every so many commits, and at no more than ``_WALKED_COMMITS_MAX``. What is left
    goes with the commits (:func:`delete_commits`).
    """
    last_look = max(state.floor, state.number - state.number % every - every)
    since_us = log.made_us(last_look) - GRACE_US if last_look > 0 else 0
    old_us = store_now_us(log.store) - GRACE_US
    young: list[int] = []
    old: list[int] = []
    for number in range(state.number, max(state.floor, state.number - _WALKED_COMMITS_MAX), -1):
        made_us = log.made_us(number)
        if made_us < since_us:
            break
        (old if made_us <= old_us else young).append(number)
    if old:
        needed = state.files() | _removed_by(log, young, state.floor)
        log.store.delete(_objects(_removed_by(log, old, state.floor) - needed))


def sweep_gone(log: ReferenceLog, state: QueueState, after: int) -> int:
    """Delete what merges and trims behind commit ``after`` took away a grace period ago.

    Returns the last commit whose objects are all deleted. What was taken away before a state was
    opened, it does not know: see :func:`sweep_earlier`.
    """
    swept = after
    removed_at = state.gone.column("removed_at").to_pylist()
    # A file may hold several segments, of which some still count: it goes with the last of them.
    last = dict(zip(state.gone["file"].to_pylist(), removed_at, strict=True))
    going: dict[int, set[str]] = {number: set() for number in removed_at if number > after}
    for name in last.keys() - _files(state.live):
        going.get(last[name], set()).add(name)
    older_than_us = store_now_us(log.store) - GRACE_US if going else 0
    for number in sorted(going):
        if log.made_us(number) > older_than_us:
            break
        log.store.delete(_objects(going[number]))
        swept = number
    return swept


def delete_commits(
    log: ReferenceLog, state: QueueState, done: int = 0, most: int | None = None
) -> int:
    """Delete the commits before the last one that says all there is, but for commit 0.

    Before them goes what they took away, which no state behind knows. Those stay whose inline
    frames count, or counted after that one. All stay until it is older than the grace period.

    Args:
        done: What this returned before.
        most: Commits to be deleted now, as each is read for it; all by default.

    Returns that one's number once all before it are deleted; else ``done``.

    Raises:
        CorruptLog: that one is missing or damaged.
    """
    floor = state.floor
    if floor <= done or log.made_us(floor) > store_now_us(log.store) - GRACE_US:
        return done
    if log.commit(floor).since is None:  # it would not have fitted into a frame
        return floor
    kept = state.files()
    old = [n for n in log.numbers_below(floor) if n and commit_object_name(n) not in kept]
    if old:
        # What counted at the floor may be read by who began within the grace period.
        needed = kept | _files(log.at(floor).live)
        log.store.delete(_objects(_removed_by(log, old[:most], floor) - needed))
        log.store.delete(map(commit_object_name, old[:most]))
    return floor if most is None or len(old) <= most else done


def _removed_by(log: ReferenceLog, numbers: Iterable[int], floor: int) -> set[str]:
    """Return the files of which these commits took segments away."""
    files: set[str] = set()
    for number in numbers:
        try:
            commit = log.kept(number, floor)
        except CorruptLog as error:  # what it took away is found as rubbish
            _log.warning("what an old commit took away is left to a clean-up: %s", error)
            continue
        if commit is not None:
            files |= _files(commit.segments.filter(commit.segments.column("removed")))
    return files


def _files(segments: pa.Table | pa.RecordBatch) -> set[str]:
    return set(segments.column("file").to_pylist())


def _objects(files: Iterable[str]) -> list[str]:
    """Return the names of those that are no commits, which go when they are old."""
    return sorted(name for name in files if not name.startswith(f"{LOG_FOLDER}/"))


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
    return _files(counted.live)


def rubbish(store: Store, state: QueueState, older_than_us: int) -> Iterator[tuple[str, int]]:
    """Objects below ``data/`` that count for nobody and are older than this moment.

    Yields names, and when each was made by the store's clock. Lists every folder there. What has no
    sound header is not ours, and stays.
    """
    named = _files(state.live)
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
        left -= _files(commit.segments)
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
