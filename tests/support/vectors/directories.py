"""A golden state log with key directories (docs/format.md §16), in blocks of two rows.

Its values are Spark's rows of two columns, of which the second is a time that may be null.
"""

from __future__ import annotations

import struct
from random import Random
from typing import Any

from support.disks.memory_folder import MemoryFolder
from support.places.key_directories import directory_files
from support.places.state_logs import EMPTY, Commit, Writer

NAME = "state-directories"
SAYS = (
    "A state log with key directories of versions 3 and 6, which share a file of keys. Rows have a "
    "time in the second of the two columns of their values, some none; those of family 2 are in no "
    "zone, and their keys stand in sorted runs. Version 3 removes a key, version 4 is in two "
    "frames, version 5 renews two footprints, and version 6 begins a second segment."
)
VERSIONS = (3, 6)
"""Those that have a directory."""
TIME = "value 1/2 us"
_NO_TIME_US, _NEVER_US = -(2**63), 2**63 - 1


def value(number: int, time_us: int | None) -> bytes:
    """Encoding, a bit for each null, two columns."""
    return b"\0" + struct.pack("<Qqq", 2 if time_us is None else 0, number, time_us or 0)


def time_us(row: dict[str, Any]) -> int:
    """When a row is due, by which the least times are taken."""
    if row["family"] != 1:
        return _NEVER_US
    nulls, _, found_us = struct.unpack_from("<Qqq", row["value"], 1)
    return _NO_TIME_US if nulls & 2 else int(found_us)


def log() -> tuple[dict[str, bytes], list[Commit]]:
    """Files by name, and the commits of versions 1 to 6."""
    folder, random = MemoryFolder({}), Random(33)
    writer = Writer(folder, random, blocks=True, rows_per_block=2)
    v1 = writer.commit(
        EMPTY,
        {
            (1, b"a"): value(1, 5_000_000), (1, b"bb"): value(2, None),
            (2, b"ccc"): value(3, 1), (1, b""): value(4, 9_000_000),
        },
    )  # fmt: skip
    v2 = writer.commit(v1, {(1, b"a"): value(5, 7_000_000), (1, b"dddd"): value(6, 8_000_000)})
    v3 = writer.commit(v2, {(1, b"bb"): None, (1, b"eeeee"): value(7, -3)})
    v4 = writer.commit(
        v3, {(1, b"a"): value(8, 6_000_000), (2, b"ffffff"): value(9, None)}, frames=2
    )
    v5 = writer.commit(v4, {(1, b"eeeee"): None}, renew=2)
    writer.roll()
    v6 = writer.commit(v5, {(1, b"bb"): value(10, 12_000_000)})
    writer.close()
    files = {name: bytes(data) for name, data in folder.files.items()}
    for made, earlier in ((v3, []), (v6, [v3])):
        files |= directory_files(
            folder, made, times_of=TIME, time_us=time_us, earlier=earlier, in_order=[2]
        )
    return files, [v1, v2, v3, v4, v5, v6]


def case(expected: Any) -> dict[str, Any]:
    """Of cases.json; ``expected`` says what a commit holds byte by byte."""
    _, commits = log()
    expect = {
        "versions": [expected(commit) for commit in commits],
        "others": [],
        "directories": list(VERSIONS),
    }
    return {"name": NAME, "is": "state log", "says": SAYS, "expect": expect}
