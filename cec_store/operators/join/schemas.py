"""Columns of a join: its key's, and its output's."""

from __future__ import annotations

import pyarrow as pa

from cec_store.operators.keys.encoder import key_type


def key_schema(left: pa.Schema, right: pa.Schema, on: list[str]) -> pa.Schema:
    """Return the fields of the columns that both have. Raises ``ValueError`` where they differ."""
    fields = []
    for name in on:
        if left.get_field_index(name) < 0 or right.get_field_index(name) < 0:
            raise ValueError(f"no column {name!r} in both inputs to join on")
        types = [key_type(schema.field(name).type) for schema in (left, right)]
        if types[0] != types[1]:
            raise ValueError(f"column {name!r} is {types[0]} on the left, {types[1]} on the right")
        fields.append(pa.field(name, types[0]))
    return pa.schema(fields)


def joined_schema(
    left: pa.Schema, right: pa.Schema, on: list[str], suffixes: tuple[str, str]
) -> pa.Schema:
    """Return the schema of a pair. Raises ``ValueError`` for two columns of one name."""
    fields = [left.field(name) for name in on]
    shared = set(left.names) & set(right.names)
    for schema, suffix in zip((left, right), suffixes, strict=True):
        fields += [
            field.with_name(field.name + suffix * (field.name in shared))
            for field in schema
            if field.name not in on
        ]
    names = [field.name for field in fields]
    if len(set(names)) < len(names):
        raise ValueError(f"two output columns of one name in {names}")
    return pa.schema(fields)
