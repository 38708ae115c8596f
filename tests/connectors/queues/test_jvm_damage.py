"""Damage anywhere in a queue: the rows that were written, or an error by name, and no crash."""

import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zstandard

from cec_store.format.checksum import crc32c, with_crc
from cec_store.format.frame import FRAME_HEADER_BYTES, Codec, decode_frame_header
from cec_store.opening import queue_at
from support.places.layouts import LAYOUTS, put_into_objects
from support.runs.counts import crash_count
from support.spark.jvm_queues import FORMAT, append, read, refused

pytestmark = pytest.mark.crash
SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("item", pa.string()),
        ("note", pa.string()),
        ("flag", pa.bool_()),
        ("list", pa.list_(pa.string())),
        ("pair", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("map", pa.map_(pa.string(), pa.int64())),
        ("raw", pa.large_binary()),
    ]
)
ROUNDS = crash_count(30, 450)
"""A query each."""


def table(rows: int) -> pa.Table:
    numbers = np.arange(rows)
    columns = [
        numbers,
        [f"i{n % 5}" for n in numbers],
        [None if n % 3 else f"note ü {n}" for n in numbers],
        numbers % 2 == 0,
        [[f"x{n}"] * (n % 3) for n in numbers],
        [{"a": int(n), "b": f"b{n % 4}"} for n in numbers],
        [[("k", int(n))] * (n % 2) for n in numbers],
        [bytes(n % 9) for n in numbers],
    ]
    return pa.table(
        [pa.array(c, t.type) for c, t in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def data_file(path: Path) -> Path:
    """The one that has the rows: of a small append the commit itself."""
    (found,) = queue_at(path).state.live["file"].to_pylist()
    return path / found


def rows_of(session: Any, path: Path) -> pa.Table:
    return read(session, path).toArrow()


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the rows are."""
    if request.param == "objects":
        put_into_objects(monkeypatch)
    return str(request.param)


@pytest.fixture(params=[100, 3000], ids=["whole body", "by columns"])
def queue(request: pytest.FixtureRequest, tmp_path: Path, layout: str) -> Path:
    append(tmp_path / "q", SCHEMA, [table(request.param)])
    assert data_file(tmp_path / "q").suffix == (".commit" if layout == "inline" else ".seg")
    return tmp_path / "q"


def test_flipped_bytes_are_found(spark: Any, queue: Path) -> None:
    file, expected = data_file(queue), rows_of(spark, queue)
    whole, rng = file.read_bytes(), random.Random(7)
    said = []
    for _ in range(ROUNDS // 3):
        at = rng.randrange(len(whole))
        file.write_bytes(
            whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :]
        )
        try:
            found = rows_of(spark, queue)
        except Exception as error:
            said.append(str(error))
        else:
            assert found.equals(expected)  # what stands before or behind the frames is not read
    file.write_bytes(whole)
    assert len(said) > ROUNDS // 10
    assert [text for text in said if file.name not in text or " byte " not in text] == []
    assert rows_of(spark, queue).equals(expected)


def forged(whole: bytes, frame_at: int, change: Any) -> bytes:
    """The file with a changed body whose checksums are right: its structure alone tells.

    A smaller body leaves the file as long as the commit says.
    """
    header = bytearray(whole[frame_at : frame_at + FRAME_HEADER_BYTES])
    size = int.from_bytes(header[112:116], "little")
    start = frame_at + FRAME_HEADER_BYTES
    body = whole[start : start + size]
    if header[5] == Codec.ZSTD:
        raw = zstandard.ZstdDecompressor().decompress(body)
        body = zstandard.ZstdCompressor().compress(bytes(change(bytearray(raw))))
        header[112:116] = len(body).to_bytes(4, "little")
    else:
        body = bytes(change(bytearray(body)))
    header[120:124] = crc32c(body).to_bytes(4, "little")
    made = whole[:frame_at] + with_crc(bytes(header)) + body + whole[start + size :]
    return made.ljust(len(whole), b"\0")


def test_a_body_that_lies_with_right_checksums_does_no_harm(spark: Any, queue: Path) -> None:
    file = data_file(queue)
    whole, rng = file.read_bytes(), random.Random(11)
    segment = queue_at(queue).state.live.to_pylist()[0]
    frame_at = segment["byte"]
    assert decode_frame_header(whole, frame_at).record_count > 0
    said = []

    def change(body: bytearray) -> bytearray:
        for _ in range(rng.choice([1, 1, 2, 8])):
            # Most of what can lie is in the messages' metadata at the front.
            top = len(body) if rng.random() < 0.4 else min(len(body), 4000)
            body[rng.randrange(top)] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        return body

    for _ in range(ROUNDS):
        file.write_bytes(forged(whole, frame_at, change))
        try:
            found = rows_of(spark, queue)
        except Exception as error:
            said.append(str(error))
        else:
            assert found.num_rows <= segment["records"]  # rows of another kind are not asked for
    file.write_bytes(whole)
    assert len(said) > ROUNDS // 12
    assert [text for text in said if file.name not in text] == []
    assert rows_of(spark, queue).num_rows == segment["records"]


def test_a_stream_decodes_no_column_that_its_query_does_not_read(
    spark: Any, tmp_path: Path, layout: str
) -> None:
    append(tmp_path / "q", SCHEMA, [table(100)])
    file, frame_at = data_file(tmp_path / "q"), queue_at(tmp_path / "q").state.live["byte"][0]
    falling = (struct.pack("<4i", 0, 9, 9, 9), struct.pack("<4i", 0, 9, -9, 9))
    broken = lambda body: body.replace(*falling)  # noqa: E731
    file.write_bytes(forged(file.read_bytes(), frame_at.as_py(), broken))

    def run(column: str) -> int:
        rows = spark.readStream.format(FORMAT).option("startingOffsets", "earliest")
        stream = rows.load(str(tmp_path / "q")).select(column).writeStream.format("noop")
        stream = stream.option("checkpointLocation", str(tmp_path / column))
        query = stream.trigger(availableNow=True).start()
        query.awaitTermination()
        return sum(int(p["numInputRows"]) for p in query.recentProgress)

    spark.conf.set("spark.sql.codegen.wholeStage", "true")
    try:
        assert run("n") == 100
        said = refused(lambda: run("note"))
    finally:
        spark.conf.set("spark.sql.codegen.wholeStage", "false")
    assert "offsets of note fall or are below zero" in said
    assert file.name in said


def test_what_a_commit_names_has_to_be_there(spark: Any, queue: Path, layout: str) -> None:
    file = data_file(queue)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert file.name in refused(lambda: read(spark, queue).collect())
    file.unlink()
    said = refused(lambda: read(spark, queue).collect())
    what = "the commit" if layout == "inline" else "an object that a commit names"
    assert f"{what} is missing" in said
    assert file.name in said


def test_a_damaged_commit_is_refused_by_name(spark: Any, queue: Path) -> None:
    newest = max((queue / "log").rglob("*.commit"))
    whole = newest.read_bytes()
    newest.write_bytes(whole[:300] + b"\xff" + whole[301:])
    assert newest.name in refused(lambda: read(spark, queue))
