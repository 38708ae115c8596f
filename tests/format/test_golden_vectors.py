"""The bytes of format version 1, decoded and encoded again. They are only added to."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pyarrow as pa
import pytest

from cec_store import StateLog, open_queue
from cec_store.errors import CorruptLog, UnsupportedVersion
from cec_store.format.acknowledgement import Acknowledgement
from cec_store.format.bodies import decode_body, encode_body, inflated
from cec_store.format.by_reference.commits import ReferenceObject
from cec_store.format.by_reference.inline import prove_chain
from cec_store.format.by_reference.segment_frames import ReferencedFrame, frames_of
from cec_store.format.checksum import crc32c, with_crc
from cec_store.format.durable_end import SLOTS_AT, decode_durable_ends
from cec_store.format.ends import Verdict
from cec_store.format.frame import (
    FRAME_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    BadHeader,
    Codec,
    FrameFlags,
    FrameHeader,
    FrameType,
    SegmentHeader,
    decode_frame_header,
    decode_segment_header,
    prove_body,
)
from cec_store.format.input_queues import InputQueues
from cec_store.format.manifest import Manifest
from cec_store.format.retention import KeptRetention
from cec_store.format.schema import RecordKind, RecordSchema
from cec_store.inspector.verifying.log import verify
from cec_store.log.chain import Chain
from cec_store.log.reopening import reopen
from cec_store.log.segment import SegmentReader
from cec_store.log.tail import read_tail
from cec_store.state_logs.directory_files import read_live_file
from cec_store.storage.names import manifest_name, segment_id_of, segment_name
from support.disks.memory_folder import MemoryFolder
from support.paths import DOCS
from support.vectors import directories
from support.vectors import make as make_vectors
from support.vectors.commits import object_of
from support.vectors.make import (
    FOLDER,
    QUEUE,
    QUEUE_OF_STEPS,
    STATE_LOG,
    STATE_LOG_MERGED,
    SUMS,
    rows_of,
)

CASES: list[dict[str, Any]] = json.loads((FOLDER / "cases.json").read_text("utf-8"))["cases"]
FORMAT_PAGE = DOCS / "format.md"
# What the first release writes. Names are added, never taken away.
FIRST_RELEASE = {
    "manifest-new", "manifest-old", "segment-first", "segment-later", "frame-schema-plain",
    "frame-schema-timed", "frame-schema-operator", "frame-batch-none", "frame-batch-zstd",
    "frame-batch-kinds", "frame-batch-extreme", "frame-batch-empty", "queue",
}  # fmt: skip
FOLDERS = ("queue", "steps", "state log")


def named(kind: str) -> list[dict[str, Any]]:
    return [case for case in CASES if case["is"] == kind]


def each(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", named(kind), ids=lambda case: case["name"])


def data_of(case: dict[str, Any]) -> bytes:
    return (FOLDER / f"{case['name']}.bin").read_bytes()


def split(data: bytes) -> tuple[FrameHeader, bytes]:
    header = decode_frame_header(data)
    body = data[FRAME_HEADER_BYTES:]
    prove_body(header, body)
    return header, body


def schema_of(name: str) -> RecordSchema:
    _, body = split((FOLDER / f"frame-schema-{name}.bin").read_bytes())
    return RecordSchema.decode(body)


# -- the corpus -------------------------------------------------------------------------------


def test_the_corpus_has_every_structure() -> None:
    assert {case["name"] for case in CASES} >= FIRST_RELEASE
    assert len({case["name"] for case in CASES}) == len(CASES)
    frames = named("frame")
    assert {case["expect"]["type"] for case in frames} == set(FrameType) - {FrameType.COMMIT}
    batches = [case for case in frames if case["expect"]["type"] == FrameType.BATCH]
    codecs = {case["expect"]["codec"] for case in batches}
    assert codecs == set(Codec) - {Codec.BLOCKS}  # in a state log alone
    assert {case["expect"]["flags"] for case in batches} == {0, *FrameFlags}
    kinds = {row["_kind"] for case in batches for row in case["body"]["rows"]}
    assert kinds == set(RecordKind)
    assert all(case["says"] for case in CASES)


def test_vectors_are_never_edited() -> None:
    lines = (FOLDER / SUMS).read_text("utf-8").splitlines()
    listed = {name: digest for digest, name in (line.split("  ") for line in lines)}
    present = {
        str(path.relative_to(FOLDER))
        for path in FOLDER.rglob("*")
        if path.is_file() and path.name not in (SUMS, "cases.json")
    }
    assert len(listed) >= 19
    assert present == set(listed)
    for name, digest in listed.items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest, name
    single = {f"{case['name']}.bin" for case in CASES if case["is"] not in FOLDERS}
    assert single == {name for name in listed if "/" not in name}


def test_the_script_still_makes_what_is_there() -> None:
    """All but the compressed bodies, which belong to the version of zstd."""
    made, compared = make_vectors.all_files(), set()
    for name, data in made.items():
        if name.startswith("frame-") and decode_frame_header(data).codec != Codec.NONE:
            continue
        if name.startswith("commit-"):
            continue
        if name.startswith((f"{QUEUE}/", f"{QUEUE_OF_STEPS}/", f"{STATE_LOG}/")):
            continue
        compared.add(name)
        assert (FOLDER / name).read_bytes() == data, name
    assert {name for name in made if name.startswith(STATE_LOG_MERGED)} < compared
    for folder in (QUEUE, QUEUE_OF_STEPS, STATE_LOG, STATE_LOG_MERGED):
        assert {name for name in made if name.startswith(f"{folder}/")} == {
            f"{folder}/{path.name}" for path in (FOLDER / folder).iterdir()
        }


# -- one structure to a file ------------------------------------------------------------------


@each("manifest")
def test_manifest(case: dict[str, Any]) -> None:
    log_id = bytes.fromhex(case["expect"]["log_id"])
    expect = {**case["expect"], "log_id": log_id}
    manifest = Manifest.decode(data_of(case), case["name"])
    assert vars(manifest) == expect
    assert manifest.encode() == data_of(case)


@each("acknowledgement")
def test_acknowledgement(case: dict[str, Any]) -> None:
    expect = {**case["expect"], "log_id": bytes.fromhex(case["expect"]["log_id"])}
    said = Acknowledgement.decode(data_of(case), case["name"])
    assert vars(said) == expect
    assert said.encode() == data_of(case)


@each("durable end")
def test_durable_end(case: dict[str, Any]) -> None:
    expect = {**case["expect"], "log_id": bytes.fromhex(case["expect"]["log_id"])}
    data = data_of(case)
    at_second = bytes(SLOTS_AT[1]) + data
    for file in (data, at_second, data + at_second[len(data) :]):
        for end in decode_durable_ends(file, case["name"]):
            assert end._asdict() == expect
            assert end.encode() == data
    counts = [len(decode_durable_ends(file, "")) for file in (data, at_second, data[:-1])]
    assert counts == [1, 1, 0]


@each("retention")
def test_retention(case: dict[str, Any]) -> None:
    kept = KeptRetention.decode(data_of(case), case["name"])
    found = {
        "log_id": kept.log_id.hex(),
        "mode": kept.retention.mode,
        "value": kept.retention.value,
        "set_us": kept.set_us,
    }
    assert found == case["expect"]
    assert kept.encode() == data_of(case)


@each("input queues")
def test_input_queues(case: dict[str, Any]) -> None:
    data = data_of(case)
    said = InputQueues.decode(data, case["name"])
    assert {"log_id": said.log_id.hex(), "queues": list(said.queues)} == case["expect"]
    assert said.encode() == data
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptLog):
            InputQueues.decode(bytes(flipped), "")
    for size in range(len(data)):
        with pytest.raises(CorruptLog):
            InputQueues.decode(data[:size], "")
    later = with_crc(data[:8] + b"\2\0" + data[10:])
    with pytest.raises(UnsupportedVersion):
        InputQueues.decode(later, "")


@each("segment header")
def test_segment_header(case: dict[str, Any]) -> None:
    expect = {**case["expect"], "log_id": bytes.fromhex(case["expect"]["log_id"])}
    header = decode_segment_header(data_of(case))
    assert header._asdict() == expect
    assert header.encode() == data_of(case)


@each("frame")
def test_frame_header(case: dict[str, Any]) -> None:
    header, body = split(data_of(case))
    found = header._asdict()
    assert {name: found[name] for name in case["expect"]} == case["expect"]
    assert header.magic == 0x46434543
    assert (header.body_bytes, header.body_crc) == (len(body), crc32c(body))
    assert header._replace(header_crc=0).encode() == data_of(case)[:FRAME_HEADER_BYTES]


@each("commit")
def test_commit(case: dict[str, Any]) -> None:
    """Read as is expected, and made again with the same bytes but for their compression."""
    data, wanted = data_of(case), object_of(case["name"])
    found = ReferenceObject.decode(data, case["name"], wanted.number)
    assert found == wanted.placed(len(data))
    inline_at = len(data) - sum(
        row["bytes"] for row in case["expect"]["segments"] if not row["file"]
    )
    own = f"log/{0:017d}/{wanted.number:020d}.commit"

    def as_read(row: dict[str, Any]) -> dict[str, Any]:
        return row if row["file"] else {**row, "file": own, "byte": inline_at + row["byte"]}

    assert found.segments.to_pylist() == [*map(as_read, case["expect"]["segments"])]
    since = case["expect"].get("since")
    if since is not None:
        assert found.since is not None
        assert found.since.segments.to_pylist() == [*map(as_read, since["segments"])]
    assert raw_frames(data) == raw_frames(b"".join(wanted.encode()))
    for row in found.segments.to_pylist():
        if row["file"] == own:
            frames = [*frames_of(row, data[row["byte"] :][: row["bytes"]])]
            assert [isinstance(frame, ReferencedFrame) for frame in frames] == [True] * row[
                "frames"
            ]
            assert not any(frame.problem for frame in frames)  # type: ignore[union-attr]
    prove_chain(data, case["name"])


def raw_frames(data: bytes) -> list[bytes]:
    """The segment header; of each frame the header before the sizes but for its chain CRC, which
    is over compressed bytes, and the frame before, which stands behind some; the inflated body."""
    parts, byte = [data[:SEGMENT_HEADER_BYTES]], SEGMENT_HEADER_BYTES
    while byte < len(data):
        frame = decode_frame_header(data, byte, (FrameType.COMMIT, FrameType.BATCH))
        body = pa.py_buffer(data[byte + FRAME_HEADER_BYTES :][: frame.body_bytes])
        raw = inflated(body, frame.codec, frame.raw_bytes).to_pybytes()
        parts += [data[byte:][:12], data[byte:][16:40], data[byte:][48:112], raw]
        byte += frame.frame_bytes
    return parts


@pytest.mark.parametrize(
    "case", [c for c in named("frame") if "rows" in c["body"]], ids=lambda case: case["name"]
)
def test_batch_body(case: dict[str, Any]) -> None:
    header, stored = split(data_of(case))
    schema = schema_of(case["body"]["schema"])
    count = header.record_count
    codec = header.codec
    records = decode_body(pa.py_buffer(stored), codec, header.raw_bytes, schema, count)
    assert rows_of(records) == case["body"]["rows"]
    raw = bytes(records.serialize())
    assert len(raw) == header.raw_bytes
    if codec == Codec.COLUMNS:
        assert raw not in stored
    elif codec == Codec.ZSTD:
        assert pa.Codec("zstd").decompress(stored, header.raw_bytes).to_pybytes() == raw
    else:
        assert raw == stored
    again = encode_body(records, 1)
    assert (again.raw_bytes, again.record_count) == (header.raw_bytes, count)
    stamps = (again.min_timestamp_us, again.max_timestamp_us)
    assert stamps == (header.min_timestamp_us, header.max_timestamp_us)
    again_stored = pa.py_buffer(again.stored)
    assert decode_body(again_stored, again.codec, len(raw), schema, count).equals(records)


@each("frame header")
def test_frame_header_alone(case: dict[str, Any]) -> None:
    header = decode_frame_header(data_of(case))
    found = header._asdict()
    assert {name: found[name] for name in case["expect"]} == case["expect"]
    assert header._replace(header_crc=0).encode() == data_of(case)
    with pytest.raises(BadHeader, match="is over"):
        decode_frame_header(header._replace(header_crc=0, record_count=2).encode())


@pytest.mark.parametrize(
    "case", [c for c in named("frame") if "columns" in c], ids=lambda case: case["name"]
)
def test_schema_body(case: dict[str, Any]) -> None:
    _, body = split(data_of(case))
    schema = RecordSchema.decode(body)
    assert {field.name: str(field.type) for field in schema.arrow} == case["columns"]
    assert list(case["columns"]) == schema.arrow.names
    assert schema.timestamp_column == case["timestamp_column"]
    assert schema.encode() == body


# -- a whole queue ----------------------------------------------------------------------------


def queue_folder() -> MemoryFolder:
    return MemoryFolder({path.name: path.read_bytes() for path in (FOLDER / QUEUE).iterdir()})


EXPECT = named("queue")[0]["expect"]


def test_queue_reads_as_expected() -> None:
    chain = Chain(queue_folder())
    assert chain.manifest.epoch == EXPECT["epoch"]
    assert list(chain.segments) == list(range(len(EXPECT["segments"])))
    batches = [rows_of(chain.records(frame)) for frame in chain.frames()]
    assert batches == EXPECT["batches"]
    assert (chain.end.seq, chain.end.offset) == (len(batches), sum(map(len, batches)))
    backward, frame = [], chain.last()
    while frame is not None:
        backward.append(rows_of(chain.records(frame, backward=True)))
        frame = chain.before(frame)
    assert backward == batches[::-1]


def test_queue_frames_are_as_expected() -> None:
    folder = queue_folder()
    for segment_id, expected in enumerate(EXPECT["segments"]):
        reader = SegmentReader(folder, segment_id)
        found = [
            (FrameType(header.type).name, header.seq, header.first_offset, header.record_count)
            for _, header in reader.frames(stop=reader.size(), bodies=True)
        ]
        assert found == [tuple(frame) for frame in expected]


def test_queue_chain_crcs_agree() -> None:
    folder = queue_folder()
    for segment_id in range(1, len(EXPECT["segments"])):
        before = SegmentReader(folder, segment_id - 1)
        header = SegmentReader(folder, segment_id).header
        tail = read_tail(before, sealed_end=header.prev_bytes)
        assert header.prev_segment == segment_id - 1
        assert header.prev_salt == before.header.salt
        assert (header.prev_bytes, header.prev_chain) == (tail.vouched_end, tail.running_crc)
        assert header.prev_bytes == folder.size(segment_name(segment_id - 1))


def test_queue_encodes_again() -> None:
    folder = queue_folder()
    name = manifest_name(EXPECT["epoch"])
    data = bytes(folder.files[name])
    assert Manifest.decode(data, name).encode() == data
    count = 0
    for segment_id in range(len(EXPECT["segments"])):
        data = bytes(folder.files[segment_name(segment_id)])
        reader = SegmentReader(folder, segment_id)
        again = SegmentHeader.encode(reader.header)
        for byte, header in reader.frames(stop=len(data), bodies=True):
            body = reader.body_at(byte, header).to_pybytes()
            if header.type == FrameType.BATCH:
                schema, rows = reader.schema(header), header.record_count
                stored = pa.py_buffer(body)
                records = decode_body(stored, header.codec, header.raw_bytes, schema, rows)
                raw = pa.Codec("zstd").decompress(stored, header.raw_bytes)
                assert records.serialize().equals(raw)
            else:
                assert RecordSchema.decode(body).encode() == body
            again += header._replace(header_crc=0).encode() + body
            count += 1
        assert again == data
    assert count == sum(map(len, EXPECT["segments"]))


def test_queue_can_be_appended_to() -> None:
    folder = queue_folder()
    writer, report = reopen(folder, make_vectors.SCHEMAS["plain"], make_vectors.clock_and_entropy())
    assert (report.carried_frames, report.torn_bytes) == (0, 0)
    assert (writer.cursor.seq, writer.cursor.offset) == (4, 7)
    writer.close()
    assert Chain(folder).end.offset == 7
    tails = [read_tail(SegmentReader(folder, i)).verdict for i in range(4)]
    assert tails == [Verdict.CLEAN_END] * 4


# -- a queue of steps -------------------------------------------------------------------------


def steps_folder() -> MemoryFolder:
    folder = FOLDER / QUEUE_OF_STEPS
    return MemoryFolder({path.name: path.read_bytes() for path in folder.iterdir()})


def steps_of(chain: Chain) -> list[list[list[int | None]]]:
    steps: list[list[list[int | None]]] = [[]]
    for frame in chain.frames():
        (row,) = rows_of(chain.records(frame))
        steps[-1].append([row["_timestamp"], row["n"]])
        if not frame.header.continues:
            steps.append([])
    assert steps.pop() == [], "the last step is not whole"
    return steps


def test_queue_of_steps_reads_as_expected() -> None:
    (case,) = named("steps")
    chain = Chain(steps_folder())
    assert steps_of(chain) == case["expect"]["steps"]
    assert (chain.end.seq, chain.end.offset) == (6, 6)
    assert verify(steps_folder()).is_sound


def test_queue_of_steps_is_opened_without_what_was_not_finished() -> None:
    folder = steps_folder()
    frames = list(SegmentReader(folder, 1).frames(stop=folder.size(segment_name(1))))
    assert [header.seq for _, header in frames if header.type == FrameType.BATCH][-2:] == [6, 7]
    writer, report = reopen(folder, make_vectors.SCHEMAS["plain"], make_vectors.clock_and_entropy())
    assert (report.carried_frames, report.torn_bytes > 0, writer.cursor.seq) == (0, True, 6)
    writer.close()
    assert steps_of(Chain(folder)) == named("steps")[0]["expect"]["steps"]


# -- state logs -------------------------------------------------------------------------------


def state_folder(case: dict[str, Any]) -> MemoryFolder:
    folder = FOLDER / case["name"]
    return MemoryFolder({path.name: path.read_bytes() for path in folder.iterdir()})


@each("state log")
def test_state_log_reads_as_expected(case: dict[str, Any]) -> None:
    log = open_queue(state_folder(case))
    assert isinstance(log, StateLog)
    versions = case["expect"]["versions"]
    assert log.versions() == [each["version"] for each in versions]
    by_number = [(each["version"], each) for each in versions]
    by_id = [(each["unique_id"], each) for each in versions + case["expect"]["others"]]
    for at, expect in [*by_number, *by_id]:
        if at is None:
            continue  # merged into a segment that the id does not lead to
        found = log.rebuild(at=at)
        rows = zip(found.keys.to_pylist(), found.states.to_pylist(), strict=True)
        state = sorted([k["family"], k["key"].hex(), s["value"].hex()] for k, s in rows)
        assert state == expect["state"]
        figures = (found.open_windows, found.extent.records, found.replay_upto.tolist())
        assert figures == (expect["open_windows"], expect["extent_records"], [expect["version"]])
    assert verify(state_folder(case)).is_sound


@each("state log")
def test_state_log_encodes_again(case: dict[str, Any]) -> None:
    folder = state_folder(case)
    codecs = set()
    for name, data in folder.files.items():
        segment_id = segment_id_of(name)
        if segment_id is None:
            continue  # of a key directory
        reader = SegmentReader(folder, segment_id)
        again = reader.header.encode()
        for byte, header in reader.frames(stop=len(data), bodies=True):
            body = reader.body_at(byte, header)
            if header.type == FrameType.BATCH:
                codecs.add(header.codec)
                schema, rows = reader.schema(header), header.record_count
                records = decode_body(body, header.codec, header.raw_bytes, schema, rows)
                if header.codec != Codec.BLOCKS:
                    assert len(records.serialize()) == header.raw_bytes
            again += header._replace(header_crc=0).encode() + body.to_pybytes()
        assert again == data
    assert Codec.NONE in codecs or case["name"] == directories.NAME
    assert Codec.BLOCKS in codecs or case["name"] not in (STATE_LOG, directories.NAME)


def test_key_directories_say_what_their_log_says() -> None:
    (case,) = [case for case in named("state log") if case["name"] == directories.NAME]
    folder = state_folder(case)
    assert verify(folder, records=True, rebuilds=True) == verify(folder, records=True)
    live = sorted(name for name in folder.files if name.endswith(".live"))
    assert [read_live_file(folder, name).version for name in live] == case["expect"]["directories"]


def test_state_log_holds_what_was_given_up_under_its_own_id() -> None:
    (case,) = [case for case in named("state log") if case["name"] == STATE_LOG]
    (given_up,) = case["expect"]["others"]
    counts = case["expect"]["versions"][given_up["version"] - 1]
    assert given_up["version"] == counts["version"]
    assert given_up["unique_id"] < counts["unique_id"]
    assert given_up["state"] != counts["state"]


# -- docs/format.md ---------------------------------------------------------------------------

HEX_LINE = re.compile(r"^([0-9a-f]{4})  ((?:[0-9a-f]{2} ?)+)(?:  .*)?$", re.MULTILINE)


def test_the_worked_example_is_the_vector() -> None:
    text = re.split(r"## \d+. A worked example", FORMAT_PAGE.read_text("utf-8"))[1]
    text = text.split("\n## ")[0]
    blocks = re.findall(r"```\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    folder = queue_folder()
    for block, name in zip(blocks, (manifest_name(1), segment_name(0)), strict=True):
        page = b""
        for at, digits in HEX_LINE.findall(block):
            assert int(at, 16) == len(page), f"{name}: the line at {at}"
            page += bytes.fromhex(digits)
        assert page == bytes(folder.files[name])
        every_line = [line for line in block.splitlines() if line.strip()]
        assert len(HEX_LINE.findall(block)) == len([x for x in every_line if x[0] != "#"])


def test_the_segment_of_the_worked_example_has_every_frame_type() -> None:
    assert [frame[0] for frame in EXPECT["segments"][0]] == ["SCHEMA", "BATCH"]
    assert queue_folder().size(segment_name(0)) > SEGMENT_HEADER_BYTES
