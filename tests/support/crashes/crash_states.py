"""Workloads on a simulated folder, and what must hold on every disk that a crash may leave."""

import os
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count
from pathlib import Path

import pyarrow as pa

from cec_store.errors import Fenced, NotAQueue, OutOfRange, StorageError
from cec_store.format.bodies import Body, encode_body
from cec_store.format.frame import Codec
from cec_store.format.records import data_records, to_timestamps
from cec_store.format.schema import RecordSchema
from cec_store.log.chain import Chain
from cec_store.log.creating import create
from cec_store.log.epochs import newest_epoch
from cec_store.log.frames import FrameMarks
from cec_store.log.options import QueueOptions, SyncMode
from cec_store.log.reopening import reopen
from cec_store.log.writer import ClockAndEntropy, LogWriter
from cec_store.queues.appendable_queue import AppendableQueue
from support.disks.simulated_folder import Fault, Image, SimulatedFolder, Snapshot, images

SUBSET_WRITES = 4
ONLY_STATE = int(os.environ.get("CEC_CRASH_STATE", "-1"))

FrameText = tuple[bytes, int]
"""What a frame says, for the oracle: its stored body and its number of records."""


@dataclass(frozen=True)
class Marks:
    """What had been promised when a snapshot was taken."""

    appended: tuple[FrameText, ...] = ()
    """Every frame ever handed to the log, in order; a recovered log is a prefix of this."""
    acked: int = 0
    """So many of them must be there."""
    first_seq: tuple[int, ...] = (0,)
    """Where the log may begin: more than one while a trim runs."""
    created: bool = False
    """A queue must be there."""
    within: frozenset[int] = frozenset()
    """Frames in front of which no log may end: they belong to the step of the one before."""


class BrokenPromise(AssertionError):
    """A crash state in which the log does not keep its word."""


@cache
def schema() -> RecordSchema:
    return RecordSchema(pa.schema([("x", pa.int64())]))


def clock_and_entropy(seed: str) -> ClockAndEntropy:
    """Clock and entropy that are the same in every run."""
    ticks = count(1)
    generator = random.Random(seed)
    return ClockAndEntropy(lambda: next(ticks), generator.randbytes)


class Log:
    """Drives a LogWriter without threads, and notes every promise in the folder's trace."""

    def __init__(self, folder: SimulatedFolder, seed: str) -> None:
        self.folder = folder
        self.seed = seed
        self.around = clock_and_entropy(seed)
        self.writer: LogWriter
        self.marks = folder.marks if isinstance(folder.marks, Marks) else Marks()
        self.texts = count(1)

    def note(self, **changes: object) -> None:
        self.marks = replace(self.marks, **changes)  # type: ignore[arg-type]
        self.folder.mark(self.marks)

    def create(self) -> None:
        self.writer = create(self.folder, schema(), self.around)
        self.note(created=True)

    def reopen(self) -> None:
        """Take over by recovery; what it found is what counts from then on."""
        self.writer, _ = reopen(self.folder, schema(), self.around)
        found = self.writer.cursor.seq
        within = frozenset(number for number in self.marks.within if number < found)
        appended = self.marks.appended[:found]
        self.note(appended=appended, acked=found, created=True, within=within)

    def append(self, size: int = 40, continues: bool = False) -> None:
        number = next(self.texts)
        stored = f"{self.seed}/{len(self.marks.appended)}/{number}/".encode()
        stored = (stored * (size // len(stored) + 1))[:size]
        text = (stored, number % 3 + 1)
        self.note(appended=(*self.marks.appended, text))
        body = Body(stored, len(stored), Codec.NONE, text[1], number * 10, number * 10 + 5)
        self.writer.append(body, FrameMarks.of_part(0) if continues else FrameMarks())

    def append_step(self, frames: int, size: int = 40) -> None:
        first = len(self.marks.appended)
        self.note(within=self.marks.within | frozenset(range(first + 1, first + frames)))
        for number in range(1, frames + 1):
            self.append(size, continues=number < frames)

    def sync(self) -> None:
        self.writer.sync()
        self.note(acked=self.writer.durable.seq)

    def roll(self) -> None:
        self.writer.roll()
        self.note(acked=self.writer.durable.seq)

    def trim(self, segment_id: int) -> None:
        first = first_seq(Chain(self.folder), segment_id)
        self.note(first_seq=(*self.marks.first_seq, first))
        self.writer.trim(segment_id)
        self.note(first_seq=(first,))


def first_seq(chain: Chain, segment_id: int) -> int:
    return chain.reader(segment_id).header.first_seq


# -- what must hold -------------------------------------------------------------------------------


def read_all(folder: SimulatedFolder) -> tuple[int, list[FrameText]]:
    """First seq and every frame that a reader is shown, numbering proven on the way."""
    chain = Chain(folder)
    texts: list[FrameText] = []
    first = None
    offset = chain.first_offset()
    for frame in chain.frames():
        header = frame.header
        first = header.seq if first is None else first
        if header.seq != first + len(texts) or header.first_offset != offset:
            raise BrokenPromise(f"frame {header.seq}, record {header.first_offset}: hole before it")
        offset = header.end_offset
        body = chain.reader(frame.address.segment_id).body_at(frame.address.byte, header)
        texts.append((body.to_pybytes(), header.record_count))
    if offset != chain.end.offset:
        raise BrokenPromise(f"the end is at {chain.end.offset}, the last record before {offset}")
    if first is None:
        first = chain.end.seq
    if first + len(texts) != chain.end.seq:
        raise BrokenPromise(f"the end is at frame {chain.end.seq}, read up to {first + len(texts)}")
    backward = 0
    frame = chain.last()
    while frame is not None and backward < len(texts):
        backward += 1
        try:
            frame = chain.before(frame)
        except (StorageError, OutOfRange):
            if backward < len(texts):
                raise
            frame = None
    if backward != len(texts):
        raise BrokenPromise(f"{len(texts)} frames forward, {backward} backward")
    return first, texts


def require_prefix(
    found: tuple[int, list[FrameText]], marks: Marks, at_least: int, who: str
) -> int:
    """The frames are those that were appended; returns the next seq."""
    first, texts = found
    end = first + len(texts)
    if first not in marks.first_seq:
        raise BrokenPromise(f"{who}: begins at frame {first}, trimmed to {marks.first_seq}")
    if list(marks.appended[first:end]) != texts:
        raise BrokenPromise(f"{who}: frames {first} … {end} are not what was appended")
    if end in marks.within:
        raise BrokenPromise(f"{who}: ends in front of frame {end}, within a step")
    if end < at_least:
        raise BrokenPromise(f"{who}: {end} frames, {at_least} were promised")
    return end


def check(folder: SimulatedFolder, marks: Marks) -> int:
    """Read, recover, recover again, append: returns the number of frames recovered."""
    there = newest_epoch(folder) is not None
    if marks.created and not there:
        raise BrokenPromise("the queue is gone")
    shown = require_prefix(read_all(folder), marks, 0, "reader before recovery") if there else 0
    log = Log(folder, "recovery")
    log.marks = marks
    if there:
        log.reopen()
    else:
        require_no_queue(folder)
        log.create()
    found = require_prefix(read_all(folder), marks, max(marks.acked, shown), "after recovery")
    log.writer.close()
    again = Log(folder, "again")
    again.marks = log.marks
    again.reopen()
    if again.writer.cursor.seq != found:
        raise BrokenPromise(f"recovered {found}, and then {again.writer.cursor.seq}")
    again.append(30)
    again.sync()
    if require_prefix(read_all(folder), again.marks, found + 1, "after an append") != found + 1:
        raise BrokenPromise("an append after recovery is not the next frame")
    again.writer.close()
    return found


def require_no_queue(folder: SimulatedFolder) -> None:
    try:
        Chain(folder)
    except NotAQueue:
        return
    raise BrokenPromise("no manifest, and yet a queue")


# -- all states of a workload ---------------------------------------------------------------------


@dataclass
class State:
    """A disk to check, the hardest promises made for it, and how it came about."""

    image: Image
    marks: Marks
    how: str


def weakest(one: Marks, other: Marks) -> bool:
    """Whether ``one`` promises no more than ``other``, so that checking ``other`` is enough."""
    return (
        one.acked <= other.acked
        and other.appended == one.appended[: len(other.appended)]
        and set(other.first_seq) <= set(one.first_seq)
        and one.created <= other.created
        and one.within <= other.within
    )


def promised(snapshot: Snapshot) -> Marks:
    """What must be there after a power cut: also all that a reader was shown before it."""
    marks = snapshot.marks if isinstance(snapshot.marks, Marks) else Marks()
    content = {name: snapshot.seen[number] for name, number in snapshot.seen_names.items()}
    folder = SimulatedFolder(tuple(sorted(content.items())))
    if newest_epoch(folder) is None:
        return marks
    shown = require_prefix(read_all(folder), marks, 0, "reader next to the writer")
    return replace(marks, acked=max(marks.acked, shown))


def power_cuts(snapshots: list[Snapshot], subset_writes: int = SUBSET_WRITES) -> Iterator[State]:
    """Each distinct state once, unless a later one promises more for it or allows less."""
    met: dict[Image, list[Marks]] = {}
    for snapshot in snapshots:
        marks = promised(snapshot)
        for image in images(snapshot, subset_writes):
            known = met.setdefault(image, [])
            if any(weakest(marks, other) for other in known):
                continue
            known.append(marks)
            yield State(
                image, marks, f"power cut after step {snapshot.step} ({snapshot.operation})"
            )


def kills(snapshots: list[Snapshot]) -> Iterator[tuple[SimulatedFolder, Marks, str]]:
    """The process dies, between two operations and inside each write; the page cache stays."""
    for snapshot in snapshots:
        marks = snapshot.marks if isinstance(snapshot.marks, Marks) else Marks()
        how = f"kill after step {snapshot.step} ({snapshot.operation})"
        yield SimulatedFolder.after_kill(snapshot), marks, how
        if snapshot.operation.startswith("write"):
            number = snapshot.seen_names[snapshot.operation.removeprefix("write ")]
            size = len(snapshot.files[number].pending[-1].data)
            for cut in {1, size // 2, size - 1}:
                folder = SimulatedFolder.after_kill_inside_write(snapshot, number, cut)
                yield folder, marks, f"{how}, {cut} bytes of the write done"


# -- workloads ------------------------------------------------------------------------------------


def groups(log: Log) -> None:
    log.create()
    for size in (1, 3, 2, 4):
        for number in range(size):
            log.append(20 + 30 * number)
        log.sync()
    log.append()


def large_frames(log: Log) -> None:
    log.create()
    for size in (700, 100, 1500):
        log.append(size)
        log.append(33)
        log.sync()
    log.append(2100)
    log.append(600)


def steps(log: Log) -> None:
    """Steps of several frames: written, synced, rolled behind, carried over and cut."""
    log.create()
    log.append_step(3)
    log.sync()
    log.append()
    log.append_step(2, 150)
    log.sync()
    log.append_step(3, 60)
    log.roll()
    log.append_step(2)
    log.writer.close()
    log.reopen()
    log.append_step(4)
    log.reopen()
    log.append_step(2)
    log.sync()


def rolls(log: Log) -> None:
    log.create()
    for size in (2, 1, 3):
        for _ in range(size):
            log.append(90)
        log.roll()
    log.append()
    log.sync()


def unsynced_roll(log: Log) -> None:
    """Nothing is asked to be synced: rolling does it."""
    log.create()
    for _ in range(4):
        log.append(300)
    log.roll()
    for _ in range(4):
        log.append(50)


def trims(log: Log) -> None:
    log.create()
    for _ in range(4):
        log.append(60)
        log.roll()
    log.trim(2)
    log.append()
    log.append()
    log.sync()
    log.trim(4)
    log.append()
    log.sync()
    log.reopen()
    log.append()
    log.sync()


def openings(log: Log) -> None:
    """Closed or killed without a crash of the machine: what was pending stays pending."""
    log.create()
    log.append()
    log.append(150)
    log.sync()
    log.append()
    log.append(40)
    log.writer.close()
    log.reopen()
    log.append(70)
    log.reopen()
    log.sync()
    log.reopen()
    log.append()
    log.sync()


def failed_roll(log: Log, step: int) -> None:
    """A roll fails at one of its steps, on a machine that goes on; the queue is opened again."""
    log.create()
    log.append(50)
    log.sync()
    log.append(50)
    changes = frozenset({"create", "write", "sync", "close", "rename", "sync_names"})
    _failing(log, Fault(step, sticky=True, operations=changes), log.roll)
    log.reopen()
    log.append()
    log.sync()


def failed_creation(log: Log) -> None:
    """The manifest is there to be read, but not on disk, when the queue is opened again."""
    _failing(log, Fault(1, operations=frozenset({"sync_names"})), log.create)
    log.reopen()
    log.append()
    log.sync()


def failed_syncs(log: Log) -> None:
    """A sync fails, reading still shows the frames, the queue is opened again."""
    log.create()
    log.append()
    log.sync()
    for frames in (1, 3):
        for size in range(frames):
            log.append(60 + 200 * size)
        _failing(log, Fault(0, operations=frozenset({"sync"})), log.sync)
        log.reopen()
    log.append()
    _failing(log, Fault(1, operations=frozenset({"sync", "sync_names"})), log.roll)
    log.reopen()
    log.append()
    log.sync()


def failed_recovery(log: Log, step: int) -> None:
    """A sync in recovery itself fails."""
    log.create()
    log.append()
    log.sync()
    log.append(80)
    log.writer.close()
    kinds = frozenset({"sync", "sync_names", "truncate"})
    _failing(log, Fault(step, operations=kinds), log.reopen)
    log.reopen()
    log.append()
    log.sync()


def takeover(log: Log) -> None:
    """The writer that was replaced goes on writing to its old segment, and is told in the end."""
    log.create()
    log.append()
    log.sync()
    log.append()
    zombie, late = log.writer, Body(b"zombie" * 30, 180, Codec.NONE, 1, 0, 0)
    log.reopen()
    zombie.append(late, FrameMarks())
    log.append()
    zombie.append(late, FrameMarks())
    try:
        zombie.sync()
    except Fenced:
        zombie.close()
    else:
        raise BrokenPromise("the writer that was replaced acknowledged")
    log.sync()
    log.append()
    log.roll()


def queue(log: Log, sync: SyncMode) -> None:
    """All of it: the writer's thread, real records, segments of a few frames, a trim."""
    options = QueueOptions(sync=sync, segment_bytes=1500, sync_interval_ms=3, group_max_wait_ms=1)
    x = schema()
    with AppendableQueue(log.folder, "x", x, options, clock_us=lambda: 7) as opened:
        log.note(created=True)
        for number in range(14):
            batch = pa.record_batch({"x": list(range(number, number + number % 4 + 1))})
            stamps = pa.array([number] * batch.num_rows, pa.int64())
            body = encode_body(data_records(x, batch, to_timestamps(stamps)), 1)
            text = (body.stored, body.record_count)
            log.note(appended=(*log.marks.appended, text))
            seq = opened.append(batch, stamps)
            if number % 3 == 2:
                opened.await_durable(seq)
                log.note(acked=seq + 1)
            if number == 10:
                segments = opened.chain().segments
                firsts = [first_seq(opened.chain(), segment) for segment in segments]
                log.note(first_seq=tuple(firsts))
                opened.trim(opened.durable_offset - 4)
                log.note(first_seq=(first_seq(opened.chain(), opened.chain().segments[0]),))
    log.note(acked=14)


def queue_of_steps(log: Log, sync: SyncMode) -> None:
    """As :func:`queue`, by steps of one to four frames."""
    options = QueueOptions(sync=sync, segment_bytes=1500, group_max_bytes=400, group_max_wait_ms=1)
    x = schema()
    with AppendableQueue(log.folder, "x", x, options, clock_us=lambda: 7) as opened:
        log.note(created=True)
        for number in range(8):
            first = len(log.marks.appended)
            parts = []
            for part in range(number % 4 + 1):
                batch = pa.record_batch({"x": [first, number, part]})
                stamps = to_timestamps(pa.array([number] * 3, pa.int64()))
                parts.append(data_records(x, batch, stamps))
            texts = [(encode_body(part, 1).stored, 3) for part in parts]
            log.note(
                appended=(*log.marks.appended, *texts),
                within=log.marks.within | frozenset(range(first + 1, first + len(parts))),
            )
            seq = opened.append_step(parts, FrameMarks())
            if number % 3 == 2:
                opened.await_durable(seq)
                log.note(acked=seq + 1)
    log.note(acked=len(log.marks.appended))


def _failing(log: Log, fault: Fault, call: Callable[[], None]) -> None:
    log.folder.fault = fault
    try:
        call()
    except StorageError:
        assert fault.hits
    else:
        raise BrokenPromise(f"{fault.hits} failed and nobody was told")
    log.folder.fault = None


WORKLOADS: dict[str, Callable[[Log], None]] = {
    **{
        work.__name__: work
        for work in (
            groups, large_frames, steps, rolls, unsynced_roll, trims, openings, failed_syncs,
            takeover, failed_creation,
        )
    },
    **{f"queue_{mode.value}": partial(queue, sync=mode) for mode in SyncMode},
    **{
        f"queue_of_steps_{mode.value}": partial(queue_of_steps, sync=mode)
        for mode in (SyncMode.COMMIT, SyncMode.GROUP)
    },
    **{f"failed_roll_{step}": partial(failed_roll, step=step) for step in range(16)},
    **{f"failed_recovery_{step}": partial(failed_recovery, step=step) for step in range(6)},
}  # fmt: skip


def snapshots_of(name: str) -> list[Snapshot]:
    folder = SimulatedFolder(record=True)
    WORKLOADS[name](Log(folder, name))
    return folder.snapshots


# -- checking them --------------------------------------------------------------------------------


def kept(image: Image) -> str:
    """A directory with the files, for people to look at."""
    if os.environ.get("CEC_PLANT"):
        return "not kept, a bug was planted"
    folder = Path(tempfile.mkdtemp(prefix="cec-crash-"))
    for name, content in image:
        (folder / name).write_bytes(content)
    return str(folder)


class Sweep:
    """Checks states one after the other; remembers how many were distinct."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.checked = 0
        self.distinct: set[int] = set()
        self.exhausted = False
        """There are no more states than these."""
        self._known: set[int] = set()

    def run(self, snapshots: list[Snapshot], goal: int, cuts_max: int) -> None:
        """Power cuts; then cuts in recovery and after kills, up to ``goal`` distinct states.

        Of power cuts no more than ``cuts_max``. These, and what recovery starts from, are drawn
        without replacement, from a seed that is the name.
        """
        draw = random.Random(self.name)
        states = list(power_cuts(snapshots))
        are_all = len(states) <= cuts_max
        for state in states if are_all else draw.sample(states, cuts_max):
            self.take(SimulatedFolder(state.image, marks=state.marks), state.marks, state.how)
        starts = [*states, *kills(snapshots)]
        draw.shuffle(starts)
        for start in starts:
            if len(self.distinct) >= goal:
                return
            if isinstance(start, State):
                folder = SimulatedFolder(start.image, record=True, marks=start.marks)
                marks, how = start.marks, start.how
            else:
                folder, marks, how = start
            self.take(folder, marks, how)
            for state in power_cuts(folder.snapshots):
                again = SimulatedFolder(state.image, marks=state.marks)
                self.take(again, state.marks, f"{how}; in recovery from it: {state.how}")
        self.exhausted = are_all

    def take(self, folder: SimulatedFolder, marks: Marks, how: str) -> None:
        """Check one state; the promises and the folder's trace are then in ``folder``."""
        image = folder.image()
        known = hash((image, marks))
        if known in self._known and not folder.snapshots:
            return
        self._known.add(known)
        number = self.checked
        self.checked += 1
        self.distinct.add(hash(image))
        if ONLY_STATE not in (-1, number) and not folder.snapshots:
            return
        try:
            check(folder, marks)
        except Exception as error:
            raise BrokenPromise(
                f"{self.name}, state {number}: {how}\n{type(error).__name__}: {error}\n"
                f"its files: {kept(image)}\nthis state alone: CEC_CRASH="
                f"{os.environ.get('CEC_CRASH', 'quick')} CEC_CRASH_STATE={number} "
                f"python -m pytest -n 0 'tests/faults/test_crash_states.py' -k '[{self.name}]'"
            ) from error
