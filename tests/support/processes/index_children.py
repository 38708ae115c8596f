"""Lookups in a damaged index, in processes of their own: LMDB answers some damage with a signal."""

import json
import os
import resource
import shutil
from pathlib import Path

import pytest

from cec_store.errors import ReadOnly
from cec_store.indexes.timestamp import TimestampIndex
from support.models.index_oracle import (
    append,
    assert_equals_scan,
    chain_of,
    files_of,
    open_for_append,
)

FRAMES = 160
PAGE = 4096


def timestamps_us(number: int, shift: int = 0) -> list[int]:
    return [number * 10 + number * 7919 % 83 + shift, number * 10]


def look_up(path: Path, writable: bool) -> dict[str, object]:
    """Compare every lookup with a scan, then say what became of the index."""
    chain = chain_of(path)
    index = TimestampIndex(chain, writable)
    facts: dict[str, object] = {"loaded": index.stored_frames, "problem": index.problem}
    assert assert_equals_scan(index, chain) > 3 * FRAMES
    if writable:
        index.follow(chain)
        assert_equals_scan(index, chain)
    facts |= {"dropped": index.dropped, "kept": index.stored_frames}
    index.close()
    return facts


def look_up_twice(path: Path, uid: int, report: str) -> None:
    """Runs in the child: first for reading, which must write nothing, then as the writer."""
    if uid:
        os.setuid(uid)
    before = files_of(path)
    facts = [look_up(path, writable=False)]
    assert files_of(path) == before
    facts.append(look_up(path, writable=True))
    Path(report).write_text(json.dumps(facts))


def flip(data: bytearray, at: int, bit: int = 0) -> None:
    data[at] ^= 1 << bit


def full_disk(path: Path, limit_bytes: int) -> None:
    """Runs in the child: no file can grow beyond the limit."""
    chain = chain_of(path)
    index = TimestampIndex(chain, writable=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
    index.follow(chain)
    assert index.problem
    assert_equals_scan(index, chain)
    assert index.stored_frames in (0, FRAMES)
    with pytest.raises(ReadOnly):
        index.rebuild(chain)
    index.close()


def damage_while_open(path: str, kind: str, writable: bool) -> None:
    """Runs in the child."""
    folder = Path(path)
    with open_for_append(folder) as queue:
        append(queue, timestamps_us(FRAMES + 1))
    chain = chain_of(folder)
    index = TimestampIndex(chain, writable)
    index.follow(chain)
    assert index.find_timestamp(500, chain) is not None
    before = set((folder / "index").iterdir())
    files = [file for file in before if file.suffix == ".mdb"]
    assert len(files) == 1 + writable
    for file in files:
        if kind == "cut":
            os.truncate(file, 3 * PAGE)
        elif kind == "cut to nothing":
            os.truncate(file, 0)
        elif kind == "unlink":
            file.unlink()
        elif kind == "flip":
            data = bytearray(file.read_bytes())
            at = 0
            for number in range(FRAMES):
                at = data.find(number.to_bytes(8, "big"), 2 * PAGE)
                if at >= 0:
                    flip(data, at + 11, 5)
            with open(file, "r+b") as target:
                target.write(data)
    if kind == "remove the folder":
        shutil.rmtree(folder / "index")
    assert_equals_scan(index, chain)
    if kind in ("cut", "cut to nothing", "flip"):
        assert index.dropped
    index.close()
    assert_equals_scan(TimestampIndex(chain), chain)
