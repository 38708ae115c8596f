"""Places of each kind, closed and killed, with backups of them taken along the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pyarrow as pa

from cec_store import QueueOptions, open_queue, read_queue, read_state
from cec_store.storage.local import LocalFolder
from cec_store.values import Position
from support.blind.trees import Tree, put_up, take_down
from support.places.damaged_queues import make_operator_queue
from support.places.made_checkpoints import KEY, VALUE, MadeCheckpoint, random_rows
from support.places.partitioned_queues import SCHEMA, commit, rows
from support.places.state_logs import EMPTY, Writer

Streams = list[list[object]]
"""What a question answers: one list or several, each of which may only ever grow at its end."""
Question = Callable[[Path], Streams]


@dataclass
class BlindPlace:
    """A directory, backups of it, and what was acknowledged when it was left alone."""

    questions: dict[str, Question]
    """They read."""
    go_on: Callable[[Path], Streams] | None = None
    """Opens the place to append, appends, closes, and returns what it has appended."""
    screens: tuple[str, ...] = ("extent", "dump", "verify --deep")
    """Command lines that people would try; the path is added."""
    is_one_log: bool = True
    """An opening that is refused leaves every byte: there are not several, some of them sound."""
    below: str = ""
    """Only what lies below is ours: the rest is Spark's own."""
    tree: Tree = field(default_factory=dict)
    older: list[Tree] = field(default_factory=list)
    truth: dict[str, Streams] = field(default_factory=dict)

    def backup(self, root: Path) -> None:
        self.older.append(take_down(root))

    def leave(self, root: Path) -> BlindPlace:
        """As it stands now: what the process has written survives it, closed or killed."""
        self.tree = take_down(root)
        copy = root.with_name(root.name + "-left")
        put_up(self.tree, copy)
        self.truth = {name: ask(copy) for name, ask in self.questions.items()}
        return self


_QUEUE_SCREENS = ("extent", "dump", "verify --deep", "replay", "consumers")
_STATE_SCREENS = ("extent", "verify --deep", "state", "changes")


# -- queues -----------------------------------------------------------------------------------

_N = pa.schema([("n", pa.int64()), ("noise", pa.string())])


def _numbers(first: int, count: int) -> pa.RecordBatch:
    noise = Random(first)
    found = range(first, first + count)
    texts = [noise.randbytes(noise.choice((2, 20, 300))).hex() for _ in found]
    return pa.RecordBatch.from_pydict({"n": list(found), "noise": texts}, schema=_N)


def _rows_of(root: Path) -> Streams:
    return [read_queue(root).read_all().column("n").to_pylist()]


def _append_to(root: Path) -> Streams:
    with open_queue(root, "a", schema=_N) as queue:
        queue.append(_numbers(10_000, 3), sync=True)
    return [[10_000, 10_001, 10_002]]


def queue(root: Path, *, closed: bool, segment_bytes: int = 20_000) -> BlindPlace:
    place = BlindPlace({"rows": _rows_of}, _append_to, screens=_QUEUE_SCREENS)
    options = QueueOptions(segment_bytes=segment_bytes)
    acknowledged = 0
    for life in range(3):
        opened = open_queue(root, "a", schema=_N, options=options)
        for _ in range(12):
            opened.append(_numbers(acknowledged, 5), sync=True)
            acknowledged += 5
            if acknowledged % 20 == 0:
                place.backup(root)
        if life < 2 or closed:
            opened.close()
            place.backup(root)
    place.leave(root)
    assert place.truth["rows"] == [list(range(acknowledged))]
    opened.close()
    return place


def trimmed_queue(root: Path) -> BlindPlace:
    """With a consumer, an index, and segments that are gone."""
    place = BlindPlace({"rows": _rows_of}, _append_to, screens=_QUEUE_SCREENS)
    with open_queue(root, "a", schema=_N, options=QueueOptions(segment_bytes=4_000)) as opened:
        consumer = opened.consumer("hourly")
        for first in range(0, 200, 5):
            opened.append(_numbers(first, 5), sync=True)
            if first % 40 == 0:
                place.backup(root)
        consumer.acknowledge(received=100, effects_saved=100)
        consumer.close()
        opened.trim(before=100)
        place.backup(root)
        opened.append(_numbers(200, 5), sync=True)
        opened.reindex()
    return place.leave(root)


def _rebuilt(root: Path) -> Streams:
    with open_queue(root) as opened:
        found = opened.rebuild()
    return [[str(column.tolist()) for column in (found.keys, found.states, found.positions)]]


def _output_of(root: Path) -> Streams:
    return [[str(row) for row in read_queue(root).read_all().to_pylist()]]


def _reopen(root: Path) -> Streams:
    open_queue(root, "a").close()
    return [[]]


def operator_queue(root: Path) -> BlindPlace:
    questions = {"rows": _output_of, "state": _rebuilt}
    place = BlindPlace(questions, _reopen, screens=(*_QUEUE_SCREENS, "state"))
    for stop in (300, 600, 900):
        make_operator_queue(root, stop)
        place.backup(root)
    return place.leave(root)


# -- queues of many partitions ----------------------------------------------------------------


def _partitions_of(root: Path) -> Streams:
    table = read_queue(root, include_metadata=True).read_all()
    found: dict[int, list[object]] = {}
    columns = (table.column(name).to_pylist() for name in ("_partition", "n"))
    for number, n in zip(*columns, strict=True):
        found.setdefault(number, []).append(n)
    return [found.get(number, []) for number in range(3)]


def _commit(root: Path, batch: int, first: int) -> None:
    commit(root, batch, {number: rows(first + 1_000 * number, 40) for number in range(3)})


def _commit_more(root: Path) -> Streams:
    _commit(root, 77, 7_000)
    return [[*range(7_000 + 1_000 * n, 7_040 + 1_000 * n)] for n in range(3)]


def partitioned_queue(root: Path) -> BlindPlace:
    place = BlindPlace(
        {"rows": _partitions_of}, _commit_more, screens=_QUEUE_SCREENS, is_one_log=False
    )
    for batch in range(5):
        _commit(root, batch, 40 * batch)
        place.backup(root)
    place.leave(root)
    assert place.truth["rows"] == [[*range(1_000 * n, 1_000 * n + 200)] for n in range(3)]
    return place


def _append_inline(root: Path, first: int = 7_000) -> Streams:
    with open_queue(root, "a", schema=SCHEMA.data, partitions=3, key_columns=["n"]) as opened:
        before = opened.ends()
        opened.append(pa.Table.from_batches([rows(first, 120)]))
        return [
            [n for part in opened.replay(p, Position(before[p])) for n in part["n"].to_pylist()]
            for p in range(3)
        ]


def inline_queue(root: Path) -> BlindPlace:
    """Commits hold the rows themselves."""
    place = BlindPlace(
        {"rows": _partitions_of}, _append_inline, screens=_QUEUE_SCREENS, is_one_log=False
    )
    for batch in range(5):
        _append_inline(root, 120 * batch)
        place.backup(root)
    place.leave(root)
    assert sum(map(len, place.truth["rows"])) == 600
    return place


# -- what Spark's state store writes ----------------------------------------------------------


def _version(version: int) -> Question:
    def ask(root: Path) -> Streams:
        with open_queue(root) as log:
            found = log.rebuild(at=version)
        pairs = zip(found.keys.to_pylist(), found.states.to_pylist(), strict=True)
        return [sorted(str(pair) for pair in pairs)]

    return ask


def state_log(root: Path, *, closed: bool) -> BlindPlace:
    """Asked by version, as Spark asks: which is the newest only Spark's own log can say."""
    place = BlindPlace({f"version {v}": _version(v) for v in (11, 12)})
    folder = LocalFolder(root)
    folder.make()
    random, last = Random(5), EMPTY
    writer = Writer(folder, random)
    for version in range(12):
        if version in (4, 9):
            writer.close()
            writer = Writer(folder, random)
        keys = [(1, f"key-{random.randrange(30)}".encode()) for _ in range(8)]
        last = writer.commit(last, {key: random.randbytes(20) for key in keys}, renew=3)
        place.backup(root)
    if closed:
        writer.close()
    place.leave(root)
    writer.close()
    return place


def _state_of(root: Path) -> Streams:
    return [sorted(str(row) for row in read_state(root).to_pylist())]


def checkpoint(root: Path, *, format: int) -> BlindPlace:
    place = BlindPlace({"state": _state_of}, screens=_STATE_SCREENS, below="state/")
    random = Random(format)
    made = MadeCheckpoint(root, KEY, VALUE, format=format)
    for batch in range(9):
        made.batch(*(random_rows(random) for _ in range(made.partitions)), renew=2)
        if batch in (3, 6):
            made.roll()
        place.backup(root)
    made.close()
    return place.leave(root)


PLACES: dict[str, Callable[[Path], BlindPlace]] = {
    "queue, closed": lambda root: queue(root, closed=True),
    "queue, killed": lambda root: queue(root, closed=False),
    "queue of one segment, closed": lambda root: queue(root, closed=True, segment_bytes=1 << 20),
    "queue, trimmed": trimmed_queue,
    "operator's queue": operator_queue,
    "queue of partitions": partitioned_queue,
    "queue of inline commits": inline_queue,
    "state log, closed": lambda root: state_log(root, closed=True),
    "state log, killed": lambda root: state_log(root, closed=False),
    "checkpoint of format V1": lambda root: checkpoint(root, format=1),
    "checkpoint of format V2": lambda root: checkpoint(root, format=2),
}
