"""fork() after a queue was opened: a child cannot go on with it, and holds nothing of it."""

import os
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from cec_store import Forked, OutputQueue, Position, open_queue
from cec_store.inspector.verifying.index import check_index
from cec_store.operators import Aggregate, ArrowSource, CountWindow, Runner, record_schema
from cec_store.storage.local import LocalFolder

SCHEMA = pa.schema({"n": pa.int64()})
BUSY_S = 30


def rows(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"n": list(values)}, SCHEMA)


@contextmanager
def child(work: Callable[[], None]) -> Iterator[None]:
    """A forked child that does this and lives on; the block begins when it has done it."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os.write(writing, b"done")
        except BaseException:
            os.write(writing, traceback.format_exc().encode())
        os.close(writing)
        time.sleep(BUSY_S)
        os._exit(0)
    os.close(writing)
    try:
        with os.fdopen(reading) as said:
            assert said.read() == "done"
        yield
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue"


def test_what_a_child_does_with_its_parents_queue_is_refused(path: Path) -> None:
    queue = open_queue(path, "x", schema=SCHEMA)
    queue.append(rows(1), sync=True)
    consumer = queue.consumer("c")

    def work() -> None:
        calls = (
            lambda: queue.append(rows(2)),
            queue.sync,
            lambda: queue.await_durable(0),
            queue.roll,
            queue.trim,
            queue.reindex,
            lambda: queue.replay(0),
            lambda: consumer.acknowledge(received=1),
        )
        for call in calls:
            with pytest.raises(Forked, match=r"before this process was forked.*spawn"):
                call()
        consumer.close()
        queue.close()  # of the parent's queue there is nothing to close

    with child(work):
        queue.append(rows(3), sync=True)
        queue.roll()
        consumer.acknowledge(received=2)
        queue.close()
    assert pa.Table.from_batches(open_queue(path).replay()).column("n").to_pylist() == [1, 3]


def test_a_parents_lock_is_free_once_it_closes_though_a_child_lives(path: Path) -> None:
    queue = open_queue(path, "x", schema=SCHEMA)
    consumer = queue.consumer("c")
    with child(lambda: None):
        queue.close()
        consumer.close()
        with open_queue(path, "a") as again:
            again.append(rows(1), sync=True)
            again.consumer("c").close()
            again.trim()


def test_a_child_that_ends_closes_nothing_of_its_parents(path: Path) -> None:
    with open_queue(path, "x", schema=SCHEMA) as queue:
        queue.append(rows(1))
        pid = os.fork()
        if pid == 0:
            del queue
            os._exit(0)
        os.waitpid(pid, 0)
        queue.append(rows(2), sync=True)
    assert open_queue(path).end_offset == 2


def test_a_child_reads_a_queue_that_its_parent_opened_to_read(path: Path) -> None:
    with open_queue(path, "x", schema=SCHEMA) as writer:
        writer.append(rows(1, 2, 3), sync=True)
        writer.replay(0)  # an index is there
    queue = open_queue(path)
    assert isinstance(queue, OutputQueue)
    queue.position_at(0)
    queue._index_lock.acquire()  # as if another thread of the parent were at it

    def work() -> None:
        assert pa.Table.from_batches(queue.replay(0)).num_rows == 3
        assert queue.end_offset == 3
        with open_queue(path, "a") as own:
            own.append(rows(4), sync=True)

    with child(work):
        queue._index_lock.release()
        assert queue.end_offset == 4


def test_a_child_cannot_run_its_parents_operator(path: Path) -> None:
    table = pa.table({"t": pa.array([1, 2]).cast(pa.timestamp("us")), "k": [1, 1]})
    operator = Aggregate(
        group_by=["k"], aggregates={"n": ("count",)}, window=CountWindow(9),
        input_schema=table.schema,
    )  # fmt: skip
    with open_queue(path, "x", schema=record_schema(operator)) as queue:
        runner = Runner(operator, [ArrowSource(table, "t")], queue)

        def work() -> None:
            with pytest.raises(Forked):
                runner.run()

        with child(work):
            runner.run()


def test_the_index_is_used_in_a_child_and_by_another_path(path: Path, tmp_path: Path) -> None:
    """LMDB opens no file twice in a process, and a child has what its parent had open."""
    schema = pa.schema([("at", pa.timestamp("us"))])
    with open_queue(path, "x", schema=schema, timestamp_column="at") as queue:
        for moment in range(30):
            queue.append(pa.record_batch([pa.array([moment], schema.types[0])], schema=schema))
        queue.sync()
        queue.position_at(5)
    link = tmp_path / "link"
    link.symlink_to(path)

    def look() -> None:
        for each in path, link:
            index, fault = check_index(LocalFolder(each))
            assert (index, fault) == ("covers 30 of 30 frames", None)

    with open_queue(path) as held:
        held.position_at(15)
        look()
        with child(look):
            assert held.position_at(15) == Position(15)
