"""What a queue deletes by itself: nothing, unless its retention says so. docs/format.md §10."""

import json
import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from cec_store import (
    CorruptLog,
    OutOfRange,
    OutputQueue,
    Position,
    QueueOptions,
    ReadOnly,
    Retention,
    UnsupportedVersion,
    open_queue,
    read_queue,
)
from cec_store.cli import app
from cec_store.format.checksum import with_crc
from cec_store.format.retention import FOREVER, KeptRetention, RetentionMode
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.operators import Aggregate, ArrowSource, CountWindow, Runner, record_schema
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import RETENTION, WRITER_LOCK
from support.disks.memory_folder import MemoryFolder

SCHEMA = pa.schema([("n", pa.int64())])
DAY_US = 86_400_000_000


class Clock:
    """One that is put forward by hand."""

    def __init__(self) -> None:
        self.now_us = 1_600_000_000_000_000

    def __call__(self) -> int:
        return self.now_us


def a_queue(retention: Any = None, clock: Callable[[], int] | None = None) -> OutputQueue:
    return open_queue(
        MemoryFolder({}), "x", schema=SCHEMA, retention=retention, clock_us=clock or Clock()
    )


def fill(queue: OutputQueue, segments: int, clock: Clock | None = None, step_us: int = 0) -> None:
    """A segment for each record."""
    for _ in range(segments):
        number = queue.end_offset
        queue.append(pa.record_batch({"n": [number]}), pa.array([number]), sync=True)
        if clock is not None:
            clock.now_us += step_us
        queue.roll()


def oldest(queue: OutputQueue) -> int:
    return queue.chain().first_offset()


def files_of(queue: OutputQueue) -> MemoryFolder:
    assert isinstance(queue.folder, MemoryFolder)
    return queue.folder


# -- the value ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "mode", "value", "text"),
    [
        ("forever", RetentionMode.FOREVER, 0, "forever"),
        ("Consumers", RetentionMode.CONSUMERS, 0, "consumers"),
        ("7d", RetentionMode.TIME, 7 * DAY_US, "7d"),
        ("36 h", RetentionMode.TIME, 36 * DAY_US // 24, "36h"),
        (timedelta(days=2), RetentionMode.TIME, 2 * DAY_US, "2d"),
        (timedelta(microseconds=5), RetentionMode.TIME, 5, "5us"),
        (10 << 30, RetentionMode.BYTES, 10 << 30, "10GiB"),
        ("500 MB", RetentionMode.BYTES, 500_000_000, "488281.25KiB"),
        ("1b", RetentionMode.BYTES, 1, "1B"),
    ],
)
def test_a_retention_is_read_from_words_times_and_sizes(
    wanted: Any, mode: RetentionMode, value: int, text: str
) -> None:
    found = Retention.of(wanted)
    assert found == Retention(mode, value)
    assert Retention.of(str(found)) == found
    if "." not in text:
        assert str(found) == text


@pytest.mark.parametrize("wanted", ["", "never", "7", "0d", 0, -1, True, None, 1.5, "7 weeks", "d"])
def test_what_is_no_retention_is_refused(wanted: Any) -> None:
    with pytest.raises(ValueError, match="no retention"):
        Retention.of(wanted)


# -- what goes ----------------------------------------------------------------------------------


def test_a_consumer_makes_nobody_elses_history_go_unless_the_queue_says_so() -> None:
    queue = a_queue()
    with queue.consumer("first") as consumer:
        fill(queue, 5)
        consumer.acknowledge(effects_saved=5)
        fill(queue, 5)
        assert queue.trim() == 0
        assert oldest(queue) == 0
        queue.set_retention("consumers")
        fill(queue, 1)
        assert oldest(queue) == 5, "not applied when a segment was completed"
    queue.close()


def test_with_consumers_nothing_goes_before_one_that_is_registered_has_saved_it() -> None:
    queue = a_queue("consumers")
    queue.consumer("later").close()
    with queue.consumer("now") as now:
        fill(queue, 4)
        now.acknowledge(effects_saved=4)
        fill(queue, 2)
        assert oldest(queue) == 0
        with queue.consumer("later") as later:
            later.acknowledge(effects_saved=3)
        fill(queue, 1)
        assert oldest(queue) == 3
    queue.close()


def test_by_time_goes_what_was_written_longer_ago_whoever_needs_it() -> None:
    clock = Clock()
    queue = a_queue(timedelta(days=3), clock)
    queue.consumer("slow").close()
    fill(queue, 6, clock, DAY_US)
    # Record n was begun on day n and is followed on day n + 1; it is day 6 now.
    assert oldest(queue) == 3
    with pytest.raises(OutOfRange, match=r"needs records from 0 on, and the oldest is 3"):
        queue.consumer("slow")
    with pytest.raises(OutOfRange, match=r"offset 0 is not in 3 … 6"):
        next(queue.replay(Position(0)))
    assert [batch["n"][0].as_py() for batch in queue.replay()] == [3, 4, 5]
    queue.close()


def test_by_size_goes_what_is_beyond_it() -> None:
    queue = a_queue()
    fill(queue, 8)
    sizes = [len(data) for name, data in files_of(queue).files.items() if name.endswith(".seg")]
    kept = sum(sizes[-4:])
    queue.set_retention(kept)
    fill(queue, 1)
    left = sum(len(d) for name, d in files_of(queue).files.items() if name.endswith(".seg"))
    assert left - sizes[0] < kept <= left
    assert oldest(queue) == 6
    queue.close()


def test_what_a_rebuild_needs_stays_in_every_mode() -> None:
    clock = Clock()
    operator = Aggregate(
        group_by=["k"],
        aggregates={"rows": ("count",)},
        window=CountWindow(1000),
        input_schema=pa.schema([("k", pa.int64()), ("t", pa.int64())]),
    )
    queue = open_queue(
        MemoryFolder({}), "a", schema=record_schema(operator), clock_us=clock, retention="1us",
        options=QueueOptions(segment_bytes=2_000),
    )  # fmt: skip
    at = np.arange(400)
    table = pa.table({"k": at % 20, "t": at})
    Runner(operator, [ArrowSource(table, "t")], queue, step_rows_max=7).run()
    clock.now_us += DAY_US
    queue.roll()
    found = queue.rebuild()
    assert found.open_windows == 20
    assert queue.trim() <= found.end_offset - found.extent.records
    queue.close()


def test_a_trim_by_age_or_size_that_somebody_asks_for_waits_for_consumers() -> None:
    clock = Clock()
    queue = a_queue(None, clock)
    fill(queue, 6, clock, DAY_US)
    with queue.consumer("slow", start=1):
        assert queue.trim(keep=timedelta(days=3)) == 1
    queue.drop_consumer("slow")
    assert queue.trim(keep=timedelta(days=3)) == 3
    assert queue.trim(keep="1B") == 5
    with pytest.raises(ValueError, match="one of it"):
        queue.trim(3, keep="1B")
    with pytest.raises(ValueError, match="keep=forever: a length of time or a size"):
        queue.trim(keep="forever")
    queue.close()


@pytest.mark.parametrize("error", [ReadOnly("consumers.lock"), OSError(24, "Too many open files")])
def test_an_append_whose_rows_are_in_does_not_fail_with_the_trim_behind_it(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who is told that it failed appends the rows again."""
    queue = a_queue("consumers")
    queue.consumer("slow").close()

    def failing(*_: object) -> None:
        raise error

    monkeypatch.setattr("cec_store.queues.trimming.consumers_locked", failing)
    fill(queue, 5)
    assert queue.replay().read_all()["n"].to_pylist() == [*range(5)]
    assert "is not trimmed" in caplog.text


# -- where it stands ----------------------------------------------------------------------------


def test_it_is_kept_in_the_queue_and_changed_at_any_time() -> None:
    queue = a_queue("7d")
    folder = files_of(queue)
    assert queue.retention == Retention.of("7d")
    queue.close()
    with open_queue(folder, "a") as again:
        assert again.retention == Retention.of("7d")
        again.set_retention("forever")
        with pytest.raises(ReadOnly):
            open_queue(folder).set_retention("1d")
    assert open_queue(folder).retention == FOREVER


def test_a_queue_that_is_there_keeps_its_own(caplog: pytest.LogCaptureFixture) -> None:
    queue = a_queue("7d")
    queue.close()
    with caplog.at_level(logging.WARNING), open_queue(queue.folder, "a", retention="1d") as again:
        assert again.retention == Retention.of("7d")
    assert "its retention is 7d, not 1d" in caplog.text
    assert queue.folder.names().count(RETENTION) == 1


def test_a_crash_while_the_queue_is_made_leaves_nothing_in_its_way() -> None:
    folder = MemoryFolder({})
    images: list[MemoryFolder] = []
    folder.before = lambda call, name: images.append(folder.copy())
    open_queue(folder, "x", schema=SCHEMA, retention="7d").close()
    assert sum(RETENTION in image.files for image in images) > 5
    for number, image in enumerate(images):
        with open_queue(image, "a", schema=SCHEMA, retention="7d") as queue:
            assert queue.retention == Retention.of("7d"), number


@pytest.mark.parametrize("bit", [0, 64, 96, 130, 260, 330, 400, 500])
def test_a_damaged_one_stops_what_nobody_asked_for_and_nothing_else(bit: int) -> None:
    queue = a_queue("consumers")
    with queue.consumer("hourly") as consumer:
        fill(queue, 4)
        consumer.acknowledge(effects_saved=3)
        files_of(queue).flip(RETENTION, bit)
        fill(queue, 2)
        assert oldest(queue) == 0
        with pytest.raises((CorruptLog, UnsupportedVersion)):
            queue.trim()
        assert sum(batch.num_rows for batch in queue.replay()) == 6
        assert queue.trim(2) == 2, "what somebody asks for needs no setting"
        queue.set_retention("consumers")
        fill(queue, 1)
        assert oldest(queue) == 3
    queue.close()


def test_one_of_another_queue_or_of_a_later_format_is_refused() -> None:
    queue = a_queue("7d")
    folder = files_of(queue)
    whole = bytes(folder.files[RETENTION])
    folder.files[RETENTION][:] = KeptRetention(bytes(16), Retention.of("1d"), 0).encode()
    with pytest.raises(CorruptLog, match="belongs to another queue"):
        _ = queue.retention
    later = bytearray(whole)
    later[8] = 2
    folder.files[RETENTION][:] = with_crc(bytes(later))
    for use in (lambda: queue.retention, lambda: queue.set_retention("1d")):
        with pytest.raises(UnsupportedVersion, match="version 2"):
            use()
    queue.close()


# -- the command line ---------------------------------------------------------------------------


def run(*arguments: object, status: int = 0) -> str:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == status, result.output
    return result.stdout


def test_the_command_line_shows_and_sets_it_only_with_yes(tmp_path: Path) -> None:
    path = tmp_path / "queue"
    with open_queue(path, "x", schema=SCHEMA) as queue:
        fill(queue, 4)
    assert "would set it to 1B" in run("consumers", path, "--retention", "1B")
    assert "deletes 3 segments" in run("consumers", path, "--retention", "1B")
    assert open_queue(path).retention == FOREVER
    assert "retention is 7d; it was forever" in run("consumers", path, "--retention", "7d", "--yes")
    assert open_queue(path).retention == Retention.of("7d")
    assert "retention 7d" in run("consumers", path)
    assert "retention: 7d" in run("extent", path)
    for verb in ("consumers", "extent"):
        assert json.loads(run(verb, path, "--json"))["retention"] == "7d"
    run("consumers", path, "--retention", "whenever", status=2)
    run("consumers", path, "--retention", "7d", "--drop", "x", status=2)


def test_a_consumer_is_registered_before_it_starts(tmp_path: Path) -> None:
    path = tmp_path / "queue"
    with open_queue(path, "x", schema=SCHEMA, retention="consumers") as queue:
        fill(queue, 3)
    said = run("consumers", path, "--add", "nightly")
    assert "would register consumer 'nightly'; do it with --yes" in said
    assert open_queue(path).consumers() == []
    said = run("consumers", path, "--add", "nightly", "--yes")
    assert "records are kept for it from offset 0 on" in said
    with open_queue(path, "a") as queue, queue.consumer("hourly") as hourly:
        hourly.acknowledge(effects_saved=3)
        fill(queue, 3)
        assert oldest(queue) == 0
        assert queue.consumer("nightly").effects_saved == 0
    run("consumers", path, "--add", "no name", status=2)


def test_a_consumer_whose_records_are_gone_is_not_said_to_keep_them(tmp_path: Path) -> None:
    path = tmp_path / "queue"
    with open_queue(path, "x", schema=SCHEMA) as queue:
        run("consumers", path, "--add", "nightly", "--yes")
        fill(queue, 4)
        queue.set_retention("1B")
        queue.trim()
        assert oldest(queue) > 0
    for options in ((), ("--yes",)):
        run("consumers", path, "--add", "nightly", *options, status=2)
    assert "records that it needs are deleted" in run("doctor", path, status=1)


def test_verify_names_a_damaged_one(tmp_path: Path) -> None:
    path = tmp_path / "queue"
    with open_queue(path, "x", schema=SCHEMA, retention="7d") as queue:
        fill(queue, 2)
    assert not verify_place(place_at(path)).faults
    data = bytearray((path / RETENTION).read_bytes())
    data[33] ^= 1
    (path / RETENTION).write_bytes(data)
    (fault,) = verify_place(place_at(path)).faults
    assert fault.kind == "retention-damaged"
    assert "retention unreadable" in run("consumers", path)
    assert read_queue(path).read_all().num_rows == 2
    run("consumers", path, "--retention", "7d", "--yes")
    assert not verify_place(place_at(path)).faults
    assert WRITER_LOCK in LocalFolder(path).names()
