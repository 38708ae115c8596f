"""A golden state log of variables in Avro (docs/format.md §9): a value, a list, a map, an index.

Values of the list and of `count` were written in two forms, of which the second is the newest.
"""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import pyarrow as pa

from cec_store.connectors.spark.checkpoint.variables import Variable
from support.disks.memory_folder import MemoryFolder
from support.models import avro_row_encoder as encoder
from support.places.state_logs import EMPTY, Commit, Key, Writer

NAME = "state-avro"
SAYS = (
    "Variables of a transformWithState with rows in Avro, not compressed. Version 1 has a value, a "
    "list, a map and an index in the first form; version 2 comes with the second form, appends to "
    "the list, which becomes two chunks with values of both forms, and lets an old value be; "
    "version 3 removes a key of each."
)
KEY = pa.struct([("k", pa.string())])
FIRST = pa.struct([("n", pa.int32()), ("gone", pa.string())])
SECOND = pa.struct([("since", pa.int64()), ("n", pa.int64())])
PARTS_KEY = pa.struct([("key", KEY), ("userKey", pa.struct([("part", pa.int32())]))])
INDEX_KEY = pa.struct([("expirationMs", pa.int64()), ("elementKey", KEY)])
NOTHING = pa.struct([("__empty__", pa.null())])
PART = pa.struct([("amount", pa.decimal128(5, 2)), ("tags", pa.list_(pa.string()))])
FORMS = {0: FIRST, 1: SECOND}
NUMBERS = {"count": 2, "items": 3, "parts": 4, "$ttl_count": 5, "\0items": 6}
INDEX = "$ttl_count"
FAMILIES = {
    "count": Variable(NAME, "count", KEY, SECOND, 0, is_list=False, forms=FORMS),
    "items": Variable(NAME, "items", KEY, SECOND, 0, is_list=True, forms=FORMS),
    "parts": Variable(NAME, "parts", PARTS_KEY, PART, 1, is_list=False, forms={0: PART}),
    INDEX: Variable(NAME, INDEX, INDEX_KEY, NOTHING, 0, False, forms={0: NOTHING}, ordered=(0,)),
}
# The rows of each version, in the newest form: of the list all its values.
_A, _B = {"k": "a"}, {"k": "ß"}
_OLD, _NEW = {"since": None, "n": 1}, {"since": 7, "n": 2**40}
_PART = {"amount": "-1.50", "tags": ["x", ""]}
_OF_PART = {"key": _A, "userKey": {"part": -3}}
_LAST = {"expirationMs": None, "elementKey": _A}
_EARLY = {"expirationMs": -9, "elementKey": _B}
ROWS: dict[int, dict[str, list[list[Any]]]] = {
    1: {
        "count": [[_A, _OLD], [_B, {"since": None, "n": None}]],
        "items": [[_A, [_OLD]]],
        "parts": [[_OF_PART, _PART]],
        INDEX: [[_EARLY, {"__empty__": None}], [_LAST, {"__empty__": None}]],
    },
    2: {
        "count": [[_A, _NEW], [_B, {"since": None, "n": None}]],
        "items": [[_A, [_OLD, _NEW, _OLD]]],
        "parts": [[_OF_PART, {"amount": None, "tags": None}]],
        INDEX: [[_EARLY, {"__empty__": None}], [_LAST, {"__empty__": None}]],
    },
    3: {"count": [[_A, _NEW]], "items": [], "parts": [], INDEX: [[_LAST, {"__empty__": None}]]},
}


def value(number: int, n: int | None, since: int | None = None) -> bytes:
    """A value in the first form, or in the second."""
    row = {"n": n, "gone": "gone", "since": since}
    return encoder.value(FORMS[number], number, row)


def joined(*values: bytes) -> bytes:
    """As Spark keeps several values of one key."""
    return b",".join(struct.pack("<I", len(one)) + one for one in values)


def key_of(family: str, row: dict[str, Any]) -> Key:
    variable = FAMILIES[family]
    if variable.ordered:
        return NUMBERS[family], encoder.ordered_key(variable.key, row, variable.ordered)
    return NUMBERS[family], encoder.key(variable.key, row, variable.prefix_fields)


def chunk_key(row: dict[str, Any], number: int) -> Key:
    return NUMBERS["\0items"], key_of("items", row)[1] + struct.pack(">I", number)


def named(*families: str) -> dict[Key, bytes | None]:
    return {(0, name.encode()): NUMBERS[name].to_bytes(2, "little") for name in families}


def log() -> tuple[dict[str, bytes], list[Commit]]:
    folder = MemoryFolder({})
    writer = Writer(folder, Random(22), level=0)
    nothing = encoder.value(NOTHING, 0, {"__empty__": None})
    part, no_part = (encoder.value(PART, 0, row) for row in (_PART, {"amount": None, "tags": None}))
    v1 = writer.commit(
        EMPTY,
        {
            **named("count", "items", "parts", INDEX),
            key_of("count", _A): value(0, 1),
            key_of("count", _B): value(0, None),
            key_of("items", _A): joined(value(0, 1)),
            key_of("parts", _OF_PART): part,
            key_of(INDEX, _EARLY): nothing,
            key_of(INDEX, _LAST): nothing,
        },
    )
    old = joined(value(0, 1))
    v2 = writer.commit(
        v1,
        {
            **named("\0items"),
            key_of("count", _A): value(1, 2**40, 7),
            chunk_key(_A, 0): struct.pack("<I", len(old)) + joined(value(0, 1), value(1, 2**40, 7)),
            chunk_key(_A, 1): struct.pack("<I", 0) + joined(value(1, 1)),
            key_of("items", _A): struct.pack("<II", 0, 2),
            key_of("parts", _OF_PART): no_part,
        },
    )
    v3 = writer.commit(
        v2,
        {
            key_of("count", _B): None,
            chunk_key(_A, 0): None,
            chunk_key(_A, 1): None,
            key_of("items", _A): None,
            key_of("parts", _OF_PART): None,
            key_of(INDEX, _EARLY): None,
        },
    )
    return {n: bytes(data) for n, data in folder.files.items()}, [v1, v2, v3]


def case(expected: Any) -> dict[str, Any]:
    """Of cases.json; ``expected`` says what a commit holds byte by byte."""
    _, commits = log()
    versions = [{**expected(commit), "rows": ROWS[commit.version]} for commit in commits]
    return {
        "name": NAME,
        "is": "state log",
        "says": SAYS,
        "expect": {"versions": versions, "others": []},
    }
