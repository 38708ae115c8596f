"""On both sides of every limit of the format: right, or refused by a typed error."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cec_store import Position, open_queue
from cec_store.errors import FrameTooLarge, OutOfRange
from cec_store.format.bodies import RECORDS_BYTES_MAX, Body, check_body_size, cut_to_frames
from cec_store.format.frame import Codec
from cec_store.format.manifest import Manifest
from cec_store.format.records import data_records, to_timestamps
from cec_store.format.schema import RecordSchema
from cec_store.indexes.timestamp import TimestampIndex
from cec_store.inspector.verifying.log import verify
from cec_store.log.chain import Chain
from cec_store.log.creating import create
from cec_store.log.frames import FrameMarks
from cec_store.log.reopening import reopen
from cec_store.log.writer import Cursor, LogWriter, Predecessor
from cec_store.storage.folder import AppendFile
from cec_store.storage.local import LocalFolder
from support.crashes.crash_states import clock_and_entropy
from support.runs.suites import Tally

pytestmark = pytest.mark.crash

X = RecordSchema(pa.schema([("x", pa.int64())]))
LIMITS = {"2^31": 2**31, "2^32": 2**32, "2^53": 2**53, "2^62": 2**62}
END = 2**63 - 1
"""The last number that a boundary may be."""


def queue_from(path: Path, seq: int = 0, offset: int = 0, segment_id: int = 0) -> Path:
    """A new queue, the first of whose frames, records or segments has that number."""
    folder, around = LocalFolder(path), clock_and_entropy("sizes")
    folder.make()
    manifest = Manifest(0, around.entropy(16), segment_id, segment_id)
    writer = LogWriter(folder, manifest, X, Cursor(seq, offset), around)
    writer.begin_segment(Predecessor(), segment_id)
    writer.publish_segment()
    writer.close()
    return path


def batch(values: Sequence[int]) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.array(values, pa.int64())})


def rows_of(replay: object) -> list[int]:
    return [x for part in replay for x in part["x"].to_pylist()]  # type: ignore[attr-defined]


@pytest.mark.parametrize("what", ["seq", "offset", "segment_id"])
@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)
def test_numbers_run_on_through_a_limit(
    limit: int, what: str, tmp_path: Path, tally: Tally
) -> None:
    path = queue_from(tmp_path / "queue", **{what: limit - 3})
    first_seq = limit - 3 if what == "seq" else 0
    first = limit - 3 if what == "offset" else 0
    for lap in range(2):
        with open_queue(path, "a") as queue:
            for number in range(3):
                seq = queue.append(batch([2 * (3 * lap + number), 0]), pa.array([number, number]))
                assert seq == first_seq + 3 * lap + number
                queue.roll()
            with queue.consumer("reader") as consumer:
                consumer.acknowledge(received=first + 6 * lap + 5)
                assert consumer.received == first + 6 * lap + 5
    with open_queue(path) as queue:
        rows = rows_of(queue.replay())
        assert rows == [0, 0, 2, 0, 4, 0, 6, 0, 8, 0, 10, 0]
        chain = queue.chain()
        assert (chain.end.seq, chain.end.offset) == (first_seq + 6, first + 12)
        index = TimestampIndex(chain, writable=True)
        index.follow(chain)
        assert index.stored_frames == 6
        for number in range(6):
            assert rows_of(queue.replay(since=Position(first + 2 * number))) == rows[2 * number :]
            frame = index.find_offset(first + 2 * number + 1, chain)
            assert frame.header.seq == first_seq + number
            assert index.find_seq(first_seq + number, chain) == frame
        index.close()
    tally(1)


def test_the_last_numbers_can_be_used_and_no_more(tmp_path: Path, tally: Tally) -> None:
    for what, count in (("offset", 5), ("seq", 4)):
        path = queue_from(tmp_path / what, **{what: END - count})
        with open_queue(path, "a") as queue:
            for number in range(count):
                queue.append(batch([number]), sync=True)
            with pytest.raises(OutOfRange, match=r"2\^63"):
                queue.append(batch([99]))
            queue.sync()  # nothing has happened to it
        for mode in ("r", "a"):
            with open_queue(path, mode) as queue:
                assert rows_of(queue.replay()) == list(range(count))
        tally(1)


# -- a segment above 4 GiB -------------------------------------------------------------------------


class _SparseFile:
    """Leaves holes where whole pages are zeros."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY)
        self._at = 0

    def write(self, parts: Sequence[bytes]) -> None:
        for part in parts:
            data = np.frombuffer(part, "u1")
            for start in range(0, len(data), 1 << 20):
                piece = data[start : start + (1 << 20)]
                if piece.any():
                    os.pwrite(self._descriptor, piece, self._at + start)
            self._at += len(data)
        os.ftruncate(self._descriptor, self._at)

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class SparseFolder(LocalFolder):
    def create(self, name: str) -> AppendFile:
        super().create(name).close()
        return _SparseFile(self._at(name))


def test_a_segment_may_be_larger_than_a_limit(
    tmp_path: Path, crash_count: Callable[[int, int], int], tally: Tally
) -> None:
    limits = [2**31, 2**32][: crash_count(0, 2)]
    if not limits:
        pytest.skip("writing and reading 5 GiB takes a while: `make crash` does")
    folder = SparseFolder(tmp_path / "queue")
    folder.make()
    rows = (60 << 20) // 17
    writer = create(folder, X, clock_and_entropy("sparse"))
    while writer.segment_bytes < limits[-1]:
        number = writer.cursor.seq
        stamps = to_timestamps(pa.array(np.full(rows, number)))
        values = np.zeros(rows, np.int64)
        values[-1] = number
        raw = data_records(X, pa.record_batch({"x": values}), stamps).serialize().to_pybytes()
        writer.append(Body(raw, len(raw), Codec.NONE, rows, number, number), FrameMarks())
    writer.sync()
    writer.append(Body(raw, len(raw), Codec.NONE, rows, number, number), FrameMarks())  # carried
    frames, size = writer.cursor.seq, writer.segment_bytes
    writer.close()
    writer, report = reopen(folder, X, clock_and_entropy("again"))
    writer.close()
    assert report.carried_frames == 1, "beyond the limit as before it"
    chain = Chain(folder)
    assert chain.end.offset == frames * rows
    index = TimestampIndex(chain, writable=True)
    index.follow(chain)
    for limit in limits:
        around = [limit // (size // frames) + n for n in (-1, 0, 1)]
        for number in around:
            number = min(number, frames - 2)
            frame = index.find_timestamp(number, chain)
            assert frame is not None
            assert frame.header.seq == number
            assert index.find_offset(number * rows, chain) == frame
            values = chain.records(frame, backward=number % 2 == 1)["x"]
            assert values[-1].as_py() == number
        tally(1)
    index.close()


# -- what Arrow hands over -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "offsets", "size"),
    [
        (pa.string(), "i4", 2**31 - 1), (pa.binary(), "i4", 2**31 - 1),
        (pa.large_string(), "i8", 2**31 + 7), (pa.large_binary(), "i8", 2**32 + 7),
    ],
    ids=str,
)  # fmt: skip
def test_strings_at_the_end_of_two_gibibytes(
    kind: pa.DataType, offsets: str, size: int, tmp_path: Path, tally: Tally
) -> None:
    """A slice whose offsets are near the limit is as good as any; all of it is too much."""
    data = pa.py_buffer(np.zeros(size, "u1"))  # never touched, so it takes no memory
    ends = np.array([0, size - 9, size - 4, size], offsets)
    column = pa.Array.from_buffers(kind, 3, [None, pa.py_buffer(ends), data])
    whole = pa.record_batch({"text": column})
    with open_queue(tmp_path / "queue", "a", schema=whole.schema) as queue:
        with pytest.raises(FrameTooLarge, match="keep such a value elsewhere"):
            queue.append(whole)
        queue.append(whole.slice(1), sync=True)
        (found,) = list(queue.replay())
        assert [len(text) for text in found["text"].to_pylist()] == [5, 4]
    tally(2)


def test_the_largest_frame_of_two_records_can_be_written_and_one_byte_more_not(
    tmp_path: Path, tally: Tally
) -> None:
    noise = np.random.default_rng(7).bytes(RECORDS_BYTES_MAX)
    schema = pa.schema([("noise", pa.binary())])

    def sized(count: int) -> pa.RecordBatch:
        return pa.record_batch({"noise": [noise[:count], b""]}, schema)

    records = RecordSchema(schema)
    stamps = to_timestamps(pa.array([0, 0]))
    overhead = pa.ipc.get_record_batch_size(data_records(records, sized(8), stamps)) - 8
    most = (RECORDS_BYTES_MAX - overhead) // 8 * 8
    with open_queue(tmp_path / "queue", "a", schema=schema) as queue:
        queue.append(sized(most), sync=True)
        with pytest.raises(FrameTooLarge):
            queue.append_records(data_records(records, sized(most + 1), stamps))
        (found,) = list(queue.replay())
        assert found["noise"][0].as_py() == noise[:most]
    tally(2)


@pytest.mark.parametrize("size", [70 << 20, 300 << 20])
def test_a_row_above_the_limit_of_many_is_a_frame_of_its_own(
    size: int, tmp_path: Path, tally: Tally
) -> None:
    """Above 64 MiB as stored, and above 256 MiB decompressed."""
    block = np.random.default_rng(9).bytes(1 << 20)
    value = block * (size >> 20)
    schema = pa.schema([("n", pa.int64()), ("value", pa.binary())])
    whole = pa.record_batch([[1, 2, 3], [b"before", value, b"after"]], schema)
    with open_queue(tmp_path / "queue", "a", schema=schema) as queue:
        assert queue.append(whole) == 2, "the number of the last of three frames"
    with open_queue(tmp_path / "queue", "a") as queue:
        found = pa.Table.from_batches(queue.replay())
        assert found.column("n").to_pylist() == [1, 2, 3]
        assert found.column("value")[1].as_py() == value
        assert queue.chain().find_offset(1).header.raw_bytes > size
    assert verify(LocalFolder(tmp_path / "queue")).is_sound
    tally(1)


def test_a_row_beyond_every_limit_is_refused_with_its_key_and_column(tally: Tally) -> None:
    """The bytes are never touched, so they take no memory."""
    size = 2**31 + 2**17
    data = pa.py_buffer(np.zeros(size, "u1"))
    ends = np.array([0, size - 2**17, size], "i8")
    text = pa.Array.from_buffers(pa.large_binary(), 2, [None, pa.py_buffer(ends), data])
    keys = pa.StructArray.from_arrays([pa.array(["red", "blue"])], ["colour"])
    records = pa.record_batch({"_key": keys, "n": pa.array([1, 2]), "text": text})
    with pytest.raises(FrameTooLarge) as caught:
        list(map(check_body_size, cut_to_frames(records, 1 << 20)))
    said = str(caught.value)
    assert "column 'text'" in said
    assert "{'colour': 'red'}" in said
    assert "keep such a value elsewhere" in said
    assert check_body_size(records.slice(1)) > 2**17
    tally(1)
