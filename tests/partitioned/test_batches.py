"""Batches of queries: in the queue once, whatever was tried before, and what is dropped is said."""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cec_store import open_queue, read_queue
from cec_store.errors import NotAQueue, SchemaMismatch, StorageError
from cec_store.format.retention import Retention
from cec_store.format.schema import RecordSchema
from cec_store.partitioned.batches import BatchCommitter, write_segments
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.storage.local import LocalFolder
from cec_store.storage.stores.local_store import LocalStore
from support.places import partitioned_queues

SCHEMA = RecordSchema(pa.schema([("n", pa.int64())]))


def committer(path: Path, **more: Any) -> BatchCommitter:
    return BatchCommitter(LocalFolder(path), more.pop("store", LocalStore(path)), SCHEMA, **more)


def rows(first: int, count: int) -> Iterable[pa.RecordBatch]:
    if count:
        yield pa.record_batch([pa.array(range(first, first + count), pa.int64())], SCHEMA.data)


def segments(path: Path, query: str, batch: int, first: int, count: int) -> list[dict[str, Any]]:
    part, store = rows(first, count), LocalStore(path)
    return write_segments(store, SCHEMA, query, batch, 0, part, segment_bytes=1 << 20)


def write(path: Path, version: int, first: int, count: int, app: str = "totals") -> None:
    """As a batch of `foreachBatch` does it: each by a committer of its own."""
    made = committer(path)
    made.commit(app, version, segments(path, app, version, first, count), advice="another txnAppId")


def numbers(path: Path) -> list[int]:
    return sorted(read_queue(path).read_all().column("n").to_pylist())


def objects(path: Path) -> set[str]:
    return {f.relative_to(path).as_posix() for f in (path / "data").rglob("*.seg")}


def named(path: Path) -> set[str]:
    return set(ReferenceQueue(LocalStore(path)).state.live.column("file").to_pylist())


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    found = [(each.levelno, each.getMessage()) for each in caplog.records]
    caplog.clear()
    return found


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "cec_store")
    return caplog


def test_output_of_a_new_checkpoint_under_an_old_name_is_dropped_with_a_warning(
    log: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    path = tmp_path / "q"
    for version in range(3):
        write(path, version, 10 * version, 5)
    assert said(log) == []
    for version in range(2):
        write(path, version, 100, 4)
        [(level, text)] = said(log)
        assert level == logging.WARNING
        for word in (str(path), "4 rows", f"batch {version}", "'totals'", "up to 2", "txnAppId"):
            assert word in text
    write(path, 2, 100, 4)
    [(level, text)] = said(log)
    assert (level, "with other rows" in text) == (logging.WARNING, True)
    assert len(numbers(path)) == 15
    write(path, 0, 100, 4, app="totals-2")
    assert said(log) == []
    assert len(numbers(path)) == 19


def test_two_forks_under_one_name_are_told_apart_from_a_batch_run_again(
    log: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    path = tmp_path / "q"
    write(path, 0, 0, 5)
    write(path, 1, 5, 5)
    write(path, 7, 0, 1, app="another")
    write(path, 1, 5, 5)
    [(level, text)] = said(log)
    assert (level, "run again" in text) == (logging.INFO, True)
    write(path, 1, 5, 6)
    assert [level for level, _ in said(log)] == [logging.WARNING]
    write(path, 1, 5, 0)
    assert said(log) == []


def test_a_query_from_a_copied_checkpoint_is_told_so(
    log: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    path = tmp_path / "q"
    kept = committer(path)
    for batch, count in ((0, 3), (1, 3), (0, 2)):
        made = segments(path, "query", batch, 10 * batch, count)
        assert kept.commit("query", batch, made, advice="by cec-store fork") == (count == 3)
    [(level, text)] = said(log)
    assert (level, "cec-store fork" in text) == (logging.WARNING, True)
    assert objects(path) == named(path)


def test_what_attempts_that_failed_have_left_goes_with_the_batch(tmp_path: Path) -> None:
    path = tmp_path / "q"
    committer(path)
    segments(path, "query", 0, 0, 5)  # of a driver that died
    committer(path).commit("query", 0, segments(path, "query", 0, 0, 5))
    assert objects(path) == named(path)
    kept = committer(path)
    kept.commit("query", 1, segments(path, "query", 1, 5, 5))
    segments(path, "query", 2, 10, 5)  # of a task that was tried again
    kept.commit("query", 2, segments(path, "query", 2, 10, 5), is_retried=True)
    assert objects(path) == named(path)
    assert numbers(path) == list(range(15))


class LosesReplies(LocalStore):
    """Makes the commit of this number, and says that it has not."""

    def create(self, name: str, parts: Any) -> None:
        super().create(name, parts)
        if name.endswith("1.commit"):
            raise StorageError("no reply")


def test_a_commit_of_which_nobody_knows_keeps_its_objects(tmp_path: Path) -> None:
    path = tmp_path / "q"
    unsure = committer(path, store=LosesReplies(path))
    with pytest.raises(StorageError, match="no reply"):
        unsure.commit("query", 0, segments(path, "query", 0, 0, 5))
    assert numbers(path) == list(range(5))
    again = segments(path, "query", 0, 0, 5)
    assert not committer(path).commit("query", 0, again)
    assert numbers(path) == list(range(5))
    assert objects(path) == named(path)


def test_a_task_that_fails_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "q"

    def parts() -> Iterable[pa.RecordBatch]:
        for first in range(3):
            yield pa.record_batch([pa.array(range(first, first + 2_000_000))], SCHEMA.data)
        assert objects(path), "none was full"
        raise RuntimeError("as a query fails")

    with pytest.raises(RuntimeError):
        write_segments(LocalStore(path), SCHEMA, "q", 0, 0, parts(), segment_bytes=4096)
    assert objects(path) == set()


def test_what_is_no_queue_or_has_other_columns_is_refused_and_stays(tmp_path: Path) -> None:
    def refused(path: Path, error: type[Exception], words: str) -> None:
        before = sorted(path.rglob("*"))
        with pytest.raises(error, match=words):
            committer(path)
        assert sorted(path.rglob("*")) == before

    for name in ("full", "plain", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    refused(tmp_path / "full", NotAQueue, "not empty")
    with open_queue(tmp_path / "plain", "x", schema=SCHEMA):
        pass
    refused(tmp_path / "plain", NotAQueue, "a queue without partitions")
    open_queue(tmp_path / "other", "x", schema=partitioned_queues.SCHEMA, partitions=1)
    refused(tmp_path / "other", SchemaMismatch, "the queue's columns are")


def test_retention_is_kept_by_upkeep_and_another_is_told(
    log: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    clock = clock_of(10**15)
    kept = committer(tmp_path, retention=Retention.of("1us"), clock_us=clock)
    for batch in range(63):
        made = segments(tmp_path, "query", batch, 5 * batch, 5)
        kept.commit("query", batch, [{**each, "written_us": clock()} for each in made])
    assert ReferenceQueue(LocalStore(tmp_path)).first(0) == 0
    kept.commit("query", 63, segments(tmp_path, "query", 63, 0, 5))
    assert ReferenceQueue(LocalStore(tmp_path)).first(0) > 0
    said(log)
    committer(tmp_path, retention=Retention.of("5d"))
    [(level, text)] = said(log)
    assert (level, "its retention is 1us, not 5d" in text) == (logging.WARNING, True)


def clock_of(begin_us: int) -> Callable[[], int]:
    """Each call a millisecond later."""
    calls = iter(range(begin_us, begin_us + 10**9, 1000))
    return lambda: next(calls)
