"""A queue as it was after an earlier commit: gone back to in place, or made anew beside it.

docs/format.md §11. For whoever knows that nobody writes to it meanwhile: a fleet that goes back to
a global checkpoint, or is forked at one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping

from cec_store.errors import OutOfRange
from cec_store.format.by_reference.acknowledgements import PartitionsAcknowledged
from cec_store.format.by_reference.commits import ReferenceObject
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_commits import settings_after
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.ledger.registrations import (
    SETTING,
    Registration,
    acknowledged,
    of_all,
    registered,
)
from cec_store.storage.names import (
    acknowledgement_object_name,
    commit_object_name,
)
from cec_store.storage.stores.folders import AnyFolder
from cec_store.storage.stores.new_trees import NewTree, new_folder
from cec_store.storage.stores.store import Store


def state_at(log: ReferenceLog, number: int) -> QueueState:
    """The queue after commit ``number``, of which all objects are there still.

    Raises:
        OutOfRange: it has no such commit, or an object that counted then is deleted.
        CorruptLog: as :meth:`ReferenceLog.open`.
    """
    store, newest = log.store, log.open()
    if not 0 <= number <= newest.number:
        what = f"commit {number} is not there; the newest is {newest.number}"
        raise OutOfRange(f"{store.url}: {what}")
    state = log.kept_at(number, newest.floor)
    if state is None:
        what = f"commit {number} is deleted, being older than a day; choose a later one"
        raise OutOfRange(f"{store.url}: {what}")
    listed: dict[str, set[str]] = {}
    for file in state.live.column("file").to_pylist():
        folder, _, name = file.rpartition("/")
        if folder not in listed:
            listed[folder] = {entry.name for entry in store.list(folder)}
        if name not in listed[folder]:
            raise OutOfRange(
                f"{store.url}: {file}, which counted at commit {number}, is deleted: it was "
                "trimmed or merged more than a day ago; choose a later commit"
            )
    return state


def go_back(store: Store, number: int, now_us: int) -> QueueState:
    """Make a queue again what it was after commit ``number``; what came later is gone for good.

    It begins with the newest commit, so that wherever it is interrupted there is a queue; do it
    once more then. A consumer that had acknowledged more is put back to the queue's end, and
    whoever acts under its name is fenced.

    Raises:
        OutOfRange, CorruptLog: as :func:`state_at`; nothing was changed.
    """
    log = ReferenceLog(store)
    state = state_at(log, number)
    newest = log.open().number
    log.forget_mark()
    for commit in range(newest, number, -1):
        store.delete([commit_object_name(commit)])
    log.note(state)
    for name, (_, first) in registered(state, store.url).items():
        _put_back(store, state, name, first, now_us)
    return state


def keep_settings(store: Store, settings: Mapping[str, str], now_us: int) -> None:
    """Give a queue that has gone back the settings that it had before, by one commit.

    Its retention stays, and so do the consumers that have registered since; those that were dropped
    since stay dropped. A consumer begins, and stands, at the end of the queue where it was behind
    that. Do it once more where it is interrupted.
    """
    log = ReferenceLog(store)
    state = log.open()
    ends = state.commit.ends
    kept = {**settings}
    for name, (starts, first) in registered(state, store.url, settings).items():
        kept[f"{SETTING}{name}"] = Registration(tuple(map(min, starts, ends)), first).encode()

    def commit(now: QueueState) -> ReferenceObject | None:
        return settings_after(now, kept, now_us) if now.commit.settings != kept else None

    state = log.add(state, commit)
    for name, (_, first) in registered(state, store.url).items():
        _put_back(store, state, name, first, now_us)


def _put_back(store: Store, state: QueueState, name: str, first: int, now_us: int) -> None:
    acknowledgement = acknowledged(store, state, name, first)
    if acknowledgement is None:
        return
    ends = state.commit.ends
    received, saved = (
        tuple(map(min, of_all(offsets, state)[: len(ends)], ends))
        for offsets in (acknowledgement.received, acknowledgement.effects_saved)
    )
    if (received, saved) == (acknowledgement.received, acknowledgement.effects_saved):
        return
    lower = PartitionsAcknowledged(
        state.log_id, acknowledgement.number + 1, secrets.token_bytes(16), now_us, received, saved
    )
    store.create(acknowledgement_object_name(name, lower.number), [lower.encode()])


def copy_at(
    source: AnyFolder, source_store: Store, target: AnyFolder, number: int
) -> tuple[int, int]:
    """Make a queue at ``target`` as the one at ``source`` was after commit ``number``.

    Rows are shared by hard links where both are on one local disk, else copied. Its consumers are
    not copied: see :func:`forget_consumers`. How many files were linked, and copied.

    Raises:
        OutOfRange, CorruptLog: as :func:`state_at`.
        FileExistsError: there is something at ``target``.
    """
    log = ReferenceLog(source_store)
    state = state_at(log, number)
    # Commit 0 makes it a queue, so it is the last one.
    commits = [commit_object_name(commit) for commit in log.numbers_below(number + 1)[::-1]]
    rows = dict.fromkeys(state.live.column("file").to_pylist())
    names = [*(name for name in rows if name not in set(commits)), *commits]
    with new_folder(target) as tree:
        linked = sum(_take(tree, source, source_store, name) for name in names)
    return linked, len(names) - linked


def _take(tree: NewTree, source: AnyFolder, store: Store, name: str) -> bool:
    inside, _, last = name.rpartition("/")
    folder = source
    for part in inside.split("/"):
        folder = folder.folder(part)
    return tree.take(inside, folder, last, store.size(name), is_final=True)


def forget_consumers(store: Store, clock_us: Callable[[], int]) -> None:
    """Remove all consumers from the settings of a copied queue, which nobody has read yet."""
    log = ReferenceLog(store)

    def commit(now: QueueState) -> ReferenceObject | None:
        settings = now.commit.settings
        left = {key: text for key, text in settings.items() if not key.startswith(SETTING)}
        return settings_after(now, left, clock_us()) if len(left) < len(settings) else None

    log.add(log.open(), commit)
