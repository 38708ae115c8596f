"""Files of Spark's with a few words changed, for a checkpoint at another place."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from cec_store.connectors.spark.checkpoint.layout import STATE
from cec_store.connectors.spark.checkpoint.parsing import json_object, parsed
from cec_store.storage.folder import FolderTree


def hadoop_url(folder: FolderTree) -> str:
    """Return the folder's URL as Hadoop writes it; a local one begins with ``file:``."""
    return f"file:{folder.path}" if folder.appends else folder.path


def with_json(path: str, data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The bytes of a file of which the second line is JSON, after a change to that.

    Raises:
        CorruptLog: it is not, or the change finds not what Spark writes.
    """
    version, _, rest = data.partition(b"\n")
    line, newline, tail = rest.partition(b"\n")

    def parse() -> dict[str, Any]:
        document = json_object(json.loads(line))
        before = json.dumps(document)
        change(document)
        return {} if json.dumps(document) == before else document

    changed = parsed(path, data, parse, len(version) + 1)
    if not changed:
        return data
    text = json.dumps(changed, ensure_ascii=False, separators=(",", ":")).encode()
    return version + b"\n" + text + newline + tail


def moved_metadata(path: str, data: bytes, new_url: str, partitions: int | None = None) -> bytes:
    """Return an operator's metadata file, rewritten for a checkpoint at another place.

    The metadata of `transformWithState` holds absolute paths of schema files, which change.

    Args:
        path: Of the file, for errors.
        data: What is in it.
        new_url: The new checkpoint, as Hadoop has it.
        partitions: As many as it has there; None: as many as before.

    Raises:
        CorruptLog: it is not what Spark writes.
    """

    def change(metadata: dict[str, Any]) -> None:
        for store in metadata["stateStoreInfo"]:
            if partitions is not None:
                store["numPartitions"] = partitions
            if "stateSchemaFilePaths" in store:
                paths = [str(file_path) for file_path in store["stateSchemaFilePaths"]]
                store["stateSchemaFilePaths"] = [
                    f"{new_url}/{STATE}/" + file_path.rpartition(f"/{STATE}/")[2]
                    for file_path in paths
                ]

    return with_json(path, data, change)
