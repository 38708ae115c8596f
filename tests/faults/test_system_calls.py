"""Each system call of a queue and its index fails, LMDB's too: what was acknowledged is there."""

import json
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from cec_store import open_queue
from support.disks.fault_shim import KINDS, Call, Order, calls_in, library, was_killed
from support.disks.loop_disk import folder_in_memory
from support.processes.faulted_writer import COLUMNS, LAP_ROWS, LAPS
from support.processes.writer_processes import Server
from support.runs.suites import Tally

pytestmark = pytest.mark.crash

ALL_ROWS = LAPS * LAP_ROWS


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where that can be: which calls reach the disk is the shim's to say here."""
    with folder_in_memory(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server("faulted_writer", LD_PRELOAD=str(library()))
    yield running
    running.close()


@dataclass
class Outcome:
    calls: list[Call]
    status: int
    facts: dict  # type: ignore[type-arg]

    @property
    def hits(self) -> list[Call]:
        return [call for call in self.calls if call.result != "ok"]


def run(server: Server, folder: Path, order: Order) -> Outcome:
    folder.mkdir()
    queue, log, report = folder / "queue", folder / "calls", folder / "report"
    server.send(path=str(queue), report=str(report), faults=order.environment(queue, log))
    _, status = server.finish()
    facts = json.loads(report.read_text()) if report.exists() else {}
    return Outcome(calls_in(log), status, facts)


def failed_syncs(calls: list[Call]) -> dict[Path, int]:
    """Segments whose sync failed, none of which was synced again, and how much had been synced."""
    synced: Counter[str] = Counter()
    failed: dict[Path, int] = {}
    for name, result, path, size in calls:
        if "sync" not in name or not path.endswith(".seg"):
            continue
        assert Path(path) not in failed, f"{path} synced again"
        if result == "failed":
            failed[Path(path)] = synced[path]
        else:
            synced[path] = size
    return failed


def salt_of(segment: Path) -> bytes:
    """Tells a segment from one that is made anew under its number, after a failed creation."""
    return segment.read_bytes()[40:48] if segment.exists() else b""


def require_acked(queue: Path, acked: int, appended: int, saved: int) -> None:
    """Readers and the next writer find it, and every lookup finds what a scan does."""
    with open_queue(queue, "a", schema=COLUMNS) as opened:
        rows = [x for batch in opened.replay() for x in batch["x"].to_pylist()]
        first = opened.chain().first_offset()
        assert rows == list(range(first, first + len(rows)))
        assert first <= saved
        assert acked <= first + len(rows) <= appended, f"{acked} acknowledged, {appended} written"
        opened.append(pa.record_batch({"x": [first + len(rows)]}, COLUMNS), sync=True)
        opened.reindex()
        for x in rows:
            assert next(iter(opened.replay(since=10 * x)))["x"][0].as_py() == x
    assert open_queue(queue, "r").durable_offset == first + len(rows) + 1


def check(folder: Path, order: Order, outcome: Outcome) -> None:
    queue = folder / "queue"
    if was_killed(outcome.status):
        assert order.kind == "kill"
        # It said nothing before it died; that what it acknowledged stays is test_sigkill's.
        require_acked(queue, 0, ALL_ROWS, ALL_ROWS)
        return
    assert outcome.status == 0, f"it ended with status {outcome.status}"
    facts = outcome.facts
    assert not facts["left_open"]
    if facts["error"] is None:
        assert facts["acked"] == facts["appended"] == ALL_ROWS
    if order.kind in ("short", "EINTR") and all("index/" not in c.path for c in outcome.hits):
        retried = all(call.name not in ("rename", "unlink") for call in outcome.hits)
        assert facts["error"] is None or not retried, facts["error"]
    failed = failed_syncs(outcome.calls) if order.kind != "EINTR" else {}
    salts = {segment: salt_of(segment) for segment in failed}
    require_acked(queue, facts["acked"], facts["appended"], facts["saved"])
    for segment, synced_bytes in failed.items():
        # What had not been synced stands in another file since the queue was opened again.
        if salts[segment] and salt_of(segment) == salts[segment]:
            assert segment.stat().st_size <= synced_bytes, f"{segment} is trusted beyond its sync"


def places_in(calls: list[Call], count: int, seed: str) -> list[int]:
    """Every call's number; or so many, each name as likely: most calls open a file to read it."""
    if count >= len(calls):
        return list(range(len(calls)))
    generator = random.Random(seed)
    names = sorted({call.name for call in calls})
    chosen = generator.sample(names * -(-count // len(names)), count)
    places = [[n for n, call in enumerate(calls) if call.name == name] for name in chosen]
    return sorted({generator.choice(of_name) for of_name in places})


# A process dies once.
CASES = [(kind, sticky) for kind in KINDS for sticky in (False, True)][:-1]
assert KINDS[-1] == "kill"


@pytest.mark.parametrize(("kind", "sticky"), CASES)
def test_acknowledged_records_survive_a_failing_system_call(
    kind: str, sticky: bool, server: Server, folder: Path,
    crash_count: Callable[[int, int], int], tally: Tally,
) -> None:  # fmt: skip
    plain = run(server, folder / "plain", Order(kind, -1))
    assert plain.facts["error"] is None
    total = len(plain.calls)
    places = places_in(plain.calls, crash_count(2, total), f"{kind} {sticky}")
    struck: Counter[str] = Counter()
    for at in places:
        order, here = Order(kind, at, sticky), folder / f"{at}"
        try:
            outcome = run(server, here, order)
            # Threads take turns a little differently each time: the last calls may not be met.
            assert outcome.hits or was_killed(outcome.status) or at > total * 0.9
            check(here, order, outcome)
        except Exception as error:
            saved = Path(tempfile.mkdtemp(prefix="cec-call-"))
            shutil.copytree(here, saved, dirs_exist_ok=True)
            settings = order.environment(saved / "again", saved / "calls-again")
            words = " ".join(f"{name}={value}" for name, value in settings.items())
            raise AssertionError(
                f"{order}: {error!r}\nits files: {saved}\nagain: LD_PRELOAD={library()} {words} "
                f"PYTHONPATH=tests python -m support.processes.faulted_writer {saved / 'again'}"
            ) from error
        struck[outcome.hits[0].name if outcome.hits else "none"] += 1
        shutil.rmtree(here)
    print(f"{kind}, {'sticky' if sticky else 'once'}: {dict(struck)} of {total}")
    tally(struck.total() - struck["none"])
    assert struck["none"] <= total * 0.1


def test_the_calls_are_of_every_kind_and_those_of_lmdb_too(server: Server, tmp_path: Path) -> None:
    outcome = run(server, tmp_path / "plain", Order("EIO", -1))
    calls = outcome.calls
    assert outcome.facts["seeks"] == 2 * LAPS
    names = Counter(call.name for call in calls)
    assert {"creat", "open", "writev", "fdatasync", "fsync", "ftruncate", "rename",
            "unlink", "mmap"} <= set(names)  # fmt: skip
    of_lmdb = {call.name for call in calls if call.path.endswith(".mdb")}
    assert {"creat", "mmap"} <= of_lmdb, of_lmdb
    assert of_lmdb & {"write", "writev", "pwrite"}
    assert len(calls) > 150
