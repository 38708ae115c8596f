"""Joins of state formats 3 and 4, whose tables are column families of one store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.models import unsafe_row_encoder
from support.places.checkpoints import JOIN
from support.places.made_checkpoints import KEY, VALUE, MadeCheckpoint, java_text, spark_json


def note_families(made: MadeCheckpoint, key: str, value: str) -> None:
    """Put what Spark 4.1 notes of such a join in the place of what it notes of one table."""
    state = made.path / "state" / "0"
    (state / "_metadata" / "metadata").unlink()
    (state / "0" / "_metadata" / "schema").unlink()
    encoder = json.dumps({"keyStateEncoderType": "NoPrefixKeyStateEncoderSpec"})
    families = b"".join(
        java_text(name) + bytes(2) + _piece(key) + bytes(2) + _piece(value) + _piece(encoder)
        + bytes(4)
        for name in JOIN
    )  # fmt: skip
    schemas = java_text("v3") + len(JOIN).to_bytes(4, "big") + families
    file = made.put("_stateSchema/default/0_file", schemas)
    about = {
        "operatorInfo": {"operatorId": 0, "operatorName": "symmetricHashJoin"},
        "stateStoreInfo": [
            {
                "storeName": "default", "numColsPrefixKey": 0, "numPartitions": made.partitions,
                "stateSchemaFilePaths": [f"file:{file}"],
            }
        ],
        "operatorPropertiesJson": json.dumps({"useVirtualColumnFamilies": True}),
    }  # fmt: skip
    made.put("_metadata/v2/0", f"v2\n{json.dumps(about)}".encode())


def made_join(path: Path, *rows: tuple[str, dict[str, Any], dict[str, Any]]) -> MadeCheckpoint:
    """A query with a join of format 3 in one partition, and one batch that leaves these rows.

    A row is the name of its family, its key and its value.
    """
    made = MadeCheckpoint(path, KEY, VALUE, partitions=1)
    note_families(made, *(json.dumps(spark_json(kind)) for kind in (KEY, VALUE)))
    numbers = {name: number for number, name in enumerate(JOIN, 2)}
    made.beside = {(0, name.encode()): bytes([n, 0]) for name, n in numbers.items()}
    for family, key, value in rows:
        stored = b"\0" + unsafe_row_encoder.row(VALUE, value)
        made.beside[numbers[family], unsafe_row_encoder.key(KEY, key, 0)] = stored
    made.batch({})
    made.close()
    return made


def _piece(text: str) -> bytes:
    return (1).to_bytes(4, "big") + java_text(text)
