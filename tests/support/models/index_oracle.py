"""Queues to index, and a brute-force answer to every lookup."""

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import lmdb
import pyarrow as pa

from cec_store.errors import OutOfRange
from cec_store.format.schema import RecordSchema
from cec_store.indexes.files import Stamp
from cec_store.indexes.timestamp import TimestampIndex
from cec_store.log.chain import Chain
from cec_store.log.options import QueueOptions
from cec_store.queues.appendable_queue import AppendableQueue
from cec_store.storage.local import LocalFolder
from cec_store.values import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US

SCHEMA = RecordSchema(pa.schema([("number", pa.int64())]))
OPTIONS = QueueOptions(sync="none")


def open_for_append(path: Path, mode: str = "a") -> AppendableQueue:
    return AppendableQueue(LocalFolder(path), mode, SCHEMA, OPTIONS)


def append(queue: AppendableQueue, timestamps_us: Sequence[int]) -> None:
    rows = len(timestamps_us)
    batch = pa.record_batch({"number": pa.array(range(rows), pa.int64())})
    queue.append(batch, pa.array(timestamps_us, pa.int64()))


def make_queue(path: Path, frames: Iterable[Sequence[int]], roll_every: int = 0) -> Path:
    with open_for_append(path, "x") as queue:
        for number, timestamps_us in enumerate(frames):
            if roll_every and number and number % roll_every == 0:
                queue.roll()
            append(queue, timestamps_us)
    return path


def chain_of(path: Path) -> Chain:
    return Chain(LocalFolder(path))


def build(path: Path) -> TimestampIndex:
    """A writer's index, with all that is in the log."""
    index = TimestampIndex(chain_of(path), writable=True)
    index.follow()
    return index


def answer(lookup: Callable[[int], object], value: int) -> object:
    try:
        return lookup(value)
    except OutOfRange as error:
        return str(error)


def assert_equals_scan(index: TimestampIndex, chain: Chain) -> int:
    """Every kind of lookup, at and around each frame's edges; returns how many were compared."""
    frames = list(chain.frames())
    edges = {0, MIN_TIMESTAMP_US, MAX_TIMESTAMP_US}
    for frame in frames:
        edges |= {frame.header.min_timestamp_us, frame.header.max_timestamp_us}
    moments = sorted({m for edge in edges for m in (edge - 1, edge, edge + 1)})
    for moment in moments:
        found = index.find_timestamp(moment, chain)
        wanted = next((f for f in frames if f.header.max_timestamp_us >= moment), None)
        assert found == wanted, f"timestamp {moment}"
    offsets = {-1, 0, chain.end.offset - 1, chain.end.offset, chain.end.offset + 1}
    for frame in frames:
        offsets |= {frame.header.first_offset - 1, frame.header.first_offset}
    for offset in sorted(offsets):
        holds = [f for f in frames if f.header.first_offset <= offset < f.header.end_offset]
        wanted = holds[0] if holds else answer(chain.find_offset, offset)
        assert answer(lambda o: index.find_offset(o, chain), offset) == wanted, f"offset {offset}"
    by_seq = {frame.header.seq: frame for frame in frames}
    for seq in range(-1, chain.end.seq + 2):
        wanted = by_seq.get(seq) or answer(chain.find_seq, seq)
        assert answer(lambda s: index.find_seq(s, chain), seq) == wanted, f"frame {seq}"
    return len(moments) + len(offsets) + chain.end.seq + 3


def files_of(path: Path) -> dict[str, str]:
    """Hash, mode and time of change of everything below, the folders included."""
    state = {}
    for item in sorted([path, *path.rglob("*")]):
        facts = item.lstat()
        readable = item.is_file() and not item.is_symlink() and os.access(item, os.R_OK)
        data = item.read_bytes() if readable else b""
        state[str(item.relative_to(path))] = (
            f"{hashlib.sha256(data).hexdigest()} {facts.st_mode:o} {facts.st_mtime_ns}"
        )
    return state


def published_file(path: Path) -> Path:
    return path / "index" / Stamp.decode((path / "index" / "stamp").read_bytes()).name


def rows_of(path: Path) -> dict[str, list[tuple[bytes, bytes]]]:
    """All rows of the published index."""
    file = str(published_file(path))
    with lmdb.open(file, subdir=False, lock=False, readonly=True, max_dbs=2) as environment:
        rows = {}
        for name in ("frames", "timestamps"):
            database = environment.open_db(name.encode(), create=False)
            with environment.begin(database) as transaction:
                rows[name] = list(transaction.cursor())
        with environment.begin() as transaction:
            rows["about"] = [(b"about", transaction.get(b"about"))]
    return rows


def forget_last_note(path: Path) -> None:
    """What a power cut may do to a queue: the note of its durable end, never synced, is lost.

    Then nothing vouches for the last frames.
    """
    for note in path.glob("durable-*"):
        note.unlink()
