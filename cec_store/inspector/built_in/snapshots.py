"""Read a zip of the RocksDB provider: the files that make up a version, and its number of keys.

::

    metadata    v1 or v2, and a line of JSON: files by their names in `SSTs` and `logs`, with sizes
    MANIFEST-…  RocksDB's own
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cec_store.connectors.spark.checkpoint.layout import METADATA
from cec_store.connectors.spark.checkpoint.parsing import damaged, json_object, parsed
from cec_store.storage.folder import Folder

_NAMED = (("sstFiles", "dfsSstFileName", "SSTs"), ("logFiles", "dfsLogFileName", "logs"))


@dataclass(frozen=True)
class Snapshot:
    """All of a version, as its zip says it."""

    keys: int | None
    """``None`` where Spark was told not to count them."""
    shared: Mapping[str, int]
    """Bytes by `SSTs/NAME` or `logs/NAME`."""


def read_snapshot(folder: Folder, name: str) -> Snapshot:
    """Every file in the zip is held against its checksum.

    Raises:
        CorruptLog: it is damaged.
        FileNotFoundError: it is not there.
    """
    path, data = f"{folder.path}/{name}", folder.read(name, 0, folder.size(name))
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            wrong = archive.testzip()
            if wrong is not None:
                at = archive.getinfo(wrong).header_offset
                raise damaged(path, at, f"{wrong} in it does not fit its checksum")
            if METADATA not in archive.namelist():
                raise damaged(path, 0, f"there is no {METADATA!r} in it")
            metadata = archive.read(METADATA)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, OSError) as error:
        raise damaged(path, 0, f"no whole zip: {error}") from None

    def parse() -> Snapshot:
        document = json_object(json.loads(metadata.partition(b"\n")[2]))
        keys = int(document.get("numKeys", -1))
        return Snapshot(keys if keys >= 0 else None, _shared(document))

    return parsed(path, data, parse)


def _shared(document: dict[str, Any]) -> dict[str, int]:
    return {
        f"{inside}/{entry[name]}": int(entry["sizeBytes"])
        for group, name, inside in _NAMED
        for entry in document.get(group) or ()
    }
