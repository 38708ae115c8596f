"""A process beside others on one queue: its writer, or a reader that checks all that it sees.

Run as a program, with the words ROLE PATH NOTES SECONDS SEED. What a record holds follows from
its number, so a reader needs no copy of the log; how far the writer is stands in NOTES, a file
that all of them map. A reader prints what it has done as a line of JSON, or fails.
"""

import json
import mmap
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence

import pyarrow as pa

from cec_store.errors import NotAQueue, OutOfRange
from cec_store.format.schema import RecordKind, RecordSchema
from cec_store.log.frames import FrameMarks
from cec_store.log.options import QueueOptions
from cec_store.opening import open_queue
from cec_store.queues.output_queue import OutputQueue
from cec_store.storage.folder import AppendFile
from cec_store.storage.names import segment_id_of
from cec_store.values import Position
from support.processes.killed_writer import PiecewiseFolder

HANDED, SYNCED, ACKED, TRIMMED, FINAL, ROLLS, TRIMS, NOTES = range(8)
"""Places in the notes: record offsets, but for the last two, which count.

A bound from above is written before what it bounds, a bound from below after it.
"""
WINDOWS = 9
TICKS_US = 10
OPTIONS = QueueOptions(sync="group", segment_bytes=12_000, group_max_wait_ms=1)
SCHEMA = RecordSchema(
    pa.schema([("number", pa.int64()), ("noise", pa.binary())]),
    key=pa.schema([("window", pa.int64())]),
    state=pa.schema([("seen", pa.int64())]),
    inputs=1,
)


def open_notes(path: str) -> memoryview:
    with open(path, "r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), NOTES * 8)).cast("q")


# -- what the log holds -----------------------------------------------------------------------


def noise(offset: int) -> bytes:
    return random.Random(offset).randbytes(offset % 5 * 30)


def frame(seq: int, offset: int) -> tuple[pa.RecordBatch, FrameMarks]:
    """Frame ``seq``: a few results, then the footprint of one of the open windows in turn."""
    rows = seq % 4 + 1
    last = rows - 1
    offsets = range(offset, offset + rows)
    columns = [
        pa.array([RecordKind.DATA] * last + [RecordKind.CHECK], pa.uint8()),
        pa.array([at * TICKS_US for at in offsets], SCHEMA.arrow.field("_timestamp").type),
        pa.array([seq + 1] * rows),
        pa.array([None] * last + [{"window": seq % WINDOWS}], SCHEMA.arrow.field("_key").type),
        pa.array([None] * last + [{"seen": seq}], SCHEMA.arrow.field("_state").type),
        pa.array(offsets, pa.int64()),
        pa.array([noise(at) for at in offsets], pa.binary()),
    ]
    windows = min(seq + 1, WINDOWS)
    # The oldest footprint is the last record of the frame so many before.
    extent = 1 + sum(n % 4 + 1 for n in range(seq - windows + 2, seq + 1))
    return (
        pa.RecordBatch.from_arrays(columns, schema=SCHEMA.arrow),
        FrameMarks(windows, extent, seq + 1),
    )


def check(batch: pa.RecordBatch, due: int) -> int:
    """The batch holds the records from ``due`` on; returns the next number."""
    upto = due + batch.num_rows
    offsets = list(range(due, upto))
    assert batch["_offset"].to_pylist() == offsets, f"records {batch['_offset']} where {due} is due"
    assert batch["number"].to_pylist() == offsets, f"record {due}: not its number"
    stamps = batch["_timestamp"].cast(pa.int64()).to_pylist()
    assert stamps == [at * TICKS_US for at in offsets], f"record {due}: not its time"
    assert batch["noise"].to_pylist() == [noise(at) for at in offsets], f"record {due}: content"
    return upto


# -- the writer -------------------------------------------------------------------------------


class NotedFile:
    """Says how many records are on disk, after the sync and before anyone vouches for them."""

    def __init__(self, file: AppendFile, folder: "NotedFolder") -> None:
        self._file = file
        self._folder = folder
        self.close = file.close

    def write(self, parts: Sequence[bytes]) -> None:
        self._file.write(parts)

    def sync(self) -> None:
        handed = self._folder.handed()
        time.sleep(self._folder.random.choice((0, 0.0005, 0.002)))  # readers may look meanwhile
        self._file.sync()
        self._folder.notes[SYNCED] = max(self._folder.notes[SYNCED], handed)


class NotedFolder(PiecewiseFolder):
    def __init__(self, path: str, notes: memoryview, seed: int) -> None:
        super().__init__(path)
        self.notes = notes
        self.random = random.Random(seed)
        self.handed: Callable[[], int] = lambda: 0

    def create(self, name: str) -> AppendFile:
        file = super().create(name)
        return file if segment_id_of(name) is None else NotedFile(file, self)


def write(path: str, notes: memoryview, seconds: float, seed: int) -> None:
    """Append, wait, roll, trim, close and open again, until the time is over.

    A machine that is very busy gets ten times as long to trim once.
    """
    until = time.monotonic() + seconds
    patience = until + 9 * seconds
    generator = random.Random(seed)
    while notes[FINAL] < 0:
        folder = NotedFolder(path, notes, seed)
        with open_queue(folder, "a", schema=SCHEMA, options=OPTIONS) as queue:
            pipeline = queue._pipeline
            assert pipeline is not None
            folder.handed = lambda p=pipeline: p.writer.cursor.offset  # type: ignore[misc]
            session = min(until, time.monotonic() + generator.uniform(0.3, 1.2))
            while time.monotonic() < session:
                append(queue, notes)
                move_on(queue, notes, generator)
            if time.monotonic() >= until and not notes[TRIMS] and until < patience:
                until += seconds
            elif time.monotonic() >= until:
                append(queue, notes, last=True)
        notes[ACKED] = queue.durable_offset


def append(queue: OutputQueue, notes: memoryview, last: bool = False) -> None:
    assert queue._pipeline is not None
    end = queue._pipeline.end
    records, marks = frame(end.seq, end.offset)
    notes[HANDED] = end.offset + records.num_rows
    if last:
        notes[FINAL] = notes[HANDED]
    queue.append_records(records, marks)


def move_on(queue: OutputQueue, notes: memoryview, generator: random.Random) -> None:
    move = generator.random()
    if move < 0.2:
        queue.sync()
        notes[ACKED] = queue.end_offset
    elif move < 0.22:
        queue.roll()
        notes[ACKED] = queue.end_offset
        notes[ROLLS] += 1
    elif move < 0.24:
        before = max(0, queue.durable_offset - generator.choice((60, 300, 1_500)))
        notes[TRIMMED] = max(notes[TRIMMED], before)
        notes[TRIMS] += queue.trim(before) > 0
    elif move < 0.26:
        queue.position_at(generator.randrange(notes[HANDED]) * TICKS_US)  # the index follows
    elif move < 0.5:
        time.sleep(0.001)


# -- the readers ------------------------------------------------------------------------------


def open_when_there(path: str) -> OutputQueue:
    while True:
        try:
            return open_queue(path)
        except NotAQueue:
            time.sleep(0.002)


class Follower:
    """Sees every record once and in order, for as long as there is a writer."""

    def __init__(self, path: str, notes: memoryview) -> None:
        self.notes = notes
        self.done: Counter[str] = Counter()
        self.queue = open_when_there(path)
        self.due: int | None = None
        """The next record; `None` begins with the oldest there is."""

    def run(self) -> None:
        while self.due != self.notes[FINAL]:
            try:
                self.follow()
            except OutOfRange as error:
                require_trimmed(self.due or 0, self.notes, error)
                self.done["out of range"] += 1
                self.due = None

    def follow(self) -> None:
        since = None if self.due is None else Position(self.due)
        replay = self.queue.replay(since, follow=True, kinds=RecordKind, include_metadata=True)
        if self.due is None:
            self.due = replay.cursor.offset
            assert self.due <= self.notes[TRIMMED], f"begins at {self.due}: trimmed too far"
        for batch in replay:
            self.due = check(batch, self.due)
            on_disk = self.notes[SYNCED]
            assert self.due <= on_disk, f"shown up to {self.due}, on disk up to {on_disk}"
            self.done["batches"] += 1
            self.done["records"] += batch.num_rows
            if self.due == self.notes[FINAL]:
                replay.stop()


class Visitor:
    """Opens again and again, looks around at random, and leaves."""

    def __init__(self, path: str, notes: memoryview, seed: int) -> None:
        self.path = path
        self.notes = notes
        self.random = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.stays = open_when_there(path)
        self.shown = 0

    def run(self) -> None:
        while self.shown != self.notes[FINAL]:
            look = self.random.choice((self.stretch, self.moment, self.checkpoint))
            oldest = self.end_of(self.stays)
            queue = open_queue(self.path)
            assert self.end_of(queue) >= oldest, "the log got shorter"
            self.done["visits"] += 1
            try:
                look(queue)
                self.done[look.__name__] += 1
            except OutOfRange as error:
                require_trimmed(self.wanted, self.notes, error)
                self.done["out of range"] += 1
            queue.close()

    def end_of(self, queue: OutputQueue) -> int:
        """All that is acknowledged, nothing that is not on disk, and never less than before."""
        acked = self.notes[ACKED]
        end = queue.durable_offset
        assert end >= acked, f"the end is {end}, acknowledged {acked}"
        assert end >= self.shown, f"the end is {end}, and was {self.shown}"
        assert end <= self.notes[SYNCED], f"the end is {end}, on disk up to {self.notes[SYNCED]}"
        self.shown = end
        return end

    def stretch(self, queue: OutputQueue) -> None:
        self.wanted = start = self.random.randint(self.oldest(queue), self.shown)
        stop = min(self.shown, start + self.random.choice((1, 20, 400)))
        replay = queue.replay(
            Position(start), Position(stop), kinds=RecordKind, include_metadata=True
        )
        for batch in replay:
            self.wanted = check(batch, self.wanted)
            self.done["records"] += batch.num_rows
        assert self.wanted == stop, (
            f"{start} to {stop} ended at {self.wanted}, the cursor at {replay.cursor}: "
            f"{self.shown} were shown; it saw {replay._chain.segments} to {replay._chain.end}, "
            f"another sees {queue.chain().segments} to {queue.chain().end}"
        )

    def moment(self, queue: OutputQueue) -> None:
        self.wanted = at = self.random.randint(self.oldest(queue), self.shown)
        found = queue.position_at(at * TICKS_US - self.random.randrange(TICKS_US)).offset
        # What is no longer there is answered by the oldest that is.
        assert at <= found <= max(at, self.notes[TRIMMED]), f"record {at} is found at {found}"

    def checkpoint(self, queue: OutputQueue) -> None:
        """The open windows as of the newest frame, each with its newest footprint."""
        self.wanted = max(0, self.shown - WINDOWS * 4)
        found = queue.rebuild()
        assert found.end_offset >= self.shown
        newest = range(max(0, found.seq - WINDOWS + 1), found.seq + 1)
        assert [state["seen"] for state in found.states.to_pylist()] == list(newest)
        assert [key["window"] for key in found.keys.to_pylist()] == [n % WINDOWS for n in newest]
        assert found.positions.tolist() == [[n + 1] for n in newest]
        self.wanted = max(0, found.end_offset - WINDOWS * 4)
        later = queue.extent()
        assert later.open_windows == min(WINDOWS, later.frames)
        assert later.end_offset >= found.end_offset

    def oldest(self, queue: OutputQueue) -> int:
        self.wanted = 0
        return min(self.shown, queue.chain().first_offset())


def require_trimmed(wanted: int, notes: memoryview, error: OutOfRange) -> None:
    """Refused where the next record has been trimmed, and only there."""
    trimmed = notes[TRIMMED]
    assert wanted < trimmed, f"record {wanted} is refused, trimmed up to {trimmed}: {error}"


def main() -> None:
    role, path, notes_path, seconds, seed = sys.argv[1:]
    notes = open_notes(notes_path)
    if role == "writer":
        write(path, notes, float(seconds), int(seed))
        return
    reader = Follower(path, notes) if role == "follower" else Visitor(path, notes, int(seed))
    reader.run()
    print(json.dumps(reader.done))


if __name__ == "__main__":
    main()
