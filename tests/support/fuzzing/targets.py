"""Everything that reads bytes which somebody else may have written, as functions of bytes.

A target returns, or raises one of the errors that its reader promises; anything else is a finding.
Each has a way to make changed bytes plausible again (`mend`), so that most of them get beyond the
checksums.
"""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import zstandard

from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.connectors.spark.checkpoint.state_schema import read_state_schema
from cec_store.connectors.spark.checkpoint.unsafe_rows import BadRow, decode_rows
from cec_store.errors import (
    CorruptLog,
    NotAQueue,
    OutOfRange,
    SchemaMismatch,
    SparkUnavailable,
    StorageError,
    UnsupportedVersion,
)
from cec_store.format.acknowledgement import Acknowledgement
from cec_store.format.bodies import decode_body
from cec_store.format.by_reference.commit_body import CommitBody
from cec_store.format.by_reference.commits import ReferenceObject
from cec_store.format.checksum import crc32c
from cec_store.format.frame import (
    BadHeader,
    Codec,
    FrameType,
    decode_frame_header,
    raw_bytes_max,
)
from cec_store.format.manifest import Manifest
from cec_store.format.schema import STATE_SCHEMA, RecordSchema
from cec_store.indexes.entries import BadIndex, Coverage, FrameEntry, TimestampEntry
from cec_store.indexes.files import Stamp
from cec_store.log.chain import Chain
from cec_store.log.reopening import reopen
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import manifest_name, segment_name
from support.disks.memory_folder import MemoryFolder
from support.fuzzing import variables
from support.models import unsafe_row_encoder
from support.places.made_checkpoints import schema_file
from support.vectors import make as make_vectors
from support.vectors.column_bodies import columns_body
from support.vectors.commits import OBJECTS, object_of
from support.vectors.make import CARRIERS, OPERATOR_ROWS, PLAIN_ROWS, SCHEMAS, records_of

FRAME = struct.Struct("<IBBHIIQQQQQQQqqQQIIIIII")
LOUD = (CorruptLog, UnsupportedVersion, NotAQueue)
ROW = pa.struct(
    [("a", pa.int64()), ("b", pa.string()), ("c", pa.list_(pa.field("element", pa.int32()))),
     ("d", pa.map_(pa.int64(), pa.string())), ("e", pa.decimal128(38, 4)),
     ("f", pa.struct([("g", pa.binary())]))]
)  # fmt: skip


def as_they_are(data: bytes) -> bytes:
    return data


@dataclass(frozen=True)
class Target:
    read: Callable[[bytes], object]
    expected: tuple[type[BaseException], ...]
    seeds: Callable[[], list[bytes]]
    mend: Callable[[bytes], bytes] = as_they_are

    def __call__(self, data: bytes) -> bool:
        """Whether it was taken for sound."""
        try:
            self.read(data)
        except self.expected:
            return False
        return True


def sealed(size: int) -> Callable[[bytes], bytes]:
    """The last four bytes of so many become the checksum of those before."""

    def mend(data: bytes) -> bytes:
        return data if len(data) != size else data[:-4] + crc32c(data[:-4]).to_bytes(4, "little")

    return mend


# -- segments --------------------------------------------------------------------------------------


def segment_seeds() -> list[bytes]:
    return [d for n, d in sorted(make_vectors.queue_files().items()) if n.endswith(".seg")]


def mend_segment(data: bytes) -> bytes:
    """Checksums of the segment header and of each frame that can be found, with the right salt."""
    if len(data) < 128:
        return data
    made = bytearray(data[:124] + crc32c(data[:124]).to_bytes(4, "little") + data[128:])
    at = 128
    while at + 128 <= len(made):
        fields = list(FRAME.unpack_from(made, at))
        fields[0], fields[12] = int.from_bytes(b"CECF", "little"), _salt(made)
        body = bytes(made[at + 128 : at + 128 + fields[-4]])
        fields[-2] = crc32c(body)
        header = FRAME.pack(*fields)[:-4]
        made[at : at + 128] = header + crc32c(header).to_bytes(4, "little")
        at += 128 + fields[-4]
    return bytes(made)


def _salt(segment: bytes | bytearray) -> int:
    return int.from_bytes(segment[40:48], "little")


def read_segment(data: bytes) -> None:
    """As the only segment of a queue: forward, backward, and then for append."""
    segment_id = int.from_bytes(data[32:40], "little") if len(data) >= 40 else 0
    if segment_id >= 2**63:
        raise CorruptLog("", 0, "no such number")
    name = segment_name(segment_id)
    manifest = Manifest(0, bytes(data[16:32]), segment_id, segment_id)
    if len(manifest.log_id) < 16:
        manifest = Manifest(0, bytes(16), segment_id, segment_id)
    folder = MemoryFolder({manifest_name(0): manifest.encode(), name: data})
    with suppress(*LOUD):
        chain = Chain(folder)
        for frame in chain.frames():
            chain.records(frame)
        with suppress(OutOfRange):  # it may go on in a segment that is not here
            frame = chain.last()
            while frame is not None:
                frame = chain.before(frame)
    before = folder.snapshot()
    try:
        writer, _ = reopen(folder, None, make_vectors.clock_and_entropy())
    except LOUD:
        assert folder.snapshot() == before, "refused, and yet changed"
        raise
    writer.close()
    chain = Chain(folder)  # a writer that has opened it leaves what a reader can read
    for frame in chain.frames():
        with suppress(CorruptLog):  # the records may lie: nobody has looked into a body yet
            chain.records(frame)


# -- bodies ----------------------------------------------------------------------------------------

BODY_SCHEMAS = (SCHEMAS["plain"], SCHEMAS["operator"], STATE_SCHEMA)


def body_seeds() -> list[bytes]:
    """Which schema, which codec, how many records, and the body."""
    plain = bytes(records_of(SCHEMAS["plain"], PLAIN_ROWS).serialize())
    operator_rows = records_of(SCHEMAS["operator"], OPERATOR_ROWS)
    operator = bytes(operator_rows.serialize())
    stored = zstandard.ZstdCompressor(level=1).compress(operator)
    empty = bytes(pa.RecordBatch.from_pylist([], STATE_SCHEMA.arrow).serialize())
    return [
        bytes([0, Codec.NONE, len(PLAIN_ROWS)]) + plain,
        bytes([1, Codec.NONE, len(OPERATOR_ROWS)]) + operator,
        bytes([1, Codec.ZSTD, len(OPERATOR_ROWS)]) + stored,
        bytes([2, Codec.NONE, 0]) + empty,
        bytes([1, Codec.COLUMNS, len(OPERATOR_ROWS)]) + columns_body(operator_rows, CARRIERS),
        bytes([1, Codec.COLUMNS, len(OPERATOR_ROWS)]) + columns_body(operator_rows, CARRIERS, True),
        bytes([0, Codec.COLUMNS, len(PLAIN_ROWS)])
        + columns_body(records_of(SCHEMAS["plain"], PLAIN_ROWS), {}),
    ]


def read_body(data: bytes) -> None:
    which, codec, count = (data + bytes(3))[:3]
    body = data[3:]
    raw_bytes = len(body)
    codec %= len(Codec)
    schema = BODY_SCHEMAS[which % 3]
    if codec == Codec.COLUMNS:
        raw_bytes = raw_bytes_max(len(body))
        whole = decode_body(pa.py_buffer(body), codec, raw_bytes, schema, count)
        for name in schema.arrow.names:
            part = decode_body(pa.py_buffer(body), codec, raw_bytes, schema, count, [name])
            same = part.serialize().equals(whole.select([name]).serialize())  # as nan is not nan
            assert same, "a column apart is another"
        return
    if codec != Codec.NONE:
        # What comes is the raw message: a zstd frame that is changed hardly ever opens.
        if body[:4] != b"\x28\xb5\x2f\xfd":
            body = zstandard.ZstdCompressor(level=1).compress(body)
        with suppress(zstandard.ZstdError):
            raw_bytes = zstandard.get_frame_parameters(body).content_size
    if raw_bytes > raw_bytes_max(len(body)):
        raise BadHeader("the frame header's check")
    decode_body(pa.py_buffer(body), codec, raw_bytes, schema, count)


# -- small files -----------------------------------------------------------------------------------

LOG_ID = bytes(range(16))


def read_index_rows(data: bytes) -> None:
    for row in (FrameEntry, TimestampEntry):
        with suppress(BadIndex):
            row.decode((data[:8], data[8:]), LOG_ID)
    Coverage.decode(data, LOG_ID)


def index_row_seeds() -> list[bytes]:
    place = FrameEntry(3, 1, 560, 9, 77)
    reach = TimestampEntry(10, 3, 1, 560, 77, 2)
    rows = [b"".join(place.encode(LOG_ID)), b"".join(reach.encode(LOG_ID))]
    return [*rows, Coverage(place, 10).encode(LOG_ID)]


# -- Spark's files ---------------------------------------------------------------------------------

_PLACE = tempfile.TemporaryDirectory(
    prefix="cec-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None
)
_OPERATOR, _CHECKPOINT = Path(_PLACE.name, "state", "0"), Path(_PLACE.name, "checkpoint")


_TYPES = {
    "a": "long", "b": "string",
    "c": {"type": "array", "elementType": "integer", "containsNull": True},
    "d": {"type": "map", "keyType": "long", "valueType": "string", "valueContainsNull": True},
    "e": "decimal(38,4)", "f": {"type": "struct", "fields": [{"name": "g", "type": "binary"}]},
}  # fmt: skip
_FIELDS = [{"name": name, "type": kind, "nullable": True} for name, kind in _TYPES.items()]
ROW_TEXT = json.dumps({"type": "struct", "fields": _FIELDS})
STORE = {"storeName": "default", "numColsPrefixKey": 1, "numPartitions": 2}
OPERATOR = {"operatorId": 0, "operatorName": "stateStoreSave"}
ABOUT = b"v1\n" + json.dumps({"operatorInfo": OPERATOR, "stateStoreInfo": [STORE]}).encode()


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def read_schema_file(data: bytes) -> None:
    """The first byte says which of the two files the others are."""
    schema = schema_file(ROW_TEXT, ROW_TEXT)
    as_schema = data[:1] < b"\x80"
    _put(_OPERATOR / "_metadata" / "metadata", ABOUT if as_schema else data[1:])
    _put(_OPERATOR / "0" / "_metadata" / "schema", data[1:] if as_schema else schema)
    try:
        read_state_schema(LocalFolder(_OPERATOR), "default")
    except ValueError as error:
        if "no store" not in str(error):
            raise


def schema_file_seeds() -> list[bytes]:
    return [
        b"\0" + schema_file(ROW_TEXT, ROW_TEXT),
        b"\0" + schema_file(ROW_TEXT, ROW_TEXT, version=1),
        b"\0" + schema_file(ROW_TEXT, ROW_TEXT, piece=50),
        b"\x80" + ABOUT,
    ]


def read_checkpoint(data: bytes) -> None:
    _put(_CHECKPOINT / "metadata", b'{"id":"x"}')
    for log in ("offsets", "commits"):
        _put(_CHECKPOINT / log / "7", data)
    checkpoint = Checkpoint(_CHECKPOINT)
    with suppress(StorageError, OutOfRange):
        checkpoint.offsets(7)
    with suppress(StorageError, OutOfRange):
        checkpoint.unique_id(7, 0, 0, "default")
    _put(_CHECKPOINT / "metadata", data)
    _ = Checkpoint(_CHECKPOINT).query_id


def checkpoint_seeds() -> list[bytes]:
    return [
        b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":5,"conf":{"a":"b"}}\n{"logOffset":3}\n-',
        b'v2\n{"batchTimestampMs":5,"stateUniqueIds":{"0":[["u"]]}}\n0:{"logOffset":3}',
        b'{"id":"46ec949f-30e1-46fd-a299-3291543c1296"}',
    ]


def read_rows(data: bytes) -> None:
    """One byte for the columns of a prefix, then rows, each behind two bytes of its size."""
    rows: list[bytes] = []
    at = 1
    while at + 2 <= len(data):
        size = int.from_bytes(data[at : at + 2], "little")
        rows.append(data[at + 2 : at + 2 + size])
        at += 2 + size
    decode_rows(pa.chunked_array([pa.array(rows, pa.binary())]), ROW, (data[0] % 4 if data else 0))


def row_seeds() -> list[bytes]:
    values = [
        {"a": 1, "b": "text of some length", "c": [1, None, 3], "d": [(1, "x"), (2, "y")],
         "e": None, "f": {"g": b"bytes"}},
        {"a": None, "b": None, "c": [], "d": [], "e": None, "f": None},
    ]  # fmt: skip
    seeds = []
    for prefix in (0, 2):
        rows = [unsafe_row_encoder.key(ROW, value, prefix) for value in values]
        parts = [len(row).to_bytes(2, "little") + row for row in rows]
        seeds.append(bytes([prefix]) + b"".join(parts))
    return seeds


def read_commit(raw: bytes) -> ReferenceObject:
    """The body of a commit, not compressed, in an object around it that is sound."""
    wanted = object_of("commit-append")
    head, encoded, _ = wanted.encode()
    return ReferenceObject.decode(head + _with_body(encoded, raw), "commit", wanted.number)


def read_since(raw: bytes) -> ReferenceObject:
    """What a commit says in its second frame, not compressed, in a sound object around it."""
    wanted = object_of("commit-since")
    *first, encoded, _ = wanted.encode()
    data = b"".join(first) + _with_body(encoded, raw)
    return ReferenceObject.decode(data, "commit", wanted.number)


def _with_body(encoded: bytes, raw: bytes) -> bytes:
    frame = decode_frame_header(encoded, 0, (FrameType.COMMIT,))._replace(
        codec=Codec.NONE, body_bytes=len(raw), raw_bytes=len(raw), body_crc=crc32c(raw),
        record_count=int.from_bytes(raw[8:12], "little"),
    )  # fmt: skip
    return frame.encode() + raw


def since_seeds() -> list[bytes]:
    since = object_of("commit-since").since
    assert since is not None
    return [since.body().encode()]


def commit_seeds() -> list[bytes]:
    seeds = []
    for name in OBJECTS:
        commit, segments = object_of(name).commit, object_of(name).segments
        seeds.append(CommitBody(commit._facts(), commit.starts, commit.ends, segments).encode())
    return seeds


TARGETS = {
    "commit": Target(read_commit, LOUD, commit_seeds),
    "since": Target(read_since, LOUD, since_seeds),
    "segment": Target(read_segment, LOUD, segment_seeds, mend_segment),
    "body": Target(read_body, (BadHeader,), body_seeds),
    "schema": Target(
        RecordSchema.decode, (BadHeader,), lambda: [s.encode() for s in SCHEMAS.values()]
    ),
    "manifest": Target(
        lambda data: Manifest.decode(data, "manifest"),
        LOUD,
        lambda: [Manifest(3, LOG_ID, 1, 9).encode()],
        sealed(64),
    ),
    "acknowledgement": Target(
        lambda data: Acknowledgement.decode(data, "ack"),
        LOUD,
        lambda: [Acknowledgement(LOG_ID, 1, 5, 3, 7).encode()],
        sealed(72),
    ),
    "stamp": Target(
        Stamp.decode, (BadIndex,), lambda: [Stamp(LOG_ID, 5, 4096, 1).encode()], sealed(64)
    ),
    "index_rows": Target(read_index_rows, (BadIndex,), index_row_seeds),
    "state_schema": Target(
        read_schema_file, (*LOUD, SchemaMismatch, ValueError), schema_file_seeds
    ),
    "checkpoint": Target(read_checkpoint, (StorageError,), checkpoint_seeds),
    "unsafe_rows": Target(read_rows, (BadRow,), row_seeds),
    "family_rows": Target(
        variables.read_family_rows, (SchemaMismatch, SparkUnavailable), variables.family_row_seeds
    ),
    "variables_schema": Target(
        variables.read_variables_schema,
        (*LOUD, SchemaMismatch, SparkUnavailable),
        variables.variables_schema_seeds,
    ),
}
