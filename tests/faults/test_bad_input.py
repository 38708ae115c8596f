"""What must be refused: by a typed error that names the file, with the disk left as it was."""

from __future__ import annotations

import os
import random
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import zstandard

from cec_store.errors import (
    CecError,
    CorruptLog,
    DiskFull,
    NotAQueue,
    QueueLocked,
    ReadOnly,
    SchemaMismatch,
    StorageError,
    UnsupportedVersion,
)
from cec_store.format.bodies import encode_body
from cec_store.format.checksum import crc32c
from cec_store.format.durable_end import NOTE_BYTES
from cec_store.format.frame import FRAME_HEADER_BYTES, FrameType
from cec_store.format.schema import RecordSchema
from cec_store.log.chain import Chain
from cec_store.log.creating import create
from cec_store.log.frames import FrameMarks
from cec_store.log.segment import SegmentReader
from cec_store.queues.appendable_queue import AppendableQueue
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import WRITER_LOCK, durable_name, manifest_name, segment_name
from cec_store.storage.system_errors import os_errors_of
from support.disks.memory_folder import MemoryFolder
from support.vectors import make as make_vectors
from support.vectors.make import OPERATOR_ROWS, PLAIN_ROWS, SCHEMAS, records_of

PLAIN = SCHEMAS["plain"]
OTHER = RecordSchema(pa.schema([("m", pa.string())]))


def a_queue(schema: str = "plain", frames: int = 2) -> MemoryFolder:
    """Acknowledged frames in one segment."""
    folder = MemoryFolder({})
    writer = create(folder, SCHEMAS[schema], make_vectors.clock_and_entropy())
    rows = PLAIN_ROWS if schema == "plain" else OPERATOR_ROWS
    for _ in range(frames):
        writer.append(encode_body(records_of(SCHEMAS[schema], rows), 1), FrameMarks())
        writer.sync()
    writer.close()
    return folder


def read_all(folder: MemoryFolder) -> int:
    queue = AppendableQueue(folder, "r")
    chain = queue.chain()
    return sum(chain.records(frame).num_rows for frame in chain.frames())


def open_and_close(folder: MemoryFolder) -> None:
    AppendableQueue(folder, "a", PLAIN).close()


def refused(
    folder: MemoryFolder,
    expected: type[CecError],
    *attempts: Callable[[MemoryFolder], object],
    named: str = "",
) -> str:
    """Each attempt raises the error, names the place and leaves every file as it was."""
    before = folder.snapshot()
    text = ""
    for attempt in attempts or (read_all, open_and_close):
        with pytest.raises(expected) as caught:
            attempt(folder)
        text = str(caught.value)
        assert f"{folder.path}/{named}".rstrip("/") in text
        assert folder.snapshot() == before
        assert not folder.locked
    return text


def refused_when_read(
    folder: MemoryFolder, expected: type[CecError], number: int, named: str
) -> set[str]:
    """As :func:`refused`, for what is wrong with the frame of this number of :func:`a_queue`.

    An opening for append begins where the log was noted to be durable: of what stands before that
    it reads the first frame and the last, and whoever reads the others refuses them afterwards.
    """
    texts = {refused(folder, expected, read_all, named=named)}
    if number not in BETWEEN:
        return texts | {refused(folder, expected, open_and_close, named=named)}
    wrong = bytes(folder.files[named])
    open_and_close(folder)
    assert folder.files[named] == wrong
    return texts | {refused(folder, expected, read_all, named=named)}


BETWEEN = (1,)
"""Of the frames of :func:`a_queue`, SCHEMA, BATCH, BATCH, those that no opening reads: the second
BATCH ends where the note says."""


# -- no queue ---------------------------------------------------------------------------------


def test_nothing_there() -> None:
    refused(MemoryFolder(), NotAQueue, read_all, lambda f: AppendableQueue(f, "a"))
    refused(MemoryFolder({}), NotAQueue, read_all, lambda f: AppendableQueue(f, "a"))


@pytest.mark.parametrize("name", ["data.csv", "index", "x.torn", "0.seg", "manifest", "a.tmp"])
def test_a_folder_of_something_else(name: str) -> None:
    folder = MemoryFolder({name: b"not ours"})
    assert name in refused(folder, NotAQueue, open_and_close)
    refused(folder, NotAQueue, read_all)


def test_a_manifest_that_is_none() -> None:
    for data in (b"", b"hello", b"x" * 64, bytes(64), b"\x7fELF" + bytes(1000)):
        folder = MemoryFolder({manifest_name(0): data})
        refused(folder, NotAQueue, named=manifest_name(0))


def test_segments_without_their_manifest() -> None:
    for damage in (None, 40, 130, 300, 520):
        folder = a_queue()
        del folder.files[manifest_name(0)]
        if damage is not None:
            folder.files[segment_name(0)][damage] ^= 1
        text = refused(folder, CorruptLog, open_and_close)
        assert segment_name(0) in text or durable_name(0) in text
        refused(folder, NotAQueue, read_all)


def test_later_segments_without_their_manifest_keep_the_first() -> None:
    folder = MemoryFolder({})
    for value in (None, 1):
        with AppendableQueue(folder, "a", PLAIN) as queue:
            if value is not None:
                queue.append(pa.record_batch({"n": pa.array([value])}))
    del folder.files[manifest_name(1)]
    refused(folder, CorruptLog, open_and_close)


def test_a_creation_that_died_is_begun_again() -> None:
    """At any byte of the first segment: nothing of it was ever acknowledged."""
    whole = MemoryFolder({})
    create(whole, PLAIN, make_vectors.clock_and_entropy())
    data = bytes(whole.files[segment_name(0)])
    for size in [*range(0, len(data), 37), len(data)]:
        for rest in (b"", bytes(len(data) - size)):
            folder = MemoryFolder({segment_name(0): data[:size] + rest})
            with AppendableQueue(folder, "a", PLAIN) as queue:
                queue.append(pa.record_batch({"n": pa.array([1])}))
            assert read_all(folder) == 1


# -- a later format ---------------------------------------------------------------------------


def put(folder: MemoryFolder, name: str, at: int, value: bytes, start: int, stop: int) -> None:
    """Change bytes and make the checksum at the end of [start, stop) right again."""
    data = folder.files[name]
    data[at : at + len(value)] = value
    data[stop - 4 : stop] = crc32c(bytes(data[start : stop - 4])).to_bytes(4, "little")


def test_a_later_manifest() -> None:
    folder = a_queue()
    put(folder, manifest_name(0), 8, b"\4\0", 0, 64)
    assert "version 4" in refused(folder, UnsupportedVersion, named=manifest_name(0))
    folder.files[manifest_name(0)] += bytes(64)
    assert "upgrade" in refused(folder, UnsupportedVersion, named=manifest_name(0))


def test_a_later_segment() -> None:
    folder = a_queue()
    put(folder, segment_name(0), 8, b"\7\0", 0, 128)
    assert "version 7" in refused(folder, UnsupportedVersion, named=segment_name(0))


@pytest.mark.parametrize(("at", "value"), [(4, b"\x0a"), (5, b"\x04"), (6, b"\x00\x01")])
def test_a_later_frame(at: int, value: bytes) -> None:
    for number in range(3):
        folder = a_queue()
        byte, _ = frames_of(folder)[number]
        put(folder, segment_name(0), byte + at, value, byte, byte + 128)
        texts = refused_when_read(folder, UnsupportedVersion, number, segment_name(0))
        assert all(f"byte {byte}" in text for text in texts) or number == 0


# -- the wrong schema, the second writer ------------------------------------------------------


def test_another_schema() -> None:
    for mode in "ar":
        refused(a_queue(), SchemaMismatch, lambda f, mode=mode: AppendableQueue(f, mode, OTHER))


def test_a_batch_of_another_schema() -> None:
    folder = a_queue()
    with AppendableQueue(folder, "a") as queue:
        before = folder.snapshot()
        for bad in (
            pa.record_batch({"m": ["x"]}),
            pa.record_batch({"n": ["x"]}),
            pa.record_batch({"n": pa.array(["x"]).dictionary_encode()}),
        ):
            with pytest.raises(SchemaMismatch):
                queue.append(bad)
        for stamps in (pa.array(["2013"]), pa.array([1.5]), pa.array([None], pa.int64())):
            with pytest.raises(SchemaMismatch, match="timestamps"):
                queue.append(pa.record_batch({"n": pa.array([1])}), stamps)
        assert folder.snapshot() == before
    assert read_all(folder) == 6


def test_a_second_writer() -> None:
    folder = a_queue()
    with AppendableQueue(folder, "a"):
        before = folder.snapshot()
        with pytest.raises(QueueLocked, match="/memory"):
            AppendableQueue(folder, "a")
        assert folder.snapshot() == before


# -- damage in the middle ---------------------------------------------------------------------


def frames_of(folder: MemoryFolder) -> list[tuple[int, object]]:
    reader = SegmentReader(folder, 0)
    return list(reader.frames(stop=reader.size()))


def test_damage_in_the_middle() -> None:
    for number in range(3):
        for inside in (0, 60, 126):
            folder = a_queue()
            byte, _ = frames_of(folder)[number]
            folder.files[segment_name(0)][byte + inside] ^= 1
            texts = refused_when_read(folder, CorruptLog, number, segment_name(0))
            assert all(f"byte {byte}" in text for text in texts)
            assert all(re.search("restore (the file|it) from a copy", text) for text in texts)


# -- a disk that refuses ----------------------------------------------------------------------


class Refusing:
    """From the ``count``-th call that changes something on, all of them fail."""

    CHANGES = ("make", "create", "write", "sync", "truncate", "rename", "unlink", "sync_names")

    def __init__(self, folder: MemoryFolder, number: int, count: int) -> None:
        self.folder, self._number, self._left = folder, number, count
        folder.before = self._before

    def _before(self, call: str, name: str) -> None:
        if call in self.CHANGES:
            self._left -= 1
            if self._left < 0:
                with os_errors_of(f"{self.folder.path}/{name}"):
                    raise OSError(self._number, os.strerror(self._number))


@pytest.mark.parametrize(
    ("number", "expected"), [(13, ReadOnly), (30, ReadOnly), (28, DiskFull), (5, StorageError)]
)
def test_a_disk_that_refuses_at_any_call(number: int, expected: type[CecError]) -> None:
    """Opening, appending, rolling, trimming: an error of the store, and nothing acked is lost."""
    calls = 0
    first: CecError | None = None
    for calls in range(200):
        folder = a_queue()
        Refusing(folder, number, calls)
        acked = 0
        try:
            with AppendableQueue(folder, "a") as queue:
                for _ in range(2):
                    queue.append(pa.record_batch({"n": pa.array([1])}), sync=True)
                    acked += 1
                    queue.roll()
                queue.trim(3)
        except StorageError as error:
            text = f"{error}"
            first = first or error
        else:
            break
        assert "/memory" in text
        folder.before = lambda call, name: None
        assert not folder.locked
        with AppendableQueue(folder, "a") as queue:
            assert queue.durable_offset >= 6 + acked
            assert queue.durable_offset <= 6 + 2
    assert 30 < calls < 199
    assert type(first) is expected


def test_a_read_only_folder_changes_nothing_and_can_be_read() -> None:
    folder = a_queue()
    Refusing(folder, 13, 0)
    before = folder.snapshot()
    with pytest.raises(ReadOnly, match="cannot be written"):
        AppendableQueue(folder, "a")
    assert folder.snapshot() == before
    assert read_all(folder) == 6


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_real_read_only_folder(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path / "queue")
    AppendableQueue(folder, "a", PLAIN).close()
    (tmp_path / "queue" / WRITER_LOCK).unlink()
    os.chmod(tmp_path / "queue", 0o500)
    try:
        with pytest.raises(ReadOnly, match="cannot be written"):
            AppendableQueue(folder, "a")
        assert AppendableQueue(folder, "r").durable_offset == 0
    finally:
        os.chmod(tmp_path / "queue", 0o700)


def test_a_symbolic_link_for_a_segment(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path / "queue")
    with AppendableQueue(folder, "a", PLAIN) as queue:
        queue.append(pa.record_batch({"n": pa.array([1])}))
    path = tmp_path / "queue" / segment_name(0)
    os.rename(path, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", path)
    for mode in "ra":
        with pytest.raises(StorageError, match=segment_name(0)):
            AppendableQueue(folder, mode)
    assert path.is_symlink()


# -- hostile bytes with right checksums -------------------------------------------------------


def forge(folder: MemoryFolder, number: int, body: bytes | None = None, **fields: int) -> int:
    """Rewrite a frame of the first segment as a liar would; returns its byte."""
    name = segment_name(0)
    byte, header = frames_of(folder)[number]
    data = folder.files[name]
    end = byte + header.frame_bytes
    stored = bytes(data[byte + 128 : end]) if body is None else body
    header = header._replace(body_bytes=len(stored), body_crc=crc32c(stored))._replace(**fields)
    packed = struct.pack("<IBBHIIQQQQQQQqqQQIIIIII", *header)
    packed = packed[:-4] + crc32c(packed[:-4]).to_bytes(4, "little")
    data[byte:end] = packed + stored
    return byte


LAST = 2  # the second BATCH


@pytest.mark.parametrize(
    "fields",
    [
        {"body_bytes": 2**32 - 1}, {"body_bytes": 64 << 20}, {"body_bytes": 1 << 20},
        {"body_bytes": 0}, {"raw_bytes": 2**32 - 1}, {"raw_bytes": 256 << 20}, {"raw_bytes": 0},
        {"raw_bytes": 65_536}, {"record_count": 0}, {"record_count": 2**32 - 1}, {"codec": 0},
        {"schema_byte": 0}, {"schema_byte": 2**63}, {"schema_byte": 2**64 - 1}, {"body_crc": 0},
    ],
    ids=str,
)  # fmt: skip
def test_lengths_and_places_that_lie(fields: dict[str, int]) -> None:
    folder = a_queue()
    byte = forge(folder, LAST, **fields)
    text = refused(folder, CorruptLog, read_all, named=segment_name(0))
    assert f"byte {byte}:" in text
    # Without a note of the durable end that frame is one of many: a body that says it is shorter
    # leaves its rest where the next frame should be.
    folder = a_queue(frames=3)
    folder.files[durable_name(0)] = bytes(NOTE_BYTES)
    byte = forge(folder, LAST, **fields)
    text = refused(folder, CorruptLog, read_all, named=segment_name(0))
    at = byte + FRAME_HEADER_BYTES * (fields == {"body_bytes": 0})
    assert f"byte {at}:" in text


@pytest.mark.parametrize("field", ["prev_segment", "prev_byte"])
@pytest.mark.parametrize("value", [1, 2**31, 2**63 - 1, 2**63, 2**64 - 2])
def test_a_previous_frame_that_lies(field: str, value: int) -> None:
    folder = a_queue()
    forge(folder, LAST, **{field: value})

    def walk(folder: MemoryFolder) -> None:
        chain = Chain(folder)
        frame = chain.last()
        while frame is not None:
            frame = chain.before(frame)

    refused(folder, CorruptLog, walk)


def test_a_vouching_mark_that_lies() -> None:
    """What it claims beyond the file was acknowledged, as far as anyone can tell."""
    notes = [a_queue(frames=count).files[durable_name(0)] for count in (1, 2)]
    for value, note in product((2**31, 2**63, 2**64 - 1), (*notes, None)):
        folder = a_queue()
        forge(folder, LAST, durable_upto=value)
        folder.files[durable_name(0)] = bytes(NOTE_BYTES)
        if note is not None:
            folder.files[durable_name(0)] = note
        refused(folder, CorruptLog, named=segment_name(0))


def test_a_bomb_is_refused_before_it_goes_off() -> None:
    zeros = zstandard.ZstdCompressor().compress(bytes(200 << 20))
    for raw_bytes in (200 << 20, len(zeros) * 200):
        folder = a_queue(frames=3)
        folder.files[durable_name(0)] = bytes(NOTE_BYTES)
        end = frames_of(folder)[LAST][0] + FRAME_HEADER_BYTES + len(zeros)
        forge(folder, LAST + 1, durable_upto=end)  # shows the frame before it to readers
        byte = forge(folder, LAST, zeros, raw_bytes=raw_bytes)
        assert f"byte {byte}:" in refused(folder, CorruptLog, read_all)


def test_a_schema_that_lies() -> None:
    lies = [b"", b"\0" * 200, pa.schema([("n", pa.int64())]).serialize().to_pybytes()]
    strings = SCHEMAS["timed"].encode()
    for body in [*lies, strings]:
        folder = a_queue()
        forge(folder, 0, body, raw_bytes=len(body))
        refused(folder, CorruptLog, read_all, named=segment_name(0))


HOSTILE_BODIES = """
import random, resource
import pyarrow as pa
from support.vectors.make import OPERATOR_ROWS, PLAIN_ROWS, SCHEMAS, records_of
from cec_store.format.frame import BadHeader
from cec_store.format.bodies import decode_body
from cec_store.format.schema import RecordSchema
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
generator = random.Random({seed})
sound = refused = 0
for name, rows in (("operator", OPERATOR_ROWS), ("plain", PLAIN_ROWS)):
    schema = SCHEMAS[name]
    raw = bytes(records_of(schema, rows).serialize())
    for turn in range({turns}):
        data = bytearray(raw)
        for _ in range(generator.choice([1, 1, 2, 8])):
            at = generator.randrange(len(data))
            data[at : at + 4] = generator.choice([
                bytes([data[at] ^ 1 << generator.randrange(8)]) + data[at + 1 : at + 4],
                generator.randbytes(4), b"\\xff\\xff\\xff\\x7f", b"\\xff" * 4, bytes(4),
            ])[: len(data) - at]
        try:
            records = decode_body(pa.py_buffer(bytes(data)), 0, len(data), schema, len(rows))
            records.to_pylist() if name == "operator" else records.column(2).to_pylist()
            sound += 1
        except BadHeader:
            refused += 1
        except UnicodeDecodeError:  # the bytes of a string may be any
            sound += 1
        except (OverflowError, ValueError) as error:
            if "out of range" not in str(error):  # a timestamp that the calendar does not reach
                raise
            sound += 1
    body = schema.encode()
    for turn in range({turns} // 4):
        data = bytearray(body)
        for _ in range(generator.choice([1, 2])):
            data[generator.randrange(len(data))] = generator.randrange(256)
        try:
            RecordSchema.decode(bytes(data))
        except BadHeader:
            refused += 1
print(sound, refused)
"""


@pytest.mark.crash
def test_hostile_arrow_bytes_never_take_the_process_down(
    crash_count: Callable[[int, int], int],
) -> None:
    """In a child with little memory: whatever the bytes, records or a refusal, and no crash."""
    turns = crash_count(4_000, 200_000)
    code = HOSTILE_BODIES.format(seed=19, turns=turns)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=3_000, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    sound, refusals = map(int, done.stdout.split())
    assert min(sound, refusals) > turns // 20


@pytest.mark.crash
def test_random_headers_with_right_checksums_are_never_a_foreign_error() -> None:
    """Every field of every frame at its edges: read in full, refused by name, or confined."""
    edges = [0, 1, 127, 128, 129, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1]
    limits = {"B": 2**8, "H": 2**16, "I": 2**32, "Q": 2**64, "q": 2**63}
    names = frames_of(a_queue())[0][1]._fields
    layout = dict(zip(names, "IBBHIIQQQQQQQqqQQIIIIII", strict=True))
    outcomes = {"read": 0, "refused": 0}
    for number in range(3):
        for field, kind in layout.items():
            for edge in edges:
                if field in ("magic", "header_crc") or edge >= limits[kind]:
                    continue
                folder = a_queue_again()
                forge(folder, number, **{field: edge})
                before = folder.snapshot()
                for attempt in (read_all, open_and_close, read_all):
                    try:
                        attempt(folder)
                        outcomes["read"] += 1
                    except (CorruptLog, UnsupportedVersion):
                        outcomes["refused"] += 1
                        if attempt is open_and_close:
                            assert folder.snapshot() == before
    assert min(outcomes.values()) > 300


_QUEUE = a_queue()


def a_queue_again() -> MemoryFolder:
    return _QUEUE.copy()


def test_the_forger_forges() -> None:
    folder = a_queue()
    before = folder.snapshot()
    forge(folder, LAST)
    assert folder.snapshot() == before
    byte, header = frames_of(folder)[LAST]
    assert header.type == FrameType.BATCH
    assert byte > FRAME_HEADER_BYTES
    forge(folder, LAST, input_upto=5)
    assert frames_of(folder)[LAST][1].input_upto == 5
    assert read_all(folder) == 6


# -- limits -----------------------------------------------------------------------------------


def test_the_last_epoch_is_refused_by_name() -> None:
    folder = a_queue()
    data = folder.files.pop(manifest_name(0))
    data[12:16] = b"\xff" * 4
    folder.files[manifest_name(2**32 - 1)] = data
    put(folder, manifest_name(2**32 - 1), 12, b"\xff" * 4, 0, 64)
    refused(folder, StorageError, open_and_close)
    assert read_all(folder) == 6


def test_random_files_are_never_a_foreign_error() -> None:
    generator = random.Random(8)
    outcomes = 0
    for _ in range(300):
        folder = a_queue_again()
        name = generator.choice([segment_name(0), manifest_name(0)])
        size = generator.choice([0, 1, 63, 64, 65, 127, 128, 129, 300, 1_000])
        folder.files[name] = bytearray(np.random.default_rng(size).bytes(size))
        if generator.random() < 0.5:
            start = a_queue_again().files[name][: generator.choice([8, 12, 64])]
            folder.files[name][: len(start)] = start
        if folder.files != _QUEUE.files:
            refused(folder, StorageError)
            outcomes += 1
    assert outcomes > 250
