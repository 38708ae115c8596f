"""Every single-bit flip in a queue is refused by name, or leaves what was acknowledged alone."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

from cec_store.errors import CorruptLog, NotAQueue, UnsupportedVersion
from cec_store.format.bodies import encode_body
from cec_store.format.checksum import crc32c
from cec_store.format.durable_end import DURABLE_END_BYTES, SLOTS_AT
from cec_store.format.frame import FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES, FrameType
from cec_store.log.chain import Chain
from cec_store.log.creating import create
from cec_store.log.frames import FrameMarks
from cec_store.log.known_end import read_known_end
from cec_store.log.reopening import reopen
from cec_store.log.segment import SegmentReader
from cec_store.storage.names import (
    durable_epoch_of,
    manifest_epoch_of,
    segment_id_of,
    segment_name,
)
from support.disks.memory_folder import MemoryFolder
from support.runs.counts import crash_count
from support.runs.suites import Tally
from support.vectors import make as make_vectors
from support.vectors.make import OPERATOR_ROWS, SCHEMAS, queue_files, records_of

LOUD = (CorruptLog, UnsupportedVersion, NotAQueue)
STRIDE = 7
"""Between the bits that the quick tests flip: odd, so that each bit of a byte comes round."""


@dataclass
class Corpus:
    files: dict[str, bytes]
    acked: list[pa.RecordBatch]
    written: list[pa.RecordBatch]
    """Those acknowledged and those not, which may be there or not."""


def plain_queue() -> Corpus:
    """Three segments: completed by a roll, sealed by its successor, live."""
    rows = make_vectors.QUEUE_BATCHES
    batches = [records_of(SCHEMAS["plain"], batch) for batch in rows]
    return Corpus(queue_files(), batches, batches)


def operator_queue() -> Corpus:
    """Every kind of record, keys and states; the last frame was never acknowledged."""
    folder, schema = MemoryFolder({}), SCHEMAS["operator"]
    parts = [OPERATOR_ROWS[:2], OPERATOR_ROWS[2:], OPERATOR_ROWS[3:4]]
    batches = [records_of(schema, rows) for rows in parts]
    writer = create(folder, schema, make_vectors.clock_and_entropy())
    for batch in batches[:2]:
        writer.append(encode_body(batch, 1), FrameMarks())
        writer.sync()
    writer.append(encode_body(batches[2], 1), FrameMarks())
    writer.close()
    return Corpus({n: bytes(d) for n, d in folder.files.items()}, batches[:2], batches)


CORPORA = {"plain": plain_queue(), "operator": operator_queue()}


def structures(corpus: Corpus) -> Iterator[tuple[str, str, int, int]]:
    """Each (file, what, first byte, bytes) of a corpus."""
    folder = MemoryFolder(corpus.files)
    for name, data in corpus.files.items():
        if manifest_epoch_of(name) is not None:
            yield name, "manifest", 0, len(data)
        segment_id = segment_id_of(name)
        if durable_epoch_of(name) is not None:
            for slot in SLOTS_AT:
                if len(data) > slot:
                    yield name, "note", slot, DURABLE_END_BYTES
        if segment_id is not None:
            yield name, "segment header", 0, SEGMENT_HEADER_BYTES
            reader = SegmentReader(folder, segment_id)
            for byte, header in reader.frames(stop=len(data), bodies=True):
                what = FrameType(header.type).name
                yield name, f"{what} header", byte, FRAME_HEADER_BYTES
                if header.body_bytes:
                    yield name, f"{what} body", byte + FRAME_HEADER_BYTES, header.body_bytes


def bytes_between_slots(corpus: Corpus) -> int:
    """How many bytes of the notes are in no slot: they keep them apart, and nobody reads them."""
    notes = [len(d) for name, d in corpus.files.items() if durable_epoch_of(name) is not None]
    return sum(size - DURABLE_END_BYTES * sum(at < size for at in SLOTS_AT) for size in notes)


def read_all(folder: MemoryFolder) -> list[pa.RecordBatch]:
    chain = Chain(folder)
    chain.schema()
    return [chain.records(frame) for frame in chain.frames()]


def is_prefix(found: list[pa.RecordBatch], of: list[pa.RecordBatch]) -> bool:
    pairs = zip(found, of, strict=False)
    return len(found) <= len(of) and all(a.equals(b) for a, b in pairs)


def outcome_of_reading(folder: MemoryFolder, corpus: Corpus) -> str:
    before = folder.snapshot()
    try:
        found = read_all(folder)
    except LOUD:
        return "refused"
    finally:
        assert folder.snapshot() == before, "a reader wrote"
    assert is_prefix(found, corpus.written), "a wrong record"
    return "all" if len(found) >= len(corpus.acked) else "fewer"


def outcome_of_appending(folder: MemoryFolder, corpus: Corpus, may_lose: bool = False) -> str:
    before = folder.snapshot()
    try:
        writer, _ = reopen(folder, None, make_vectors.clock_and_entropy())
    except LOUD:
        assert folder.snapshot() == before, "refused, and yet changed"
        return "refused"
    writer.close()
    try:
        found = read_all(folder)
    except LOUD:
        return "refused"  # an opening does not read what stands before the noted end, readers do
    assert is_prefix(found, corpus.written), "a wrong record"
    if may_lose and len(found) < len(corpus.acked):
        return "fewer"
    assert len(found) >= len(corpus.acked), "an acknowledged record is gone"
    return "all"


def acknowledged_end(corpus: Corpus) -> tuple[str, int]:
    """Up to where the live segment was acknowledged, as (file, byte)."""
    noted = read_known_end(MemoryFolder(corpus.files)).noted
    assert noted is not None
    return segment_name(noted.segment_id), noted.byte


def harmless(corpus: Corpus) -> dict[tuple[str, int], set[str]]:
    """The only places, as (file, byte), where a flip may pass, and how."""
    live, end = acknowledged_end(corpus)
    passing = {}
    for file, what, first, _ in structures(corpus):
        # What was never acknowledged; and a slot, which is older than the other or repeats it.
        if (file == live and first >= end) or what == "note":
            passing[file, first] = {"read all", "append all"}
    return passing


@pytest.mark.crash
@pytest.mark.parametrize("name", CORPORA)
def test_no_flip_goes_unseen(name: str, tally: Tally) -> None:
    corpus = CORPORA[name]
    passing = harmless(corpus)
    flips: Counter[str] = Counter()
    stride = crash_count(STRIDE, 1)
    for file, what, first, size in structures(corpus):
        outcomes: Counter[str] = Counter()
        bits = range(first * 8, (first + size) * 8, stride)
        for bit in bits:
            folder = MemoryFolder(corpus.files)
            folder.flip(file, bit)
            outcomes["read " + outcome_of_reading(folder, corpus)] += 1
            outcomes["append " + outcome_of_appending(folder, corpus)] += 1
        wanted = passing.get((file, first), {"read refused", "append refused"})
        assert set(outcomes) == wanted, f"{what} at byte {first} of {file}"
        assert outcomes.total() == 2 * len(bits)
        flips[what] += len(bits)
    kinds = (FrameType.SCHEMA, FrameType.BATCH)
    wanted_types = {f"{kind.name} {part}" for kind in kinds for part in ("header", "body")}
    assert set(flips) == wanted_types | {"manifest", "note", "segment header"}
    tally(flips.total())
    every = 8 * (sum(map(len, corpus.files.values())) - bytes_between_slots(corpus))
    assert min(flips.values()) >= 24 * 8 // stride
    assert flips.total() == every if stride == 1 else flips.total() >= every // stride


# -- damage that is larger than a bit ---------------------------------------------------------


def frames_of(corpus: Corpus) -> list[tuple[str, int, int]]:
    """Each frame as (file, byte, bytes)."""
    folder = MemoryFolder(corpus.files)
    found = []
    for name, data in corpus.files.items():
        segment_id = segment_id_of(name)
        if segment_id is not None:
            reader = SegmentReader(folder, segment_id)
            frames = reader.frames(stop=len(data), bodies=True)
            found += [(name, byte, header.frame_bytes) for byte, header in frames]
    return found


def judge(folder: MemoryFolder, corpus: Corpus, may_lose: bool = False) -> tuple[str, str]:
    reading = outcome_of_reading(folder, corpus)
    return reading, outcome_of_appending(folder, corpus, may_lose)


@pytest.mark.parametrize("name", CORPORA)
def test_frames_in_another_place_are_never_taken(name: str) -> None:
    """Copied over or after one another, within and between segments: seq and salt tell."""
    corpus = CORPORA[name]
    frames = frames_of(corpus)
    copies = 0
    for source, at, size in frames:
        data = corpus.files[source][at : at + size]
        for target, to, old in frames:
            if (source, at) == (target, to):
                continue
            for cut in (0, old):  # put in before it, or in its place
                folder = MemoryFolder(corpus.files)
                folder.files[target][to : to + cut] = data
                # What shifts all that follows can hide its end, but never show a wrong record.
                judge(folder, corpus, may_lose=size != cut)
                copies += 1
    assert copies > 20


@pytest.mark.parametrize("name", CORPORA)
def test_a_frame_taken_out_is_missed(name: str) -> None:
    corpus = CORPORA[name]
    live, end = acknowledged_end(corpus)
    for file, at, size in frames_of(corpus):
        folder = MemoryFolder(corpus.files)
        del folder.files[file][at : at + size]
        is_unacknowledged = file == live and at >= end
        wanted = ("all", "all") if is_unacknowledged else ("refused", "refused")
        assert judge(folder, corpus) == wanted, (file, at)


@pytest.mark.crash
@pytest.mark.parametrize("part", range(crash_count(1, 8)))
@pytest.mark.parametrize("name", CORPORA)
def test_random_damage_is_never_a_wrong_record(name: str, part: int, tally: Tally) -> None:
    """Two or three bits, bursts, zeroed and repeated stretches, anywhere."""
    corpus = CORPORA[name]
    generator = random.Random(f"damage {name} {part}")
    names = [name for name, data in corpus.files.items() if data]
    outcomes: Counter[str] = Counter()
    for _ in range(crash_count(2_000, 60_000)):
        folder = MemoryFolder(corpus.files)
        file = generator.choice(names)
        data = folder.files[file]
        at = generator.randrange(len(data))
        size = generator.choice([1, 4, 16, 128, 512])
        kind = generator.choice(["bits", "burst", "zeros", "copy"])
        if kind == "bits":
            for _ in range(generator.choice([2, 3])):
                folder.flip(file, generator.randrange(8 * len(data)))
        elif kind == "burst":
            data[at : at + size] = generator.randbytes(len(data[at : at + size]))
        elif kind == "zeros":
            data[at : at + size] = bytes(len(data[at : at + size]))
        else:
            source = generator.randrange(len(data))
            data[at : at + size] = data[source : source + len(data[at : at + size])]
        outcomes.update(judge(folder, corpus))
    tally(outcomes.total() // 2)
    assert outcomes["refused"] > outcomes.total() // 2


@pytest.mark.parametrize("name", CORPORA)
def test_a_segment_of_another_life_is_refused(name: str) -> None:
    """An older copy of a segment, sound in itself, put back from a backup."""
    corpus = CORPORA[name]
    for file in corpus.files:
        if segment_id_of(file) is None:
            continue
        other = MemoryFolder(corpus.files)
        data = other.files[file]
        data[40] ^= 1  # another salt, and a header that is sound again
        data[124:128] = crc32c(bytes(data[:124])).to_bytes(4, "little")
        assert judge(other, corpus)[0] == "refused"
