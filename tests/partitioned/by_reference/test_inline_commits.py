"""Commits that hold their rows: one object an append, read as any other segment."""

from __future__ import annotations

import random
import secrets
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cec_store import PartitionedQueue, open_queue, read_queue
from cec_store.errors import CecError, CorruptLog, UnsupportedVersion
from cec_store.format.by_reference.commit_body import segments_of
from cec_store.format.by_reference.commits import ReferenceObject
from cec_store.format.by_reference.inline import INLINE_BYTES_MAX, OWN
from cec_store.format.frame import SEGMENT_HEADER_BYTES
from cec_store.format.schema import RecordSchema
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.partitioned.by_reference.segment_objects import read_segment
from cec_store.storage.names import commit_object_name
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.retrying import Retries
from cec_store.storage.stores.store import Store
from support.places.layouts import put_into_objects
from support.runs.counts import crash_count
from support.stores.copies import contents
from support.stores.faulty_proxy import FAULTS, FaultyProxy, Request, proxy_to
from support.stores.s3_server import BUCKET, options_of, s3_server

COLUMNS = pa.schema([("key", pa.string()), ("n", pa.int64()), ("text", pa.string())])
KEYED = RecordSchema(COLUMNS, key_columns=("key",))


def table(first: int, count: int, text_bytes: int = 3) -> pa.Table:
    """Return rows with texts that cannot be made smaller."""
    numbers = range(first, first + count)
    texts = [secrets.token_hex(text_bytes) for _ in numbers]
    keys = [f"k{n % 7}" for n in numbers]
    return pa.table({"key": keys, "n": [*numbers], "text": texts}, schema=COLUMNS)


def opened(place: Path | Store, partitions: int = 3) -> PartitionedQueue:
    store = store_at(place) if isinstance(place, Path) else place
    return PartitionedQueue(store, "a", KEYED, partitions=partitions, clock_us=lambda: 5)


def numbers(place: Any, **more: Any) -> list[int]:
    return sorted(read_queue(place, **more).read_all()["n"].to_pylist())


def live(store: Store) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ReferenceLog(store).open().live.to_pylist()
    return rows


def test_a_small_append_is_one_object_and_its_rows_are_read(tmp_path: Path) -> None:
    queue = opened(tmp_path)
    for first in range(0, 180, 20):
        queue.append(table(first, 20))
    store = store_at(tmp_path)
    objects = {name for name in contents(store) if name.endswith(".commit")}
    assert {name for name in contents(store) if name.startswith("data/")} == set()
    assert {row["file"] for row in live(store)} == objects - {commit_object_name(0)}
    assert numbers(tmp_path) == [*range(180)]
    shown = queue.replay(1, include_metadata=True)
    assert [n for part in shown for n in part["_offset"].to_pylist()] == [*range(queue.ends()[1])]


def test_a_state_that_was_committed_is_the_one_that_is_opened(tmp_path: Path) -> None:
    """Places of frames are known only once the commit is encoded, with what came since."""
    queue = opened(tmp_path)
    for first in range(0, 180, 20):
        queue.append(table(first, 20))
        assert queue._state.live.equals(_with_added(ReferenceLog(store_at(tmp_path)), queue))


def _with_added(log: ReferenceLog, queue: PartitionedQueue) -> pa.Table:
    """The live segments as opened; of what a commit said at once it is not known who added it."""
    found = log.open().live
    return found.set_column(found.num_columns - 1, "added", queue._state.live["added"])


@pytest.mark.parametrize("is_over", [False, True])
def test_what_is_more_than_a_commit_may_hold_goes_into_data_objects(
    tmp_path: Path, is_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = opened(tmp_path)
    rows = table(0, 300, 200)
    queue.append(rows)
    size = sum(row["bytes"] for row in live(store_at(tmp_path)))
    writer = "cec_store.partitioned.by_reference.reference_writer.INLINE_BYTES_MAX"
    monkeypatch.setattr(writer, size - is_over)
    queue.append(rows)
    folders = Counter(row["file"].split("/")[0] for row in live(store_at(tmp_path)))
    assert folders == ({"log": 3, "data": 3} if is_over else {"log": 6})
    assert numbers(tmp_path) == sorted(2 * [*range(300)])


def test_a_commit_holds_256_kib_of_frames_at_most(tmp_path: Path) -> None:
    queue = opened(tmp_path)
    for count in (100, 1_000, 1_200, 1_400, 4_000):
        queue.append(table(0, count, 100))
    log = ReferenceLog(store_at(tmp_path))
    held = [
        (sum(row["bytes"] for row in rows), {row["file"].split("/")[0] for row in rows})
        for rows in (log.commit(number).segments.to_pylist() for number in range(1, 6))
    ]
    assert [folders == {"log"} for _, folders in held] == [
        size <= INLINE_BYTES_MAX for size, _ in held
    ]
    assert held[1][1] != held[-1][1], "both kinds are among them"


def test_writers_that_race_append_each_once(tmp_path: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    for start in range(0, 100, 20):
        first.append(table(start, 10))
        second.append(table(start + 10, 10))  # finds its number taken
    assert numbers(tmp_path) == [*range(100)]
    for state in (first._state, second._state):
        assert {row["file"] for row in state.live.to_pylist()} <= {*contents(store_at(tmp_path))}


def test_merging_brings_rows_into_data_objects_and_changes_no_offset(tmp_path: Path) -> None:
    queue = opened(tmp_path)
    for first in range(0, 400, 20):
        queue.append(table(first, 20))
    before = read_queue(tmp_path, include_metadata=True).read_all()
    reading = read_queue(tmp_path, include_metadata=True)
    assert queue.merge() == 60
    assert {row["file"].split("/")[0] for row in live(store_at(tmp_path))} == {"data"}
    assert read_queue(tmp_path, include_metadata=True).read_all().equals(before)
    assert reading.read_all().equals(before)


# -- damage -----------------------------------------------------------------------------------


def object_with_rows(store: Store, number: int) -> tuple[bytes, str]:
    queue = opened(store)
    for first in range(0, 20 * number, 20):
        queue.append(table(first, 20))
    name = commit_object_name(number)
    return store.read(name), name


@pytest.mark.parametrize("number", [3, 4])
def test_no_cut_and_no_byte_more_goes_unseen(tmp_path: Path, number: int) -> None:
    data, name = object_with_rows(store_at(tmp_path), number)
    for length in range(len(data)):
        with pytest.raises(CorruptLog, match=name):
            ReferenceObject.decode(data[:length], name, number)
    for more in (b"\0", data[-200:], data[SEGMENT_HEADER_BYTES:]):
        with pytest.raises(CorruptLog, match=name):
            ReferenceObject.decode(data + more, name, number)


def test_no_flipped_bit_goes_unseen(tmp_path: Path) -> None:
    """Of a frame of rows it shows when they are read, and the commit is good."""
    number = 4
    store = store_at(tmp_path)
    data, name = object_with_rows(store, number)
    held = Held({name: data})
    rows = ReferenceObject.decode(data, name, number).segments.to_pylist()
    inline_at = min(row["byte"] for row in rows)
    step = crash_count(7, 1)
    for at in range(0, len(data), step):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        held.objects[name] = bytes(flipped)
        if at < inline_at:
            with pytest.raises((CorruptLog, UnsupportedVersion), match=name):
                ReferenceObject.decode(bytes(flipped), name, number)
            continue
        assert ReferenceObject.decode(bytes(flipped), name, number).segments.to_pylist() == rows
        (hit,) = (row for row in rows if row["byte"] <= at < row["byte"] + row["bytes"])
        for row in rows:
            if row is not hit:
                assert sum(part.num_rows for part in read(held, row)) == row["records"]
        # A flag in the header of a frame that no reader goes by is covered by its checksum, too.
        with pytest.raises((CorruptLog, UnsupportedVersion), match=name):
            read(held, hit)


class Held:
    """Objects in memory, to be read."""

    url = "memory://held"

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects = objects

    def read(self, name: str, byte: int = 0, size: int | None = None) -> bytes:
        return self.objects[name][byte : None if size is None else byte + size]


def read(store: Any, row: dict[str, Any]) -> list[pa.RecordBatch]:
    return [*read_segment(store.url, store.read, row, KEYED)]


@pytest.mark.parametrize("by", ["frame", "segment"])
def test_a_range_that_is_another_frames_is_refused(tmp_path: Path, by: str) -> None:
    store = store_at(tmp_path)
    data, name = object_with_rows(store, 3)
    rows = ReferenceObject.decode(data, name, 3).segments.to_pylist()
    held = Held({name: data})
    for row, other in pairwise(rows):
        moved = {**row, "byte": other["byte"]}
        if by == "segment":
            moved["bytes"] = other["bytes"]
        with pytest.raises(CorruptLog, match="another segment"):
            read(held, moved)


@pytest.mark.parametrize(
    "change",
    [
        {"byte": 1}, {"removed": True}, {"bytes": 0}, {"bytes": 2**63 - 1}, {"file": "data/x.seg"},
    ],
    ids=str,
)  # fmt: skip
def test_inline_rows_that_cannot_be_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    store = store_at(tmp_path)
    data, name = object_with_rows(store, 3)
    found = ReferenceObject.decode(data, name, 3)
    inline_at = found.segments.to_pylist()[0]["byte"]
    own = [
        {**row, "file": OWN, "byte": row["byte"] - inline_at} for row in found.segments.to_pylist()
    ]
    frames = data[inline_at:]
    sound = b"".join(replace(found, segments=segments_of(own)).encode()) + frames
    assert ReferenceObject.decode(sound, name, 3).segments.num_rows == len(own)
    wrong = replace(found, segments=segments_of([{**own[0], **change}, *own[1:]]))
    with pytest.raises(CorruptLog, match=name):
        ReferenceObject.decode(b"".join(wrong.encode()) + frames, name, 3)


def test_what_came_since_has_the_inline_rows_of_its_own_commit(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    data, name = object_with_rows(store, 4)
    found = ReferenceObject.decode(data, name, 4)
    assert found.since is not None
    own = [row for row in found.since.segments.to_pylist() if row["file"] == name]
    assert own == found.segments.to_pylist()
    others = {row["file"] for row in found.since.segments.to_pylist()} - {name}
    assert others == {commit_object_name(number) for number in (1, 2, 3)}
    stranger = segments_of([{**own[0], "file": OWN, "byte": 0}])
    wrong = replace(found, segments=segments_of([]), since=replace(found.since, segments=stranger))
    with pytest.raises(CorruptLog, match="and not with this"):
        ReferenceObject.decode(b"".join(wrong.encode()), name, 4)


# -- stores whose replies are lost ------------------------------------------------------------


@pytest.fixture(scope="module")
def proxy() -> Iterator[FaultyProxy]:
    with s3_server() as address, proxy_to(address) as made:
        yield made


QUICK = Retries(attempts=4, first_pause_s=0.01, pause_s_max=0.02)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("layout", ["inline", "objects"])
def test_a_commit_whose_reply_is_lost_counts_once(
    proxy: FaultyProxy, fault: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second request that makes a commit meets the fault."""
    if layout == "objects":
        put_into_objects(monkeypatch)
    url = f"s3://{BUCKET}/{secrets.token_hex(8)}"
    options = options_of(proxy.address, read_timeout=0.5)
    queue = opened(store_at(url, options, retries=QUICK))
    chance = random.Random(fault)
    hit = 0

    def decide(number: int, request: Request) -> str:
        nonlocal hit
        is_commit = request.kind == "put" and request.path.endswith(".commit")
        if is_commit and chance.random() < 0.5:
            hit += 1
            return fault
        return ""

    proxy.decide = decide
    acknowledged, tried = [], []
    try:
        for first in range(0, 60, 10):
            tried += [*range(first, first + 10)]
            try:
                queue.append(table(first, 10))
                acknowledged += [*range(first, first + 10)]
            except CecError:
                queue = opened(store_at(url, options, retries=QUICK))
    finally:
        proxy.decide = lambda number, request: ""
    found = numbers(url, storage_options=options)
    assert hit
    assert len(found) == len({*found}), "no row is there twice"
    assert {*acknowledged} <= {*found} <= {*tried}


def test_a_group_commit_is_one_put(proxy: FaultyProxy) -> None:
    url = f"s3://{BUCKET}/{secrets.token_hex(8)}"
    queue = opened(store_at(url, options_of(proxy.address)), partitions=1)
    queue.append(table(0, 20))
    proxy.requests.clear()
    for first in range(20, 340, 20):
        queue.append(table(first, 20))
    kinds = Counter(request.kind for request in proxy.requests)
    assert kinds == {"put": 16, "get": 16}  # the commit before is proven
    assert np.array_equal(numbers(url, storage_options=options_of(proxy.address)), range(340))


def test_a_copy_of_a_queue_has_its_rows(tmp_path: Path) -> None:
    queue = opened(tmp_path / "q")
    for first in range(0, 100, 20):
        queue.append(table(first, 20))
    source, target = store_at(tmp_path / "q"), store_at(tmp_path / "copy")
    for name, data in contents(source).items():
        target.create(name, [data])
    assert numbers(tmp_path / "copy") == [*range(100)]
    with open_queue(tmp_path / "copy", "a", partitions=3) as copy:
        copy.append(table(100, 20))
    assert numbers(tmp_path / "copy") == [*range(120)]
