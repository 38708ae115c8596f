"""Local places copied into a store, as people copy them: all files, but for hidden ones."""

from __future__ import annotations

import secrets
from pathlib import Path

from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.store import Store
from support.stores.needed import need


def copy_into(store: Store, path: Path, inside: str = "") -> None:
    """All that is below a local folder, under the same names."""
    for file in sorted(path.rglob("*")):
        if file.is_file() and not file.name.startswith("."):
            name = file.relative_to(path).as_posix()
            store.create(f"{inside}/{name}" if inside else name, [file.read_bytes()])


def in_memory(path: Path | None = None) -> str:
    """The URL of a copy in this process; without a path, of nothing.

    Skips the test where fsspec, which keeps it, is missing.
    """
    need("fsspec")
    url = f"memory://{secrets.token_hex(8)}/place"
    if path is not None:
        copy_into(store_at(url), path)
    return url


def contents(store: Store, folder: str = "") -> dict[str, bytes]:
    """All objects of a store below a folder."""
    found: dict[str, bytes] = {}
    for entry in store.list(folder):
        name = f"{folder}/{entry.name}" if folder else entry.name
        found |= contents(store, name) if entry.is_folder else {name: store.read(name)}
    return found
