"""Targets that read rows of variables, and the schema files that say what these are."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from cec_store.connectors.spark.checkpoint.family_rows import FamilyRows
from cec_store.connectors.spark.checkpoint.state_rows import VariablesDecoder
from cec_store.connectors.spark.checkpoint.variables import Families, read_families
from cec_store.inspector.decoding.variables import FamilyCells
from cec_store.storage.local import LocalFolder
from support.places.made_variables import CHUNKS, MadeVariables, every_kind
from support.vectors.variables import FAMILIES

_NAMES = [*FAMILIES, CHUNKS]
_PLAIN = {name: replace(variable, forms=None) for name, variable in FAMILIES.items()}
_DECODERS = [
    VariablesDecoder(Families("operator", known, {}, known is FAMILIES, 1))
    for known in (_PLAIN, FAMILIES)
]
_PLACE = tempfile.TemporaryDirectory(
    prefix="cec-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None
)
_MADE = [MadeVariables(Path(_PLACE.name, str(in_avro)), in_avro) for in_avro in (False, True)]


def read_family_rows(data: bytes) -> None:
    """The encoding, the family and the size of a key, a byte each; the key, and a value."""
    in_avro, number, size = (*data[:3], 0, 0, 0)[:3]
    cells = FamilyCells(_DECODERS[in_avro % 2], _NAMES[number % len(_NAMES)])
    key, value = (pa.array([part], pa.binary()) for part in (data[3 : 3 + size], data[3 + size :]))
    cells.check(key, value)
    cells.keys(key)
    cells.values(value)


def family_row_seeds() -> list[bytes]:
    seeds = []
    for made in _MADE:
        names = {number: name for name, number in made.numbers.items()}
        for (number, key), value in every_kind(made).items():
            if number and value is not None:
                family = _NAMES.index(names[number])
                seeds.append(bytes([made.in_avro, family, len(key)]) + key + value)
    return seeds


def read_variables_schema(data: bytes) -> None:
    """The newest of the schema files that an operator's metadata names."""
    _newest_file(_MADE[1]).write_bytes(data)
    families = read_families(LocalFolder(_MADE[1].path / "state" / "0"), in_avro=True)
    for variable in families.known.values():
        FamilyRows(variable).keys(pa.chunked_array([[]], pa.binary()))


def variables_schema_seeds() -> list[bytes]:
    return [_newest_file(made).read_bytes() for made in _MADE]


def _newest_file(made: MadeVariables) -> Path:
    return made.path / "state" / "0" / "_stateSchema" / "default" / "1_file"
