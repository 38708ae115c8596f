"""A writer that was taken for dead and goes on, next to the one that took over, at every step."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from cec_store.errors import CecError, Fenced, QueueLocked
from cec_store.format.bodies import Body
from cec_store.format.frame import Codec
from cec_store.log.chain import Chain
from cec_store.log.creating import create
from cec_store.log.frames import Frame, FrameMarks
from cec_store.log.reopening import reopen
from cec_store.log.writer import LogWriter
from cec_store.queues.appendable_queue import AppendableQueue
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import WRITER_LOCK
from support.crashes.crash_states import ONLY_STATE, FrameText, clock_and_entropy, read_all, schema
from support.disks.simulated_folder import SimulatedFolder
from support.processes.killed_writer import FENCED, LOCKED, SCHEMA, batch_of
from support.processes.writer_processes import Server
from support.runs.suites import Tally

pytestmark = pytest.mark.crash

# Reading changes nothing for the other side, but for the look at the epoch and at the manifest.
STOPS = {
    "create", "write", "sync", "truncate", "rename", "unlink", "sync_names", "names", "size"
}  # fmt: skip


@dataclass(eq=False, repr=False)
class Side:
    """One process: a thread that stops ahead of each operation until it is let go on."""

    work: Callable[["Side"], None]
    written: list[FrameText] = field(default_factory=list)
    acked: int = 0
    error: BaseException | None = None
    done: bool = False
    stops: list[str] = field(default_factory=list)
    _go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _stopped: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def ident(self) -> int | None:
        return self._thread.ident

    def _run(self) -> None:
        self.stop("start")
        try:
            self.work(self)
        except BaseException as error:
            self.error = error
        self.done = True
        self._stopped.release()

    def stop(self, operation: str) -> None:
        self.stops.append(operation)
        self._stopped.release()
        self._go.acquire()

    def wait(self) -> None:
        assert self._stopped.acquire(timeout=30), "it hangs"

    def step(self, count: int | None) -> None:
        """Let it do so many operations; all that are left for ``None``."""
        while not self.done and count != 0:
            self._go.release()
            self.wait()
            count = None if count is None else count - 1

    def append(self, writer: LogWriter, text: bytes) -> None:
        self.written.append((text, 1))
        writer.append(Body(text, len(text), Codec.NONE, 1, 0, 0), FrameMarks())

    def sync(self, writer: LogWriter) -> None:
        writer.sync()
        self.acked = len(self.written)


def appends(side: Side, writer: LogWriter) -> None:
    side.append(writer, b"zombie, acknowledged?")
    side.sync(writer)
    side.append(writer, b"zombie, second" * 9)
    side.sync(writer)


def rolls(side: Side, writer: LogWriter) -> None:
    side.append(writer, b"zombie, before the roll")
    writer.roll()
    side.acked = len(side.written)
    side.append(writer, b"zombie, in the new segment")
    side.sync(writer)


def trims(side: Side, writer: LogWriter) -> None:
    writer.trim(1)
    side.append(writer, b"zombie, after the trim")
    side.sync(writer)


SCRIPTS: dict[str, Callable[[Side, LogWriter], None]] = {
    work.__name__: work for work in (appends, rolls, trims)
}


def take_over(side: Side, folder: SimulatedFolder) -> None:
    writer, _ = reopen(folder, schema(), clock_and_entropy("successor"))
    side.append(writer, b"of the successor")
    side.sync(writer)
    writer.close()


class Race:
    """The zombie and its successor on one folder, stopped ahead of each operation."""

    def __init__(self, script: str) -> None:
        self.folder = SimulatedFolder()
        first = create(self.folder, schema(), clock_and_entropy("first"))
        self.before: list[FrameText] = []
        for number in range(2):
            text = b"first %d" % number
            self.before.append((text, 1))
            first.append(Body(text, len(text), Codec.NONE, 1, 0, 0), FrameMarks())
            first.roll() if number == 0 else first.sync()
        self.zombie = Side(lambda side: SCRIPTS[script](side, first))
        self.successor = Side(lambda side: take_over(side, self.folder))
        for side in (self.zombie, self.successor):
            side.start()
            side.wait()
        by_thread = {side.ident(): side for side in (self.zombie, self.successor)}

        def stop(operation: str, name: str) -> None:
            side = by_thread.get(threading.get_ident())
            if side is not None and operation in STOPS:
                side.stop(f"{operation} {name}")

        self.folder.before_operation = stop

    def finish(self) -> None:
        self.successor.step(None)
        self.zombie.step(None)

    def check(self) -> None:
        """All that either acknowledged is there, in order; of the rest, whole frames or nothing."""
        error = self.successor.error
        assert error is None, f"the successor failed: {error!r}"
        error = self.zombie.error
        assert error is None or isinstance(error, Fenced), f"the zombie got {error!r}"
        writer, _ = reopen(self.folder, schema(), clock_and_entropy("last"))
        writer.close()
        first, texts = read_all(self.folder)
        texts = self.before[:first] + texts
        taken = texts[: len(self.before)]
        assert taken == self.before
        rest = texts[len(taken) :]
        zombies = len([text for text in rest if text in self.zombie.written])
        assert zombies >= self.zombie.acked, "acknowledged by the zombie, and lost"
        assert rest[:zombies] == self.zombie.written[:zombies]
        assert rest[zombies:] == self.successor.written, "acknowledged by the successor, and lost"


def schedules(script: str) -> list[tuple[int, int, int]]:
    """Zombie runs so many operations, the successor so many, the zombie so many, then the rest."""
    alone = Race(script)
    alone.zombie.step(None)
    zombie_steps = len(alone.zombie.stops)
    alone.finish()
    alone = Race(script)
    alone.finish()
    successor_steps = len(alone.successor.stops)
    assert zombie_steps > 8, "the zombie does next to nothing"
    assert successor_steps > 20, "the successor does next to nothing"
    return [
        (before, middle, between)
        for before in range(zombie_steps + 1)
        for middle in range(successor_steps + 1)
        for between in range(zombie_steps + 1 - before)
    ]


@pytest.mark.parametrize("script", SCRIPTS)
def test_takeover_loses_nothing_and_reads_no_zombie(
    script: str, crash_count: Callable[[int, int], int], tally: Tally
) -> None:
    every = schedules(script)
    random.Random(script).shuffle(every)
    taken = every[: crash_count(400, len(every))]
    if ONLY_STATE != -1:
        taken = taken[ONLY_STATE : ONLY_STATE + 1]
    fenced = 0
    for number, (before, middle, between) in enumerate(taken):
        race = Race(script)
        race.zombie.step(before)
        race.successor.step(middle)
        race.zombie.step(between)
        race.finish()
        try:
            race.check()
        except (AssertionError, CecError) as error:
            raise AssertionError(
                f"{error!r}\nthe zombie did {before} operations, the successor {middle}, "
                f"the zombie {between}\nthis one alone: CEC_CRASH_STATE={number} "
                f"python -m pytest -n 0 tests/faults/test_fencing.py -k '{script}]'"
            ) from error
        fenced += isinstance(race.zombie.error, Fenced)
    tally(len(taken))
    print(f"{script}: {len(taken)} of {len(every)} schedules, the zombie fenced in {fenced}")
    assert ONLY_STATE == -1, "passes; unset CEC_CRASH_STATE"
    assert 0 < fenced < len(taken)


# -- real processes --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    running = Server(), Server()
    yield running
    for server in running:
        server.close()


def order(path: Path, seed: int, sync: str = "group", takeover: bool = False) -> dict[str, object]:
    return {
        "path": str(path), "seed": seed, "round_seed": seed, "frames_max": 300, "sync": sync,
        "segment_bytes": 4_000, "takeover": takeover, "trims": False,
    }  # fmt: skip


def text_of(chain: Chain, frame: Frame) -> pa.RecordBatch:
    return chain.records(frame).select(SCHEMA.data.names)


def test_stopped_process_that_wakes_up_is_fenced(
    servers: tuple[Server, Server],
    tmp_path: Path,
    crash_count: Callable[[int, int], int],
    tally: Tally,
) -> None:
    generator = random.Random(20)
    woke = 0
    for number in range(crash_count(25, 1_000)):
        path, seed = tmp_path / f"{number}", 5_000 + number
        zombie = servers[0].send(**order(path, seed, ("commit", "group")[number % 2]))
        assert servers[0].line() == "acked 0\n"
        time.sleep(0.02 * generator.random())
        os.kill(zombie, signal.SIGSTOP)
        with AppendableQueue(LocalFolder(path), "a", takeover=True) as queue:
            first = queue.durable_offset
            seq = queue.chain().end.seq
            for _ in range(3):
                queue.append(batch_of(1, 1), pa.array([1] * batch_of(1, 1).num_rows), sync=True)
            os.kill(zombie, signal.SIGCONT)
            acked, status = servers[0].finish()
            queue.append(batch_of(1, 2), pa.array([2] * batch_of(1, 2).num_rows), sync=True)
        woke += os.waitstatus_to_exitcode(status) == FENCED
        assert os.waitstatus_to_exitcode(status) == FENCED, f"round {number}: status {status}"
        assert acked <= seq, f"round {number}: acknowledged {acked}, taken over at {seq}"
        chain = Chain(LocalFolder(path))
        frames = list(chain.frames())
        assert [frame.header.seq for frame in frames] == list(range(seq + 4))
        for frame in frames[:seq]:
            assert text_of(chain, frame).equals(batch_of(seed, frame.header.seq))
        assert frames[seq].header.first_offset == first
        for frame, which in zip(frames[seq:], (1, 1, 1, 2), strict=True):
            assert text_of(chain, frame).equals(batch_of(1, which)), "a frame of the zombie"
    tally(woke)
    assert woke


@pytest.mark.parametrize("there", [False, True], ids=["no queue yet", "a queue"])
def test_of_two_openers_one_is_told_that_it_is_locked(
    there: bool, servers: tuple[Server, Server], tmp_path: Path
) -> None:
    for number in range(10):
        path = tmp_path / f"{number}"
        if there:
            AppendableQueue(LocalFolder(path), "x", SCHEMA).close()
        children = [server.send(**order(path, 1)) for server in servers]
        lines = [server.line() for server in servers]
        winners = [n for n, line in enumerate(lines) if line == "acked 0\n"]
        assert len(winners) == 1, f"round {number}: {lines}"
        _, code = lines[1 - winners[0]].split()
        assert os.waitstatus_to_exitcode(int(code)) == LOCKED
        os.kill(children[winners[0]], signal.SIGKILL)
        servers[winners[0]].finish()


class _MadeMeanwhile(LocalFolder):
    """Another opener makes the queue, and writes to it, once it was seen that there is none."""

    made: AppendableQueue | None = None

    def names(self) -> list[str]:
        found = super().names()
        if self.made is None:
            _MadeMeanwhile.made = AppendableQueue(LocalFolder(self.path), "x", SCHEMA)
            self.made.append(batch_of(1, 0), pa.array([0] * batch_of(1, 0).num_rows, pa.int64()))
            self.made.sync()
        return found


@pytest.mark.parametrize(
    ("takeover", "refusal"),
    [
        (False, (QueueLocked, "open for append already")),
        (True, (FileExistsError, "a queue already")),
    ],
)
def test_a_queue_that_another_makes_meanwhile_is_not_taken_for_damage(
    takeover: bool, refusal: tuple[type[Exception], str], tmp_path: Path
) -> None:
    folder = _MadeMeanwhile(tmp_path / "queue")
    folder.make()
    _MadeMeanwhile.made = None
    with pytest.raises(refusal[0], match=refusal[1]):
        AppendableQueue(folder, "x", SCHEMA, takeover=takeover)
    assert folder.made is not None
    folder.made.close()


def test_nothing_is_taken_over_where_no_queue_is_yet(tmp_path: Path) -> None:
    """Whoever is making the queue cannot be fenced: no manifest of an epoch above its own."""
    folder = LocalFolder(tmp_path / "queue")
    folder.make()
    lock = folder.lock(WRITER_LOCK)
    with pytest.raises(QueueLocked):
        AppendableQueue(folder, "a", SCHEMA, takeover=True)
    assert folder.names() == [WRITER_LOCK]
    lock.close()
