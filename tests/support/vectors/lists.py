"""A golden state log of lists (docs/format.md §9): in one record, in chunks, put and begun anew.

The column family `items` has keys `struct<k: string>` and values `struct<n: int64, text: string>`.
"""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import pyarrow as pa

from support.disks.memory_folder import MemoryFolder
from support.models import unsafe_row_encoder as encoder
from support.places.state_logs import EMPTY, Commit, Writer

NAME = "state-lists"
FAMILY = "items"
KEY = pa.struct([("k", pa.string())])
VALUE = pa.struct([("n", pa.int64()), ("text", pa.string())])
_NAMES, _ITEMS, _CHUNKS = 0, 2, 3
SAYS = (
    "Lists of several values, not compressed. Version 1 has a record "
    "for each: a of 20 values, b of one, and none of no value. Version 2 appends two values to "
    "a, which becomes two chunks; version 3 appends three more to the last one, removes b and puts "
    "c; version 4 puts a anew, and cuts c into twelve chunks; version 5 removes c and begins it "
    "again in two chunks."
)
# What stands in each list, by its values' numbers: a value is its number and so many letters.
LISTS: dict[int, dict[str, list[int]]] = {
    1: {"a": [*range(20)], "b": [100]},
    2: {"a": [*range(22)], "b": [100]},
    3: {"a": [*range(25)], "c": [200, 201]},
    4: {"a": [300], "c": [*range(200, 213)]},
    5: {"a": [300], "c": [400, 401]},
}
_PUT, _MERGED, _REMOVED = "put_record", "merge_record", "delete_record"
# What a change feed tells of each version: how, of which list, which value.
TOLD: dict[int, list[tuple[str, str, int | None]]] = {
    1: [(_PUT, "a", 0), *((_MERGED, "a", n) for n in range(1, 20)), (_PUT, "b", 100)],
    2: [(_MERGED, "a", 20), (_MERGED, "a", 21)],
    3: [
        *((_MERGED, "a", n) for n in (22, 23, 24)),
        (_REMOVED, "b", None), (_PUT, "c", 200), (_MERGED, "c", 201),
    ],
    4: [(_PUT, "a", 300), *((_MERGED, "c", n) for n in range(202, 213))],
    5: [(_PUT, "c", 400), (_MERGED, "c", 401)],
}  # fmt: skip


def text_of(n: int) -> str | None:
    return None if n % 7 == 0 else "," * (n % 2) + "t" * (n % 7)


def values(*numbers: int) -> bytes:
    """As Spark keeps several values of one key."""
    rows = [b"\0" + encoder.row(VALUE, {"n": n, "text": text_of(n)}) for n in numbers]
    return b",".join(struct.pack("<I", len(row)) + row for row in rows)


def chunk(said: int, *numbers: int) -> bytes:
    return struct.pack("<I", said) + values(*numbers)


def head(count: int) -> bytes:
    return struct.pack("<II", 0, count)


def list_key(name: str) -> tuple[int, bytes]:
    return _ITEMS, encoder.key(KEY, {"k": name}, 0)


def chunk_key(name: str, number: int) -> tuple[int, bytes]:
    return _CHUNKS, list_key(name)[1] + struct.pack(">I", number)


def names(*, chunks: bool) -> dict[tuple[int, bytes], bytes | None]:
    made: dict[tuple[int, bytes], bytes | None] = {(_NAMES, FAMILY.encode()): b"\2\0"}
    return made | ({(_NAMES, b"\0" + FAMILY.encode()): b"\3\0"} if chunks else {})


def log() -> tuple[dict[str, bytes], list[Commit]]:
    folder = MemoryFolder({})
    writer = Writer(folder, Random(21), level=0)
    old, tail = values(*range(20)), values(20, 21)
    v1 = writer.commit(
        EMPTY,
        {
            **names(chunks=False),
            list_key("a"): old, list_key("b"): values(100), list_key("none"): b"",
        },
    )  # fmt: skip
    v2 = writer.commit(
        v1,
        {
            (_NAMES, b"\0" + FAMILY.encode()): b"\3\0",
            chunk_key("a", 0): chunk(len(old), *range(20)), chunk_key("a", 1): chunk(0, 20, 21),
            list_key("a"): head(2),
        },
    )  # fmt: skip
    v3 = writer.commit(
        v2,
        {
            chunk_key("a", 1): chunk(len(tail), *range(20, 25)),
            list_key("b"): None, list_key("c"): values(200, 201),
        },
    )  # fmt: skip
    v4 = writer.commit(
        v3,
        {
            chunk_key("a", 0): None, chunk_key("a", 1): None, list_key("a"): values(300),
            chunk_key("c", 0): chunk(len(values(200, 201)), 200, 201),
            **{chunk_key("c", n): chunk(0, 201 + n) for n in range(1, 12)},
            list_key("c"): head(12),
        },
    )  # fmt: skip
    v5 = writer.commit(
        v4,
        {
            **{chunk_key("c", n): None for n in range(2, 12)},
            chunk_key("c", 0): chunk(0, 400), chunk_key("c", 1): chunk(0, 401),
            list_key("c"): head(2),
        },
    )  # fmt: skip
    return {n: bytes(data) for n, data in folder.files.items()}, [v1, v2, v3, v4, v5]


def case(expected: Any) -> dict[str, Any]:
    """Of cases.json; ``expected`` says what a commit holds byte by byte."""
    _, commits = log()
    versions = [
        {
            **expected(commit),
            "lists": LISTS[commit.version], "told": TOLD[commit.version],
        }
        for commit in commits
    ]  # fmt: skip
    expect = {"versions": versions, "others": []}
    return {"name": NAME, "is": "state log", "says": SAYS, "expect": expect}
