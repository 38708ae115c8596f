"""Places of each kind, and hands that damage them: each says which fault must be found, and where.

Everything is written by the code under test or by `state_logs`; nothing is mocked.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pyarrow as pa

from cec_store import open_queue
from cec_store.format.frame import FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES
from cec_store.format.schema import RecordSchema
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import segment_name
from support.places import damaged_queues as made
from support.places.made_checkpoints import START_MS, MadeCheckpoint
from support.places.partitioned_queues import commit
from support.places.state_logs import EMPTY, Writer

KEY = pa.struct([("k", pa.int64())])
VALUE = pa.struct([("n", pa.int64())])
QUERY = "3d84e10c-fc41-4fb0-9b0b-2125874a0f07"
COLUMNS = RecordSchema(pa.schema([("n", pa.int64())]))


@dataclass(frozen=True)
class Expected:
    """The fault that must be among those found."""

    kind: str
    path: Path
    byte: int | None = 0
    """None: not known beforehand."""
    log: str = ""
    versions: tuple[int, int] | None = None


Damage = Callable[[Path], Expected]


# -- sound places -----------------------------------------------------------------------------


def queue(path: Path) -> Path:
    """An operator's, in two lives, with a consumer and an index."""
    made.make_operator_queue(path, reopen_at=700)
    with open_queue(path, "a") as opened:
        opened.reindex()
        opened.consumer("hourly").close()
    return path


def rows(first: int, count: int) -> pa.RecordBatch:
    numbers = list(range(first, first + count))
    return pa.RecordBatch.from_pydict({"n": numbers}, schema=COLUMNS.data)


def partitioned(path: Path) -> Path:
    """Three partitions and four commits."""
    for batch in range(4):
        parts = {number: rows(1000 * batch + 100 * number, 20) for number in range(3)}
        commit(path, batch, parts, schema=COLUMNS, clock_us=lambda: START_MS * 1000)
    return path


def store(path: Path) -> Path:
    """A state log of four segments with three versions each."""
    path.mkdir(parents=True)
    writer, last = Writer(LocalFolder(path), Random(4), blocks=True), EMPTY
    for version in range(12):
        if version and version % 3 == 0:
            writer.roll()
        changes = {(1, bytes([version % 4, n])): bytes([version]) * 9 for n in range(20)}
        last = writer.commit(last, changes, renew=10)
    writer.close()
    return path


def checkpoint(path: Path, version: int = 1) -> Path:
    """One operator, two partitions, eight batches over two lives; Hadoop's checksums beside."""
    path.mkdir()
    query = MadeCheckpoint(path, KEY, VALUE, format=version)
    for batch in range(8):
        if batch == 4:
            query.roll()
        changes = [{((batch + n) % 6 + part,): (batch,) for n in range(3)} for part in (0, 10)]
        query.batch(*changes, renew=2)
    query.close()
    for file in [path / "metadata", *path.glob("offsets/*"), *path.glob("commits/*")]:
        add_checksums(file)
    return path


def checkpoint_v2(path: Path) -> Path:
    return checkpoint(path, 2)


def add_checksums(file: Path) -> None:
    """As Hadoop's ChecksumFileSystem writes them."""
    data = file.read_bytes()
    sums = [zlib.crc32(data[at : at + 512]) for at in range(0, len(data), 512)]
    text = b"crc\0" + (512).to_bytes(4, "big") + b"".join(s.to_bytes(4, "big") for s in sums)
    (file.parent / f".{file.name}.crc").write_bytes(text)


# -- hands ------------------------------------------------------------------------------------


def cut(path: Path, byte: int) -> None:
    path.write_bytes(path.read_bytes()[:byte])


def zero(path: Path, byte: int, size: int) -> None:
    data = bytearray(path.read_bytes())
    data[byte : byte + size] = bytes(size)
    path.write_bytes(data)


def batch_at(path: Path, number: int) -> int:
    return made.batches(path)[number][0]


# -- queue ------------------------------------------------------------------------------------


def queue_body(path: Path) -> Expected:
    file = made.segment(path, 1)
    byte = batch_at(file, 3)
    made.flip(file, byte + FRAME_HEADER_BYTES + 9)
    return Expected("body-checksum", file, byte)


def queue_header(path: Path) -> Expected:
    file = made.segment(path, 1)
    byte = batch_at(file, 3)
    made.flip(file, byte + 20)
    return Expected("frame-damaged", file, byte)


def queue_schema(path: Path) -> Expected:
    file = made.segment(path, 1)
    made.flip(file, SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES + 40)
    return Expected("body-checksum", file, SEGMENT_HEADER_BYTES)


def queue_cut(path: Path) -> Expected:
    file = made.segment(path, 1)
    byte = batch_at(file, 4)
    cut(file, byte)
    return Expected("segment-cut", file, byte)


def queue_zeroed(path: Path) -> Expected:
    file = made.segment(path, 1)
    byte = batch_at(file, 2)
    zero(file, byte, 2000)
    return Expected("frame-damaged", file, byte)


def queue_segment_lost(path: Path) -> Expected:
    made.segment(path, 1).unlink()
    return Expected("segment-missing", made.segment(path, 1))


def queue_manifest_lost(path: Path) -> Expected:
    made.manifest(path).unlink()
    return Expected("manifest-missing", path / "manifest-0000000000")


def queue_manifest_damaged(path: Path) -> Expected:
    made.flip(made.manifest(path), 41)
    return Expected("manifest-damaged", made.manifest(path))


def queue_swapped(path: Path) -> Expected:
    first, second = made.segment(path, 0).read_bytes(), made.segment(path, 1).read_bytes()
    made.segment(path, 0).write_bytes(second)
    made.segment(path, 1).write_bytes(first)
    return Expected("segment-foreign", made.segment(path, 0), 32)


def queue_foreign(path: Path) -> Expected:
    other = queue(path.parent / "other")
    shutil.copyfile(made.segment(other, 1), made.segment(path, 1))
    return Expected("segment-foreign", made.segment(path, 1), 16)


def queue_rolled_back(path: Path) -> Expected:
    """A segment with another life: whole, of this queue, and not the one that was continued."""
    file = made.segments(path)[-1]
    made.patch_segment_header(file, 80, 12345, 4)
    return Expected("chain", file, 80)


def queue_of_a_later_format(path: Path) -> Expected:
    file = made.segments(path)[-1]
    made.patch_segment_header(file, 8, 2, 2)
    return Expected("version", file)


def queue_consumer(path: Path) -> Expected:
    made.flip(path / "consumer-hourly.ack", 50)
    return Expected("consumer-damaged", path / "consumer-hourly.ack")


def queue_index(path: Path) -> Expected:
    (data,) = (path / "index").glob("*.mdb")
    made.flip(data, 9000)
    return Expected("index", path / "index" / "stamp")


# -- state store ------------------------------------------------------------------------------


def store_body(path: Path) -> Expected:
    """Of version 11: versions from 11 on need it."""
    file = made.segments(path)[-1]
    byte = batch_at(file, 1)
    made.flip(file, byte + FRAME_HEADER_BYTES + 4)
    return Expected("body-checksum", file, byte, versions=(11, 12))


def store_of_another_life(path: Path) -> Expected:
    """A frame that is right in all but the salt."""
    file = made.segments(path)[-1]
    byte = batch_at(file, 1)
    made.patch_header(file, byte, salt=12345)
    return Expected("frame-damaged", file, byte, versions=(11, 12))


def store_link(path: Path) -> Expected:
    """A frame that says that other frames stand before it; the last one, so it is one fault."""
    file = made.segments(path)[-1]
    byte, header = made.batches(file)[-1]
    made.patch_header(file, byte, chain_crc=header.chain_crc ^ 1)
    return Expected("link", file, byte)


def store_header(path: Path) -> Expected:
    file = made.segments(path)[-1]
    byte = batch_at(file, 0)
    made.flip(file, byte + 100)
    return Expected("frame-damaged", file, byte, versions=(10, 12))


def store_zeroed(path: Path) -> Expected:
    file = made.segments(path)[2]
    byte = batch_at(file, 1)
    zero(file, byte, 500)
    return Expected("frame-damaged", file, byte, versions=(8, 12))


def store_cut(path: Path) -> Expected:
    """Where no frame ends; the next segment builds on what is gone."""
    file = made.segments(path)[1]
    byte = batch_at(file, 2)
    cut(file, byte + 50)
    return Expected("frame-damaged", file, byte, versions=(6, 9))


def store_segment_header(path: Path) -> Expected:
    file = made.segments(path)[3]
    made.flip(file, 41)
    return Expected("segment-header", file, versions=(1, 12))


def store_duplicated(path: Path) -> Expected:
    """The same bytes again under another number."""
    file = made.segments(path)[-1]
    copy = path / segment_name((9 << 32) + 4)
    shutil.copyfile(file, copy)
    return Expected("segment-foreign", copy, 32)


def store_foreign(path: Path) -> Expected:
    """A segment of another store in the place of this one's."""
    other = path.parent / "other"
    other.mkdir()
    writer = Writer(LocalFolder(other), Random(9))
    writer.commit(EMPTY, {(1, b"other"): b"value"})
    writer.close()
    file = made.segments(path)[2]
    shutil.copyfile(made.segments(other)[0], file)
    return Expected("segment-foreign", file, 32)


def store_rolled_back(path: Path) -> Expected:
    """The second segment from an older copy, cut exactly between two frames."""
    file = made.segments(path)[1]
    byte = batch_at(file, 2)
    cut(file, byte)
    return Expected("segment-cut", file, byte, versions=(6, 9))


def store_of_the_future(path: Path) -> Expected:
    file = made.segments(path)[-1]
    made.patch_header(file, batch_at(file, 2), type=9)
    return Expected("version", file, batch_at_any(file, 2))


def batch_at_any(path: Path, number: int) -> int:
    """Of a segment in which a frame is of an unknown type."""
    data, byte = path.read_bytes(), SEGMENT_HEADER_BYTES
    for _ in range(number + 1):  # the schema stands first
        byte += FRAME_HEADER_BYTES + int.from_bytes(data[byte + 112 : byte + 116], "little")
    return byte


# -- checkpoint -------------------------------------------------------------------------------


def state(path: Path, number: int) -> Path:
    return path / "state" / "0" / str(number)


def checkpoint_body(path: Path) -> Expected:
    file = made.segments(state(path, 1))[-1]
    byte = batch_at(file, 3)
    made.flip(file, byte + FRAME_HEADER_BYTES + 4)
    log = "operator 0 (aggregate), partition 1"
    return Expected("body-checksum", file, byte, log, (8, 8))


def checkpoint_partition_lost(path: Path) -> Expected:
    shutil.rmtree(state(path, 1))
    return Expected("log-missing", state(path, 1), 0, "operator 0 (aggregate), partition 1", (1, 8))


def checkpoint_rolled_back(path: Path) -> Expected:
    """One store from a copy that is two batches older, and as sound as it was then."""
    file = made.segments(state(path, 0))[-1]
    cut(file, batch_at(file, 2))
    log = "operator 0 (aggregate), partition 0"
    return Expected("version-missing", state(path, 0), 0, log, (7, 8))


def checkpoint_rolled_back_v2(path: Path) -> Expected:
    file = made.segments(state(path, 0))[-1]
    byte = batch_at(file, 2)
    cut(file, byte)
    return Expected("version-missing", file, byte, "operator 0 (aggregate), partition 0", (7, 8))


def checkpoint_wrong_id(path: Path) -> Expected:
    """What partition 1 left is said to be partition 0's."""
    file = path / "commits" / "7"
    first, second = (made.segments(state(path, number))[-1].stem for number in (0, 1))
    names = [f"{int(stem):016x}" for stem in (first, second)]
    text = file.read_text()
    assert names[0] in text
    file.write_text(text.replace(names[0], "@").replace(names[1], names[0]).replace("@", names[1]))
    add_checksums(file)
    lost = state(path, 0) / f"{second}.seg"
    return Expected("version-missing", lost, 0, "operator 0 (aggregate), partition 0", (8, 8))


def checkpoint_metadata_lost(path: Path) -> Expected:
    (path / "metadata").unlink()
    return Expected("spark-metadata", path / "metadata")


def checkpoint_metadata_damaged(path: Path) -> Expected:
    (path / "metadata").write_bytes(b'{"id')
    return Expected("spark-metadata", path / "metadata")


def checkpoint_offsets_cut(path: Path) -> Expected:
    cut(path / "offsets" / "6", 3)
    return Expected("spark-offsets", path / "offsets" / "6", 3)


def checkpoint_offsets_lost(path: Path) -> Expected:
    (path / "offsets" / "5").unlink()
    return Expected("spark-offsets", path / "offsets" / "5")


def checkpoint_of_the_future(path: Path) -> Expected:
    file = path / "offsets" / "7"
    file.write_text(file.read_text().replace("v1", "v9"))
    add_checksums(file)
    return Expected("version", file)


def checkpoint_repartition_refused(path: Path) -> Expected:
    """Spark has written the offsets of the next batch, and looked at the provider then."""
    file = path / "offsets" / "8"
    said = (path / "offsets" / "7").read_text()
    conf = {"spark.sql.shuffle.partitions": "5"}
    file.write_text(said.replace('"conf": {}', f'"conf": {json.dumps(conf)}'))
    add_checksums(file)
    return Expected("spark-repartition", file)


def checkpoint_commits_garbage(path: Path) -> Expected:
    (path / "commits" / "7").write_bytes(bytes(range(200, 250)))
    return Expected("spark-commits", path / "commits" / "7")


def checkpoint_commits_lost(path: Path) -> Expected:
    for batch in (5, 6, 7):
        (path / "commits" / str(batch)).unlink()
    return Expected("spark-commits", path / "commits" / "5")


def checkpoint_checksum(path: Path) -> Expected:
    """The file says something else that parses as well."""
    file = path / "offsets" / "7"
    file.write_text(file.read_text().replace('"batchWatermarkMs": 0', '"batchWatermarkMs": 7'))
    return Expected("spark-checksum", file)


def checkpoint_schema(path: Path) -> Expected:
    file = state(path, 0) / "_metadata" / "schema"
    cut(file, 20)
    return Expected("spark-schema", file, None)


def checkpoint_operator_metadata(path: Path) -> Expected:
    file = path / "state" / "0" / "_metadata" / "metadata"
    file.write_bytes(b"v1\n{nothing")
    return Expected("spark-schema", file, 3)


DAMAGES: list[tuple[Callable[[Path], Path], Damage]] = [
    *((queue, damage) for damage in (
        queue_body, queue_header, queue_schema, queue_cut, queue_zeroed,
        queue_segment_lost, queue_manifest_lost, queue_manifest_damaged,
        queue_swapped, queue_foreign, queue_rolled_back, queue_of_a_later_format, queue_consumer,
        queue_index,
    )),
    *((store, damage) for damage in (
        store_body, store_of_another_life, store_link, store_header, store_zeroed, store_cut,
        store_segment_header, store_duplicated,
        store_foreign, store_rolled_back, store_of_the_future,
    )),
    *((checkpoint, damage) for damage in (
        checkpoint_body, checkpoint_partition_lost, checkpoint_rolled_back,
        checkpoint_metadata_lost, checkpoint_metadata_damaged, checkpoint_offsets_cut,
        checkpoint_offsets_lost, checkpoint_commits_garbage, checkpoint_commits_lost,
        checkpoint_checksum, checkpoint_schema, checkpoint_operator_metadata,
        checkpoint_of_the_future, checkpoint_repartition_refused,
    )),
    *((checkpoint_v2, damage) for damage in (
        checkpoint_body, checkpoint_rolled_back_v2, checkpoint_wrong_id,
        checkpoint_commits_garbage,
    )),
]  # fmt: skip
