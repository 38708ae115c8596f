"""How tests/data/vectors/v1 was made.

`PYTHONPATH=tests python -m support.vectors.make` adds what is missing. What a release has written
is never written again: it is what is on people's disks. The expected values below are written by
hand and go to cases.json; nothing in them is read back from the bytes.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from random import Random
from typing import Any

import pyarrow as pa
import zstandard

from cec_store.format.acknowledgement import Acknowledgement
from cec_store.format.bodies import encode_body
from cec_store.format.checksum import crc32c
from cec_store.format.durable_end import DurableEnd
from cec_store.format.frame import (
    NONE,
    Codec,
    FrameHeader,
    FrameType,
    SegmentHeader,
    decode_frame_header,
)
from cec_store.format.input_queues import InputQueues
from cec_store.format.manifest import Manifest
from cec_store.format.retention import KeptRetention, Retention, RetentionMode
from cec_store.format.schema import RecordKind, RecordSchema
from cec_store.log.creating import create
from cec_store.log.frames import FrameMarks
from cec_store.log.reopening import reopen
from cec_store.log.writer import ClockAndEntropy, LogWriter
from cec_store.storage.names import WRITER_LOCK, segment_name
from cec_store.values import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US
from support.disks.memory_folder import MemoryFolder
from support.paths import VECTORS
from support.places.state_logs import EMPTY, Commit, Writer, merge
from support.vectors import commits, directories, lists, variables
from support.vectors.column_bodies import columns_body

FOLDER = VECTORS
SUMS = "SHA256SUMS"
LOG_ID = bytes(range(16))
SALT = 0x0123_4567_89AB_CDEF
CREATED_US = 1_357_016_400_000_000  # 2013-01-01 05:00 UTC

PROVENANCE = (
    "Made by tests/support/vectors/make.py. The values under 'expect' were written by hand, from "
    "docs/format.md. Integers are exact, timestamps are microseconds since 1970 UTC, bytes are "
    "hex. From the first release on files are only added here, never edited: SHA256SUMS lists them."
)

SCHEMAS = {
    "plain": RecordSchema(pa.schema([("n", pa.int64())])),
    "timed": RecordSchema(
        pa.schema([("t", pa.timestamp("ns")), ("text", pa.string())]), timestamp_column="t"
    ),
    "operator": RecordSchema(
        pa.schema([("carrier", pa.string()), ("mean", pa.float64())]),
        key=pa.schema([("carrier", pa.string()), ("window", pa.int64())]),
        state=pa.schema([("count", pa.int64()), ("delays", pa.list_(pa.float64()))]),
        inputs=2,
    ),
    "chance": RecordSchema(
        pa.schema([("n", pa.int64())]),
        key=pa.schema([("_window", pa.int64())]),
        state=pa.schema([("n", pa.int64())]),
        inputs=2,
        determinants=True,
    ),
}
SCHEMA_COLUMNS = {
    "plain": {"_kind": "uint8", "_timestamp": "timestamp[us, tz=UTC]", "n": "int64"},
    "timed": {
        "_kind": "uint8", "_timestamp": "timestamp[us, tz=UTC]", "t": "timestamp[ns]",
        "text": "string",
    },
    "operator": {
        "_kind": "uint8", "_timestamp": "timestamp[us, tz=UTC]", "_input_0": "int64",
        "_input_1": "int64", "_key": "struct<carrier: string, window: int64>",
        "_state": "struct<count: int64, delays: list<item: double>>", "carrier": "string",
        "mean": "double",
    },
    "chance": {
        "_kind": "uint8", "_timestamp": "timestamp[us, tz=UTC]", "_input_0": "int64",
        "_input_1": "int64", "_key": "struct<_window: int64>", "_state": "struct<n: int64>",
        "_determinant": "struct<arrivals: list<item: int32>, clock_us: int64, seed: int64>",
        "n": "int64",
    },
}  # fmt: skip


def plain_rows(*rows: tuple[int, int | None]) -> list[dict[str, Any]]:
    return [{"_kind": 1, "_timestamp": stamp, "n": n} for stamp, n in rows]


PLAIN_ROWS = plain_rows((1000, 7), (1000, None), (-5, -(2**63)))
OPERATOR_ROWS = [
    {"_kind": 1, "_timestamp": 10, "_input_0": 1, "_input_1": 0, "_key": None, "_state": None,
     "carrier": "AA", "mean": None},
    {"_kind": 4, "_timestamp": 11, "_input_0": 2, "_input_1": 5, "_state": None,
     "_key": {"carrier": "UA", "window": -1}, "carrier": "UA", "mean": -2.5},
    {"_kind": 4, "_timestamp": 11, "_input_0": 2, "_input_1": 5, "_state": None,
     "_key": {"carrier": None, "window": 2}, "carrier": None, "mean": 0.0},
    {"_kind": 2, "_timestamp": 12, "_input_0": 3, "_input_1": 5, "carrier": None, "mean": None,
     "_key": {"carrier": "", "window": 3}, "_state": {"count": 1, "delays": [4.0, None]}},
    {"_kind": 2, "_timestamp": 12, "_input_0": 3, "_input_1": 5, "carrier": None, "mean": None,
     "_key": None, "_state": {"count": None, "delays": None}},
    {"_kind": 3, "_timestamp": 9, "_input_0": 3, "_input_1": 5, "carrier": None, "mean": None,
     "_key": {"carrier": "B6", "window": 0}, "_state": {"count": 2**40, "delays": []}},
]  # fmt: skip
CHANCE_ROWS = [
    {"_kind": 4, "_timestamp": 900, "_input_0": 3, "_input_1": 7, "_key": {"_window": 4},
     "_state": None, "_determinant": None, "n": -1},
    {"_kind": 5, "_timestamp": 12, "_input_0": 5, "_input_1": 9, "_key": None, "_state": None,
     "_determinant": {"arrivals": [1, 2, 0, 2], "clock_us": 900, "seed": None}, "n": None},
    {"_kind": 2, "_timestamp": 12, "_input_0": 5, "_input_1": 9, "_key": {"_window": 14},
     "_state": {"n": 8}, "_determinant": None, "n": None},
    {"_kind": 5, "_timestamp": 950, "_input_0": 5, "_input_1": 9, "_key": None, "_state": None,
     "_determinant": {"arrivals": [], "clock_us": 950, "seed": 2**63 - 1}, "n": None},
]  # fmt: skip
GAP_ROWS = [
    {"_kind": 6, "_timestamp": 12, "_input_0": 30, "_input_1": 9, "_key": None, "_state": None,
     "carrier": None, "mean": None},
]  # fmt: skip
MERGED_ROWS = [
    {"_kind": 4, "_timestamp": 20, "_input_0": 6, "_input_1": 5, "_state": None,
     "_key": {"carrier": "AA", "window": 7}, "carrier": "AA", "mean": 1.5},
    {"_kind": 7, "_timestamp": 21, "_input_0": 7, "_input_1": 5, "_state": None,
     "_key": {"carrier": "UA", "window": 40}, "carrier": None, "mean": None},
    {"_kind": 7, "_timestamp": 21, "_input_0": 7, "_input_1": 5, "_state": None,
     "_key": {"carrier": None, "window": -3}, "carrier": None, "mean": None},
    {"_kind": 3, "_timestamp": 21, "_input_0": 7, "_input_1": 5, "carrier": None, "mean": None,
     "_key": {"carrier": "UA", "window": 9}, "_state": {"count": 3, "delays": [0.5]}},
    {"_kind": 3, "_timestamp": 21, "_input_0": 7, "_input_1": 5, "carrier": None, "mean": None,
     "_key": {"carrier": None, "window": -8}, "_state": {"count": 2, "delays": []}},
]  # fmt: skip
EXTREME_ROWS = plain_rows((MIN_TIMESTAMP_US, 1), (0, 2), (MAX_TIMESTAMP_US, 3))


def records_of(schema: RecordSchema, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    columns = []
    for field in schema.arrow:
        values = [row[field.name] for row in rows]
        if pa.types.is_timestamp(field.type):
            columns.append(pa.array(values, pa.int64()).cast(field.type))
        else:
            columns.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema.arrow)


def rows_of(records: pa.RecordBatch) -> list[dict[str, Any]]:
    """As in cases.json: timestamps as integers, since the calendar does not reach them all."""
    columns = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in records.columns
    ]
    return pa.RecordBatch.from_arrays(columns, records.schema.names).to_pylist()


# -- one structure to a file ------------------------------------------------------------------

MANIFESTS = {
    "manifest-new": (
        "The manifest of a queue that has just been made.",
        {"epoch": 0, "log_id": LOG_ID.hex(), "first_segment": 0, "newest_segment": 0},
    ),
    "manifest-old": (
        "A queue that was opened often and trimmed; every field near its limit.",
        {"epoch": 2**32 - 1, "log_id": "ff" * 16, "first_segment": 2**63,
         "newest_segment": 2**64 - 2},
    ),
}  # fmt: skip
DURABLE_ENDS = {
    "durable-first": (
        "What the first writer of a queue notes once it has published the first segment.",
        {"epoch": 0, "log_id": LOG_ID.hex(), "segment_id": 0, "salt": SALT, "byte": 384,
         "seq": 0, "offset": 0, "last_segment": NONE, "last_byte": 0,
         "running_crc": 0x01020304},
    ),
    "durable-later": (
        "Every field near its limit.",
        {"epoch": 2**32 - 1, "log_id": "ff" * 16, "segment_id": 2**63, "salt": 2**64 - 1,
         "byte": 2**62, "seq": 2**63 - 1, "offset": 2**63 - 2, "last_segment": 2**63 - 1,
         "last_byte": 2**61, "running_crc": 2**32 - 1},
    ),
}  # fmt: skip
SEGMENT_HEADERS = {
    "segment-first": (
        "The header of a queue's first segment: it continues none.",
        {"epoch": 0, "log_id": LOG_ID.hex(), "segment_id": 0, "salt": SALT, "first_seq": 0,
         "prev_segment": NONE, "prev_bytes": 0, "prev_salt": 0, "prev_chain": 0,
         "created_us": CREATED_US, "flags": 0},
    ),
    "segment-later": (
        "The header of a segment that continues another; it was made before 1970.",
        {"epoch": 3, "log_id": LOG_ID.hex(), "segment_id": 2**32, "salt": 2**64 - 1,
         "first_seq": 2**63, "prev_segment": 2**32 - 1, "prev_bytes": 5 * 2**30,
         "prev_salt": SALT, "prev_chain": 0xDEADBEEF, "created_us": -1, "flags": 1},
    ),
}  # fmt: skip
ACKNOWLEDGEMENTS = {
    "consumer-new": (
        "A consumer that has just registered at offset 5.",
        {"log_id": LOG_ID.hex(), "start": 5, "received": 5, "effects_saved": 5,
         "acknowledged_us": CREATED_US},
    ),
    "consumer-late": (
        "One that has received much and saved little; its clock stood before 1970.",
        {"log_id": "ff" * 16, "start": 0, "received": 2**63 - 1, "effects_saved": 2**32,
         "acknowledged_us": -1},
    ),
}  # fmt: skip
RETENTIONS = {
    "retention-time": (
        "A queue that keeps a week.",
        {"log_id": LOG_ID.hex(), "mode": 2, "value": 604_800_000_000, "set_us": CREATED_US},
    ),
    "retention-consumers": (
        "One that keeps what its consumers need; the clock stood before 1970.",
        {"log_id": "ff" * 16, "mode": 1, "value": 0, "set_us": -1},
    ),
}  # fmt: skip
INPUT_QUEUES = {
    "inputs-one": (
        "An operator that reads one queue.",
        {"log_id": LOG_ID.hex(), "queues": ["ff" * 16]},
    ),
    "inputs-three": (
        "One of three inputs, of which the second is no queue.",
        {"log_id": "ff" * 16, "queues": [LOG_ID.hex(), "", "00" * 15 + "01"]},
    ),
}  # fmt: skip

_HEADER = {
    "type": 0, "codec": 0, "flags": 0, "stream_id": 1, "chain_crc": 0x8C7DD922, "seq": 41,
    "first_offset": 1000,
    "prev_segment": 3, "prev_byte": 4096, "schema_byte": 128, "durable_upto": 640, "salt": SALT,
    "min_timestamp_us": MAX_TIMESTAMP_US, "max_timestamp_us": MIN_TIMESTAMP_US,
    "extent_records": 0, "input_upto": 0, "record_count": 0, "open_windows": 0,
}  # fmt: skip
FRAMES: dict[str, tuple[str, dict[str, int], dict[str, Any]]] = {
    "frame-schema-plain": (
        "The schema of a stream with one column.", {"type": 2}, {"schema": "plain"},
    ),
    "frame-schema-timed": (
        "A schema whose own column t is the timestamp.", {"type": 2}, {"schema": "timed"},
    ),
    "frame-schema-operator": (
        "The schema of an operator's output with a key, a state and two inputs.",
        {"type": 2}, {"schema": "operator"},
    ),
    "frame-batch-none": (
        "Three records, not compressed: equal and backward timestamps, a null.",
        {"type": 1, "record_count": 3, "min_timestamp_us": -5, "max_timestamp_us": 1000},
        {"schema": "plain", "rows": PLAIN_ROWS},
    ),
    "frame-batch-zstd": (
        "The same three records, compressed.",
        {"type": 1, "codec": 1, "record_count": 3, "min_timestamp_us": -5,
         "max_timestamp_us": 1000},
        {"schema": "plain", "rows": PLAIN_ROWS},
    ),
    "frame-batch-kinds": (
        "Every kind of record: output (DATA, RESULT), then OPEN, then CHECK; keys and states "
        "with nulls inside, and the operator's own record, whose key is null; two inputs.",
        {"type": 1, "codec": 1, "record_count": 6, "min_timestamp_us": 9, "max_timestamp_us": 12,
         "flags": 2, "extent_records": 70_000, "input_upto": 8, "open_windows": 40_000},
        {"schema": "operator", "rows": OPERATOR_ROWS},
    ),
    "frame-schema-chance": (
        "The record schema of an operator that depends on chance.",
        {"type": 2}, {"schema": "chance"},
    ),
    "frame-batch-determinants": (
        "Two steps of such an operator, one of them without input: a window that the clock closed, "
        "a determinant, an OPEN; a determinant.",
        {"type": 1, "codec": 1, "record_count": 4, "min_timestamp_us": 12, "max_timestamp_us": 950,
         "flags": 2, "extent_records": 2, "input_upto": 14, "open_windows": 1},
        {"schema": "chance", "rows": CHANCE_ROWS},
    ),
    "frame-batch-columns": (
        "The same records, their columns compressed apart; carriers as dictionaries, in the key "
        "(field 5, int8) and as a column (field 11, int16).",
        {"type": 1, "codec": 3, "record_count": 6, "min_timestamp_us": 9, "max_timestamp_us": 12,
         "flags": 2, "extent_records": 70_000, "input_upto": 8, "open_windows": 40_000},
        {"schema": "operator", "rows": OPERATOR_ROWS},
    ),
    "frame-batch-columns-apart": (
        "Columns compressed apart and no dictionaries; it is not the last frame of its step.",
        {"type": 1, "codec": 3, "flags": 1, "record_count": 3, "min_timestamp_us": -5,
         "max_timestamp_us": 1000},
        {"schema": "plain", "rows": PLAIN_ROWS},
    ),
    "frame-batch-columns-stored": (
        "Columns and dictionaries as the first, with every buffer as it is: none is compressed.",
        {"type": 1, "codec": 3, "record_count": 6, "min_timestamp_us": 9, "max_timestamp_us": 12,
         "flags": 2, "extent_records": 70_000, "input_upto": 8, "open_windows": 40_000},
        {"schema": "operator", "rows": OPERATOR_ROWS},
    ),
    "frame-batch-step-part": (
        "The first frame of a step of several, with no windows counted yet.",
        {"type": 1, "codec": 1, "flags": 1, "record_count": 6, "min_timestamp_us": 9,
         "max_timestamp_us": 12, "input_upto": 8},
        {"schema": "operator", "rows": OPERATOR_ROWS},
    ),
    "frame-batch-gap": (
        "All state is lost, and output goes on behind 30 rows of one input and 9 of the other.",
        {"type": 1, "codec": 1, "record_count": 1, "min_timestamp_us": 12, "max_timestamp_us": 12,
         "flags": 2, "extent_records": 0, "input_upto": 39, "open_windows": 0},
        {"schema": "operator", "rows": GAP_ROWS},
    ),
    "frame-batch-merged": (
        "Two windows that went into others, behind a result; the others have footprints.",
        {"type": 1, "codec": 1, "record_count": 5, "min_timestamp_us": 20, "max_timestamp_us": 21,
         "flags": 2, "extent_records": 2, "input_upto": 12, "open_windows": 2},
        {"schema": "operator", "rows": MERGED_ROWS},
    ),
    "frame-batch-extreme": (
        "The smallest and the largest timestamp; the first of all frames of its stream.",
        {"type": 1, "record_count": 3, "min_timestamp_us": MIN_TIMESTAMP_US,
         "max_timestamp_us": MAX_TIMESTAMP_US, "seq": 0, "first_offset": 0, "prev_segment": NONE,
         "prev_byte": 0},
        {"schema": "plain", "rows": EXTREME_ROWS},
    ),
    "frame-batch-empty": (
        "No records, but news of the input; numbers beyond 32 bits.",
        {"type": 1, "codec": 1, "flags": 2, "seq": 2**40, "first_offset": 2**62,
         "input_upto": 2**63, "extent_records": 2**33, "open_windows": 2**32 - 1},
        {"schema": "plain", "rows": []},
    ),
}  # fmt: skip


FRAME_HEADERS: dict[str, tuple[str, dict[str, int]]] = {
    "frame-header-one-record": (
        "The header alone of the largest frame there can be, which has one record.",
        {"type": 1, "codec": 0, "record_count": 1, "min_timestamp_us": 7, "max_timestamp_us": 7,
         "body_bytes": 2**31 - 65_536, "raw_bytes": 2**31 - 65_536, "body_crc": 0xC0FFEE},
    ),
}  # fmt: skip


# Fields as dictionaries: their numbers, where they stand, and the bytes of an index.
CARRIERS = {5: ((4, 0), 1), 11: ((6,), 2)}


def frame_bytes(name: str, fields: dict[str, int], body: dict[str, Any]) -> bytes:
    fields = {**_HEADER, **fields}
    raw = body_bytes(body)
    stored = raw
    if fields["codec"] == Codec.ZSTD:
        stored = zstandard.ZstdCompressor(level=1).compress(raw)
    elif fields["codec"] == Codec.COLUMNS:
        listed = CARRIERS if body["schema"] == "operator" else {}
        records = records_of(SCHEMAS[body["schema"]], body["rows"])
        stored = columns_body(records, listed, as_they_are=name.endswith("stored"))
    header = FrameHeader(
        body_bytes=len(stored), raw_bytes=len(raw), body_crc=crc32c(stored), **fields
    )
    return header.encode() + stored


def body_bytes(body: dict[str, Any]) -> bytes:
    if "rows" in body:
        return bytes(records_of(SCHEMAS[body["schema"]], body["rows"]).serialize())
    return SCHEMAS[body["schema"]].encode()


# -- a whole queue ----------------------------------------------------------------------------

QUEUE = "queue"
QUEUE_BATCHES = [
    plain_rows((CREATED_US, 1), (CREATED_US + 1, 2)),
    plain_rows((CREATED_US + 5, None)),
    plain_rows((CREATED_US + 3, 4), (CREATED_US + 3, 5), (CREATED_US + 3, 6)),
    plain_rows((CREATED_US + 9, 7)),
]
# type, seq, first offset of a stream's frame, records; by segment.
QUEUE_FRAMES = [
    [("SCHEMA", 0, 0, 0), ("BATCH", 0, 0, 2)],
    [("SCHEMA", 1, 2, 0), ("BATCH", 1, 2, 1)],
    [("SCHEMA", 2, 3, 0), ("BATCH", 2, 3, 3), ("BATCH", 3, 6, 1)],
]
QUEUE_SAYS = (
    "Three segments. The first ends with a roll. The second's last frame was not vouched for when "
    "its writer died, so the next opening cut the file there and wrote the records again into the "
    "third. For its last frame the note vouches, and no header."
)


def clock_and_entropy() -> ClockAndEntropy:
    ticks = itertools.count(CREATED_US, 1_000_000)
    draws = itertools.count(1)
    return ClockAndEntropy(
        lambda: next(ticks), lambda size: hashlib.sha256(bytes([next(draws)])).digest()[:size]
    )


def queue_files() -> dict[str, bytes]:
    folder = MemoryFolder({})
    around = clock_and_entropy()

    def append(writer: LogWriter, number: int) -> None:
        records = records_of(SCHEMAS["plain"], QUEUE_BATCHES[number])
        writer.append(encode_body(records, 1), FrameMarks())

    writer = create(folder, SCHEMAS["plain"], around)
    append(writer, 0)
    writer.roll()
    append(writer, 1)
    writer.sync()
    append(writer, 2)
    writer, _ = reopen(folder, SCHEMAS["plain"], around)
    append(writer, 3)
    writer.sync()
    writer.close()
    return {name: bytes(data) for name, data in folder.files.items() if name != WRITER_LOCK}


QUEUE_OF_STEPS = "queue-steps"
QUEUE_OF_STEPS_STEPS = [[(1, 1), (2, 2), (3, 3)], [(4, 4)], [(5, 5), (6, None)]]
"""Of each step its frames, each of one record: timestamp and n."""
QUEUE_OF_STEPS_SAYS = (
    "Two segments. A step of three frames is vouched for, in the first; a step of one and one of "
    "two were not when their writer died, and were written again into the second. At the end stand "
    "two frames of a step that was not finished: nobody is shown them."
)


def queue_of_steps_files() -> dict[str, bytes]:
    folder = MemoryFolder({})
    around = clock_and_entropy()

    def append(writer: LogWriter, frames: list[tuple[int, int | None]], is_whole: bool) -> None:
        for number, row in enumerate(frames, 1):
            records = records_of(SCHEMAS["plain"], plain_rows(row))
            ends = is_whole and number == len(frames)
            marks = FrameMarks() if ends else FrameMarks.of_part(0)
            writer.append(encode_body(records, 1), marks)

    writer = create(folder, SCHEMAS["plain"], around)
    append(writer, QUEUE_OF_STEPS_STEPS[0], True)
    writer.sync()
    append(writer, QUEUE_OF_STEPS_STEPS[1], True)
    append(writer, QUEUE_OF_STEPS_STEPS[2], True)
    writer, _ = reopen(folder, SCHEMAS["plain"], around)
    append(writer, [(7, 7), (8, 8)], False)
    writer.close()
    return {name: bytes(data) for name, data in folder.files.items() if name != WRITER_LOCK}


# -- state logs -------------------------------------------------------------------------------

STATE_LOG, STATE_LOG_MERGED = "state-python", "state-python-merged"
STATE_LOG_SCALA = "state-scala"
STATE_SAYS = (
    "A state log as Python writes it. The first writer makes versions 1 to 3, not compressed, "
    "version 3 in two frames. The second one begins again at version 2: its version 3 counts, as "
    "its segment has the higher number, and the first's is reached by its unique id only. It "
    "compresses in blocks of two rows, commits nothing as version 5, and rolls before version 6."
)
STATE_MERGED_SAYS = (
    "Where a file system cannot append: one object per commit. Those of versions 2 and 3 were "
    "merged and are gone; that of version 4 builds on the merged one without naming it. The unique "
    "id of version 2 names a segment that is not there (null here); that of version 3 leads to the "
    "merged one."
)
STATE_SCALA_SAYS = (
    "A state log as the Spark provider writes it (tests/scala/provider/Golden.scala), not "
    "compressed. Version 2 puts and removes a key that leaves nothing, and renews three "
    "footprints; version 3 is in two frames; version 4 gives a column family up and renews "
    "three; version 5, which changes nothing, begins a second segment."
)
# Column family, key and value in hex: what a version holds, in the order of family and key.
_TIMERS = ["0", "74696d657273", "0200"]
STATE_VERSIONS = {
    1: [_TIMERS, ["1", "61", "01"], ["1", "62", ""], ["2", "ff00", "03"]],
    2: [_TIMERS, ["1", "61", "0a0a"], ["2", "ff00", "03"]],
    3: [_TIMERS, ["1", "61", "bb"], ["1", "62", "04"], ["2", "ff00", "03"]],
    4: [],
    5: [],
    6: [["1", "", "06"]],
}
STATE_GIVEN_UP = [_TIMERS, ["1", "61", "0a0a"], ["1", "64", "ff"], ["1", "65", "fe"]]
STATE_MERGED_VERSIONS = {
    1: [["1", "61", "01"]],
    2: [["1", "61", "01"], ["1", "62", "02"]],
    3: [["1", "61", "01"], ["1", "62", "03"]],
    4: [["1", "61", "01"], ["1", "62", "03"], ["1", "63", "04"]],
}
# Unique id, extent and content of each version. Here the bytes are not made by this script.
STATE_SCALA_VERSIONS = [
    ("0000000175a8c4b0-c330217bb857000a-0", 4,
     [_TIMERS, ["1", "61", "01"], ["1", "62", ""], ["2", "c3bc", "0300"]]),
    ("0000000175a8c4b0-c330217bb857000a-1", 5,
     [_TIMERS, ["1", "62", ""], ["1", "63", "04"], ["2", "c3bc", "0300"]]),
    ("0000000175a8c4b0-c330217bb857000a-3", 9,
     [_TIMERS, ["1", "62", "0607"], ["1", "63", "04"], ["1", "64", "08"], ["1", "65", "09"]]),
    ("0000000175a8c4b0-c330217bb857000a-4", 3,
     [["1", "62", "0607"], ["1", "64", "08"], ["1", "65", "09"]]),
    ("0000000252882034-690854f0dc779425-5", 3,
     [["1", "62", "0607"], ["1", "64", "08"], ["1", "65", "09"]]),
    ("0000000252882034-690854f0dc779425-6", 4,
     [["1", "62", "0607"], ["1", "64", "fffe"], ["1", "65", "09"]]),
]  # fmt: skip


def state_log() -> tuple[dict[str, bytes], list[Commit], Commit]:
    """The files, the commits of versions 1 to 6, and the version 3 that was given up."""
    folder, random = MemoryFolder({}), Random(9)
    writer = Writer(folder, random, level=0)
    a, b, c, timers = (1, b"a"), (1, b"b"), (2, b"\xff\0"), (0, b"timers")
    v1 = writer.commit(EMPTY, {a: b"\1", b: b"", timers: b"\2\0", c: b"\3"})
    v2 = writer.commit(v1, {a: b"\n\n", b: None})
    given_up = writer.commit(v2, {c: None, (1, b"d"): b"\xff", (1, b"e"): b"\xfe"}, frames=2)
    writer = Writer(folder, random, blocks=True, rows_per_block=2)
    v3 = writer.commit(v2, {a: b"\xbb", b: b"\4"}, renew=1)
    v4 = writer.commit(v3, {c: None, timers: None, b: None, a: None})
    v5 = writer.commit(v4, {})
    writer.roll()
    v6 = writer.commit(v5, {(1, b""): b"\6"})
    return _files(folder), [v1, v2, v3, v4, v5, v6], given_up


def state_log_merged() -> tuple[dict[str, bytes], list[Commit]]:
    folder = MemoryFolder({})
    writer = Writer(folder, Random(10), level=0, object_per_commit=True)
    commits = [EMPTY]
    for number, key in enumerate((b"a", b"b", b"b", b"c"), 1):
        commits.append(writer.commit(commits[-1], {(1, key): bytes([number])}))
    merge(folder, [commits[2].segment_id, commits[3].segment_id])
    for commit in commits[2:4]:
        folder.unlink(segment_name(commit.segment_id))
    return _files(folder), commits[1:]


def _files(folder: MemoryFolder) -> dict[str, bytes]:
    return {name: bytes(data) for name, data in folder.files.items()}


def state_case(name: str) -> dict[str, Any]:
    """``versions`` by rule V1, ``others`` by their unique ids alone."""
    if name == STATE_LOG:
        _, commits, given_up = state_log()
        others = [_version(given_up, STATE_GIVEN_UP)]
        states, says = STATE_VERSIONS, STATE_SAYS
    else:
        _, commits = state_log_merged()
        states, says, others = STATE_MERGED_VERSIONS, STATE_MERGED_SAYS, []
    versions = [_version(commit, states[commit.version]) for commit in commits]
    if name == STATE_LOG_MERGED:
        versions[1]["unique_id"] = None
    expect = {"versions": versions, "others": others}
    return {"name": name, "is": "state log", "says": says, "expect": expect}


def _version(commit: Commit, state: list[list[str]]) -> dict[str, Any]:
    return _expected(commit.version, commit.unique_id, commit.extent_records, state)


def _written(commit: Commit) -> dict[str, Any]:
    state = [[str(f), key.hex(), value.hex()] for (f, key), value in sorted(commit.state.items())]
    return _version(commit, state)


def _expected(
    version: int, unique_id: str, extent_records: int, state: list[list[str]]
) -> dict[str, Any]:
    return {
        "version": version, "unique_id": unique_id, "open_windows": len(state),
        "extent_records": extent_records,
        "state": [[int(family), key, value] for family, key, value in state],
    }  # fmt: skip


def state_scala_case() -> dict[str, Any]:
    versions = [_expected(n, *each) for n, each in enumerate(STATE_SCALA_VERSIONS, 1)]
    expect = {"versions": versions, "others": []}
    return {
        "name": STATE_LOG_SCALA, "is": "state log", "says": STATE_SCALA_SAYS, "expect": expect
    }  # fmt: skip


# -- the worked example of docs/format.md -----------------------------------------------------

_MANIFEST_FIELDS = (
    "8 magic CECMANI, 2 version, 2 bytes, 4 epoch, 16 log_id, 8 first_segment, 8 newest_segment, "
    "12 reserved, 4 crc"
)
_SEGMENT_FIELDS = (
    "8 magic CECSEGM, 2 version, 2 header_bytes, 4 epoch, 16 log_id, 8 segment_id, 8 salt, "
    "8 first_seq, 8 prev_segment: none, 8 prev_bytes, 8 prev_salt, 4 prev_chain, 4 flags, "
    "8 created_us, 28 reserved, 4 crc"
)
_FRAME_FIELDS = (
    "4 magic CECF, 1 type, 1 codec, 2 flags, 4 stream_id, 4 chain_crc, 8 seq, 8 first_offset, "
    "8 prev_segment, 8 prev_byte, 8 schema_byte, 8 durable_upto, 8 salt, 8 min_timestamp_us, "
    "8 max_timestamp_us, 8 extent_records, 8 input_upto, 4 record_count, 4 open_windows, "
    "4 body_bytes, 4 raw_bytes, 4 body_crc, 4 header_crc"
)
_BODIES = {
    "SCHEMA": "16 an Arrow schema message",
    "BATCH": "16 an Arrow record batch message: zstd",
}


def worked_example() -> str:
    """Two blocks of annotated hex: the manifest and the first segment of the queue."""
    folder = FOLDER / QUEUE
    manifest = (folder / "manifest-0000000001").read_bytes()
    segment = (folder / f"{0:020d}.seg").read_bytes()
    lines = ["# segment header", *_dump(segment[:128], 0, _SEGMENT_FIELDS)]
    at = 128
    for frame_type, _, _, records in QUEUE_FRAMES[0]:
        header = decode_frame_header(segment, at)
        lines.append(f"# {frame_type}" + (f", {records} records" if records else ""))
        lines += _dump(segment[at : at + 128], at, _FRAME_FIELDS)
        body = segment[at + 128 : at + header.frame_bytes]
        lines += _dump(body, at + 128, _BODIES[frame_type])
        at += header.frame_bytes
    blocks = (_dump(manifest, 0, _MANIFEST_FIELDS), lines)
    return "\n\n".join("```\n" + "\n".join(block) + "\n```" for block in blocks)


def _dump(data: bytes, start: int, fields: str) -> list[str]:
    """One line a field and at most 16 bytes a line; the last field takes what is left."""
    lines, at = [], 0
    parts = [field.split(" ", 1) for field in fields.split(", ") if field]
    while at < len(data):
        size, says = (int(parts[0][0]), parts[0][1]) if parts else (16, "")
        parts = parts[1:]
        for line in range(at, min(at + size, len(data)), 16):
            digits = data[line : min(line + 16, at + size)].hex(" ")
            lines.append(f"{start + line:04x}  {digits:47}  {says}".rstrip())
            says = ""
        at += size
    return lines


# -- writing it all ---------------------------------------------------------------------------


def all_files() -> dict[str, bytes]:
    files = {}
    for name, (_, fields) in MANIFESTS.items():
        files[f"{name}.bin"] = Manifest(**_with_bytes(fields)).encode()
    for name, (_, fields) in DURABLE_ENDS.items():
        files[f"{name}.bin"] = DurableEnd(**_with_bytes(fields)).encode()
    for name, (_, fields) in SEGMENT_HEADERS.items():
        files[f"{name}.bin"] = SegmentHeader(**_with_bytes(fields)).encode()
    for name, (_, fields) in ACKNOWLEDGEMENTS.items():
        files[f"{name}.bin"] = Acknowledgement(**_with_bytes(fields)).encode()
    for name, (_, fields) in RETENTIONS.items():
        retention = Retention(RetentionMode(fields["mode"]), fields["value"])
        log_id = bytes.fromhex(fields["log_id"])
        files[f"{name}.bin"] = KeptRetention(log_id, retention, fields["set_us"]).encode()
    for name, (_, fields) in INPUT_QUEUES.items():
        said = InputQueues(bytes.fromhex(fields["log_id"]), tuple(fields["queues"]))
        files[f"{name}.bin"] = said.encode()
    for name, (_, fields, body) in FRAMES.items():
        files[f"{name}.bin"] = frame_bytes(name, fields, body)
    for name, (_, fields) in FRAME_HEADERS.items():
        files[f"{name}.bin"] = FrameHeader(**{**_HEADER, **fields}).encode()
    for name in commits.OBJECTS:
        files[f"{name}.bin"] = b"".join(commits.object_of(name).encode())
    logs = {
        QUEUE: queue_files(),
        QUEUE_OF_STEPS: queue_of_steps_files(),
        STATE_LOG: state_log()[0],
        STATE_LOG_MERGED: state_log_merged()[0],
        lists.NAME: lists.log()[0],
        variables.NAME: variables.log()[0],
        directories.NAME: directories.log()[0],
    }
    for folder, inside in logs.items():
        files |= {f"{folder}/{name}": data for name, data in inside.items()}
    return files


def _with_bytes(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "log_id": bytes.fromhex(fields["log_id"])}


def all_cases() -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = []
    for of, table in (("manifest", MANIFESTS), ("segment header", SEGMENT_HEADERS)):
        for name, (says, fields) in table.items():
            cases.append({"name": name, "is": of, "says": says, "expect": fields})
    for name, (says, fields, body) in FRAMES.items():
        expect = {**_HEADER, **fields}
        cases.append({"name": name, "is": "frame", "says": says, "expect": expect, "body": body})
        if body.keys() == {"schema"}:
            schema = SCHEMAS[body["schema"]]
            cases[-1]["columns"] = SCHEMA_COLUMNS[body["schema"]]
            cases[-1]["timestamp_column"] = schema.timestamp_column
    for name, (says, fields) in FRAME_HEADERS.items():
        expect = {**_HEADER, **fields}
        cases.append({"name": name, "is": "frame header", "says": says, "expect": expect})
    for name, (says, fields) in ACKNOWLEDGEMENTS.items():
        cases.append({"name": name, "is": "acknowledgement", "says": says, "expect": fields})
    for name, (says, fields) in DURABLE_ENDS.items():
        cases.append({"name": name, "is": "durable end", "says": says, "expect": fields})
    for name, (says, fields) in RETENTIONS.items():
        cases.append({"name": name, "is": "retention", "says": says, "expect": fields})
    for name, (says, fields) in INPUT_QUEUES.items():
        cases.append({"name": name, "is": "input queues", "says": says, "expect": fields})
    for name, (says, fields) in commits.OBJECTS.items():
        cases.append({"name": name, "is": "commit", "says": says, "expect": fields})
    queue = {"batches": QUEUE_BATCHES, "segments": QUEUE_FRAMES, "epoch": 1}
    cases.append({"name": QUEUE, "is": "queue", "says": QUEUE_SAYS, "expect": queue})
    steps = {"steps": QUEUE_OF_STEPS_STEPS}
    cases.append(
        {"name": QUEUE_OF_STEPS, "is": "steps", "says": QUEUE_OF_STEPS_SAYS, "expect": steps}
    )
    by_python = [state_case(name) for name in (STATE_LOG, STATE_LOG_MERGED)]
    by_scala = [state_scala_case()]
    others = [part.case(_written) for part in (lists, variables, directories)]
    return [*cases, *by_python, *by_scala, *others]


def write() -> None:
    for name, data in all_files().items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(data)
    cases = ",\n".join(json.dumps(case) for case in all_cases())
    text = f'{{"provenance": {json.dumps(PROVENANCE)},\n"cases": [\n{cases}\n]}}\n'
    (FOLDER / "cases.json").write_text(text, encoding="utf-8")
    files = sorted(path for path in FOLDER.rglob("*") if path.suffix != ".json" and path.is_file())
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(FOLDER)}\n"
        for path in files
        if path.name != SUMS
    ]
    (FOLDER / SUMS).write_text("".join(sums), encoding="utf-8")


if __name__ == "__main__":
    rows = [*OPERATOR_ROWS, *CHANCE_ROWS, *GAP_ROWS, *MERGED_ROWS]
    assert {row["_kind"] for row in rows} == set(RecordKind)
    assert {fields["type"] for _, fields, _ in FRAMES.values()} | {FrameType.COMMIT} == set(
        FrameType
    )
    write()
    print(worked_example())
