"""Golden objects of `log/` (docs/format.md §11, §13): six commits."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from cec_store.format.bodies import Body, encode_body
from cec_store.format.by_reference.commit_body import segments_of
from cec_store.format.by_reference.commits import (
    Operation,
    ReferenceCommit,
    ReferenceObject,
    Since,
)
from cec_store.format.by_reference.inline import OWN, InlineFrames, NumberedFrames
from cec_store.format.frame import (
    CONTINUES,
    COUNTED,
    FRAME_HEADER_BYTES,
    FrameHeader,
    FrameType,
)
from cec_store.format.records import data_records, to_timestamps
from cec_store.format.schema import RecordSchema

SCHEMA = RecordSchema(pa.schema([("n", pa.int64()), ("text", pa.string())]), key_columns=("n",))
_LOG_ID = "000102030405060708090a0b0c0d0e0f"
_COMMIT: dict[str, Any] = {
    "operation": 2, "query": "ä query", "batch": 3, "starts": [0, 2], "ends": [12, 2**63 - 1],
    "queries": {"ä query": 3, "old": 9}, "consumed": {"ab": [4, 0], "cd": [], "ef": [1, 2, 3]},
    "settings": {"retention": "7d", "consumer/a": '{"first": 4}'}, "schema": False,
}  # fmt: skip
_SEGMENT: dict[str, Any] = {
    "partition": 1, "first_offset": 5, "records": 7, "file": "data/q/3/00001-9.seg", "byte": 900,
    "bytes": 77, "salt": 2**64 - 1, "least_us": -5, "greatest_us": 8, "frames": 2,
    "written_us": 6, "removed": False,
}  # fmt: skip
_OTHER = {
    **_SEGMENT, "partition": 0, "first_offset": 2**62, "file": "data/ü/0/00000-1.seg",
    "least_us": -(2**63), "greatest_us": 2**63 - 1, "removed": True,
}  # fmt: skip


def _bodies(*counts: int) -> list[Body]:
    """Return frames of so many records each, not compressed."""
    bodies = []
    for count in counts:
        batch = pa.record_batch(
            {"n": pa.array(range(count), pa.int64()), "text": ["é"] * count}, schema=SCHEMA.data
        )
        times = to_timestamps(pa.array(range(count), pa.int64()))
        bodies.append(encode_body(data_records(SCHEMA, batch, times), 0))
    return bodies


_INLINE = [InlineFrames(2**63 + 1, _bodies(2, 3)), InlineFrames(11, _bodies(1))]


def _inline_rows() -> list[dict[str, Any]]:
    rows, byte = [], 0
    for partition, frames in enumerate(_INLINE):
        size = sum(FRAME_HEADER_BYTES + len(body.stored) for body in frames.bodies)
        records = [body.record_count for body in frames.bodies]
        rows.append({
            **_SEGMENT, "partition": partition, "records": sum(records), "file": OWN,
            "byte": byte, "bytes": size, "salt": frames.salt, "least_us": 0,
            "greatest_us": max(records) - 1, "frames": len(records),
        })  # fmt: skip
        byte += size
    return rows


def _numbered() -> NumberedFrames:
    """Return frames 6 and 7, the first of which says that its step goes on."""
    frames = []
    for seq, flags, body in zip((6, 7), (CONTINUES, COUNTED), _bodies(0, 3), strict=True):
        header = FrameHeader(
            type=FrameType.BATCH, codec=body.codec, flags=flags, seq=seq, first_offset=7,
            schema_byte=0, min_timestamp_us=body.min_timestamp_us,
            max_timestamp_us=body.max_timestamp_us, input_upto=40,
            extent_records=2 if flags == COUNTED else 0, record_count=body.record_count,
            open_windows=1 if flags == COUNTED else 0, raw_bytes=body.raw_bytes,
        )  # fmt: skip
        frames.append((header, body.stored))
    return NumberedFrames(2**63 + 5, frames, (3, 700))


def _numbered_row() -> dict[str, Any]:
    frames = _numbered()
    return {
        **_SEGMENT, "partition": 0, "first_offset": 7, "records": 3, "file": OWN, "byte": 0,
        "bytes": sum(FRAME_HEADER_BYTES + len(body) for _, body in frames.frames),
        "salt": frames.salt, "least_us": 0, "greatest_us": 2, "frames": 2,
    }  # fmt: skip


OBJECTS: dict[str, tuple[str, dict[str, Any]]] = {
    "commit-make": (
        "The first of a queue of two partitions: it holds the schema, and names nothing before.",
        {
            "number": 0, "log_id": _LOG_ID, "salt": 1, "after": None, "created_us": -1,
            "commit": {
                "operation": 1, "query": None, "batch": None, "starts": [0, 0], "ends": [0, 0],
                "queries": {}, "consumed": {}, "settings": {}, "schema": True,
            },
            "segments": [],
        },
    ),
    "commit-append": (
        "A batch of a query, with everything that a commit can say, and two segments.",
        {
            "number": 17, "log_id": _LOG_ID, "salt": 2**64 - 1, "after": [16, 2**64 - 2],
            "created_us": 99, "commit": _COMMIT, "segments": [_SEGMENT, _OTHER],
        },
    ),
    "commit-since": (
        "A commit that also says what came and went since commit 64.",
        {
            "number": 68, "log_id": _LOG_ID, "salt": 7, "after": [67, 6], "created_us": 2**40,
            "commit": _COMMIT, "segments": [_SEGMENT],
            "since": {"base": [64, 2**60 + 1], "segments": [_SEGMENT, _OTHER]},
        },
    ),
    "commit-all": (
        "A commit that also says all that counts.",
        {
            "number": 4096, "log_id": _LOG_ID, "salt": 8, "after": [4095, 9], "created_us": 2**40,
            "commit": _COMMIT, "segments": [], "since": {"base": None, "segments": [_SEGMENT]},
        },
    ),
    "commit-inline": (
        "A commit that holds the frames of two segments, two frames and one, and names another.",
        {
            "number": 72, "log_id": _LOG_ID, "salt": 10, "after": [71, 6], "created_us": 2**40,
            "commit": _COMMIT,
            "segments": [_inline_rows()[0], _SEGMENT, _inline_rows()[1]],
            "since": {"base": [64, 1], "segments": [*_inline_rows(), _OTHER]},
        },
    ),
    "commit-of-one-writer": (
        "A group of a queue of one writer: a step of two frames, the first without records.",
        {
            "number": 5, "log_id": _LOG_ID, "salt": 12, "after": [4, 3], "created_us": 2**40,
            "commit": {
                "operation": 2, "query": None, "batch": None, "starts": [1], "ends": [10],
                "queries": {}, "consumed": {}, "settings": {"writer": "0a" * 16}, "schema": False,
            },
            "segments": [_numbered_row()],
        },
    ),
}  # fmt: skip
_FRAMES = {"commit-inline": _INLINE, "commit-of-one-writer": [_numbered()]}


def object_of(name: str) -> ReferenceObject:
    """Return the object with the values that are expected of its bytes.

    Inline frames have no place yet.
    """
    wanted = OBJECTS[name][1]
    said = wanted["commit"]
    commit = ReferenceCommit(
        Operation(said["operation"]), said["query"], said["batch"], tuple(said["starts"]),
        tuple(said["ends"]), said["queries"],
        {queue: tuple(ends) for queue, ends in said["consumed"].items()}, said["settings"],
        SCHEMA if said["schema"] else None,
    )  # fmt: skip
    return ReferenceObject(
        wanted["number"], bytes.fromhex(wanted["log_id"]), commit, segments_of(wanted["segments"]),
        wanted["created_us"], wanted["salt"], _pair(wanted["after"]),
        _since(wanted["since"]) if "since" in wanted else None,
        _FRAMES.get(name, ()),
    )  # fmt: skip


def _since(wanted: dict[str, Any]) -> Since:
    return Since(_pair(wanted["base"]), segments_of(wanted["segments"]))


def _pair(numbers: list[int] | None) -> tuple[int, int] | None:
    return None if numbers is None else (numbers[0], numbers[1])
