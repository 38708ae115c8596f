"""Cache folders of this user: what they hold can be made again, and deleted at any time."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from cec_store.errors import QueueLocked
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import WRITER_LOCK
from cec_store.storage.paths import AnyPath

_VARIABLE = "XDG_CACHE_HOME"


def cache_path(variables: Mapping[str, str]) -> Path:
    """This package's folder in the user's cache."""
    told = Path(variables.get(_VARIABLE) or "cache")
    if told.is_absolute():  # as the XDG text demands
        return told / "cec-store"
    try:
        return Path.home() / ".cache" / "cec-store"
    except RuntimeError:  # a container's user without a home
        return Path(tempfile.gettempdir()) / f"cec-store-{os.geteuid()}"


def index_cache(log_id: bytes) -> LocalFolder:
    """Return the folder for the index of a queue that is not on local files."""
    return LocalFolder(cache_path(os.environ) / "indexes" / log_id.hex())


def proofs_path() -> Path:
    """Return the folder of what is known of stores' servers."""
    return cache_path(os.environ) / "stores"


def scratch_folder(log_id: bytes, base: AnyPath | None) -> LocalFolder:
    """A new folder, below ``base`` or in the cache, for a queue that nobody needs after its writer.

    Those of the same log whose writers have died are removed.
    """
    above = LocalFolder(cache_path(os.environ) / "standby" if base is None else base)
    for name, left in above.folders().items() if above.exists() else ():
        if name.startswith(log_id.hex()):
            with suppress(QueueLocked, FileNotFoundError):  # somebody else may be at it
                if WRITER_LOCK in left.names():
                    left.lock(WRITER_LOCK).close()
                    left.remove()
    return above.folder(f"{log_id.hex()}-{secrets.token_hex(4)}")
