"""Proof that a store gives a name once, however many writers ask for it at the same moment.

Some servers take the condition of a create and pass over it; others look first and put afterwards,
so that writers who come together all succeed. Only a race shows the second kind.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import time

from cec_store.errors import StorageError
from cec_store.storage.caches import proofs_path
from cec_store.storage.mounts import warn_of_mount
from cec_store.storage.names import probe_name
from cec_store.storage.stores.failures import no_exclusive_create
from cec_store.storage.stores.local_store import LocalStore
from cec_store.storage.stores.store import Store
from cec_store.values import has_passed

ROUNDS = 12
RACERS = 8
_VALID_S = 7 * 86_400
_log = logging.getLogger(__name__)
_proven: set[str] = set()
"""Servers that this process knows; its children may know them too."""


def prove_exclusive_creates(store: Store, folder: str = "") -> None:
    """See that two writers cannot both make an object, before the first one is made by us.

    Rounds of creates of one name race each other in this folder. That costs ``ROUNDS`` times
    ``RACERS`` creates and a delete, once a week for each server, bucket and user: the result is
    kept in the user's cache, and costs no request afterwards. A process that is killed meanwhile
    leaves objects that no reader minds. Stores that need no proof have no racers. Local files may
    be on a mount that keeps less than a disk, which is said once.

    Raises:
        NoExclusiveCreate: two creates of one name have succeeded.
        StorageError: the store cannot be written to.
    """
    racing = store.racing
    if racing is None:
        if store.appends:
            warn_of_mount(store.url)
        return
    server = racing.server()
    if server in _proven:
        return
    if not _is_remembered(server):
        _race(store, folder, server)
        _remember(server)
    _proven.add(server)


def forget_proofs() -> None:
    """Let this process look into the cache again, as a new one does."""
    _proven.clear()


def _race(store: Store, folder: str, server: str) -> None:
    racing = store.racing
    assert racing is not None
    names: list[str] = []
    try:
        for _ in range(ROUNDS):
            token = secrets.token_hex(16)
            name = f"{folder}/{probe_name(token)}" if folder else probe_name(token)
            names.append(name)
            bodies = [f"{number} {token}".encode() for number in range(RACERS)]
            winners = racing.race(name, bodies)
            if winners > 1:
                what = f"{server} let {winners} of {RACERS} writers make one object"
                raise no_exclusive_create(store.url, what)
            if not winners:
                # Its errors are typed, and it tries again: a store that is busy may have lost all.
                _make_or_find(store, name)
    except Exception:
        try:
            store.delete(names)
        except (StorageError, OSError) as error:
            _log.warning("%s: objects named probe-….tmp stay: %s", store.url, error)
        raise
    store.delete(names)


def _make_or_find(store: Store, name: str) -> None:
    try:
        store.create(name, [secrets.token_bytes(16)])
    except FileExistsError:
        _log.debug("%s/%s: made by a create that had no answer", store.url, name)


def _is_remembered(server: str) -> bool:
    now_s = int(time.time())
    return any(
        name.startswith(_key(server)) and not has_passed(_VALID_S, made_s, now_s)
        for name, made_s in _proofs(_proofs_store())
    )


def _remember(server: str) -> None:
    proofs, now_s = _proofs_store(), int(time.time())
    try:
        old = [name for name, made_s in _proofs(proofs) if has_passed(_VALID_S, made_s, now_s)]
        proofs.delete(old)
        proofs.create(f"{_key(server)}-{now_s}", [server.encode()])
    except FileExistsError:
        _log.debug("%s: another process has proven it in the same second", server)
    except (StorageError, OSError) as error:
        _log.warning(
            "%s is proven again by each process, as that cannot be kept: %s", server, error
        )


def _proofs_store() -> LocalStore:
    return LocalStore(proofs_path())


def _proofs(proofs: LocalStore) -> list[tuple[str, int]]:
    """Names of what is kept, each with its time in seconds since 1970; none if unreadable."""
    try:
        entries = proofs.list()
    except StorageError as error:
        _log.debug("%s: no proofs are read: %s", proofs.url, error)
        return []
    parts = [(entry.name, entry.name.rpartition("-")[2]) for entry in entries]
    return [(name, int(text)) for name, text in parts if text.isdecimal()]


def _key(server: str) -> str:
    return hashlib.sha256(server.encode()).hexdigest()[:32]
