"""A chain of two stateful queries over queues: exactly once from end to end, and bounded."""

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cec_store.connectors import spark as cec_spark
from cec_store.opening import open_queue, queue_at, read_queue
from support.drivers.chain_job import ITEMS, events_of
from support.places.partitioned_queues import SCHEMA, rows
from support.runs.minors import needs_python_sources
from support.spark.jobs import kill, run_job, start_job

JOB = "chain_job"


def assert_exactly_once(folder: Path) -> None:
    events = {}
    for file in range(len(list((folder / "in").glob("*.json")))):
        for event in events_of(file):
            events.setdefault(event["event"], event["item"])
    counts = Counter(events.values())
    totals = {item: sum(e for e, own in events.items() if own == item) for item in range(ITEMS)}
    newest: dict[int, tuple[int, int]] = {}
    table = read_queue(folder / "counts").read_all()
    for row in table.to_pylist():  # of an item, all in one partition
        newest[row["item"]] = (row["events"], row["total"])
    assert newest == {item: (counts[item], totals[item]) for item in counts}


def trim(queue: Path) -> dict[int, int]:
    """What a sink does every 64 commits; the oldest offset of each partition after it."""
    with open_queue(queue, "a", partitions=len(queue_at(queue).ends())) as whole:
        return whole.trim()


def consumer_of(queue: Path) -> Any:
    (found,) = open_queue(queue).consumers()
    return found


def test_a_chain_that_is_killed_counts_every_event_once_and_stays_bounded(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    generator = random.Random(7)
    for seed in range(crash_count(1, 30)):
        job = start_job(JOB, tmp_path, seed=seed, then="run")
        assert job.stdout is not None
        for _ in range(5):
            assert job.stdout.readline(), (tmp_path / "stderr").read_text()[-3000:]
        time.sleep(generator.random() * 3)
        kill(job)
    assert run_job(JOB, tmp_path, 300)[-1] == {"done": True}
    assert_exactly_once(tmp_path)
    consumer, ends = consumer_of(tmp_path / "distinct"), queue_at(tmp_path / "distinct").ends()
    assert consumer.name == "counts"
    starts = trim(tmp_path / "distinct")
    for number, end in ends.items():
        assert consumer.effects_saved[number] > 0.5 * end
        assert 0 < starts[number] <= consumer.effects_saved[number], "never trimmed"


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    cec_spark.register(spark)
    return spark


@pytest.fixture(
    scope="module", params=["cec", pytest.param("cec_python", marks=needs_python_sources)]
)
def form(request: pytest.FixtureRequest) -> str:
    """What `format()` takes: the source and sink of the jar, or those in Python."""
    return str(request.param)


def stream(session: Any, form: str, queue: Path, checkpoint: Path, **options: str) -> Any:
    rows = session.readStream.format(form).option("startingOffsets", "earliest")
    rows = rows.option("consumer", "hourly").options(**options).load(str(queue))
    return rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint))


def append(session: Any, queue: Path, rows: int, retention: str = "forever") -> None:
    writer = session.range(0, rows, 1, 2).write.format("cec").mode("append")
    writer.option("retention", retention).save(str(queue))


def test_a_consumer_acknowledges_what_its_query_has_done(
    session: Any, form: str, tmp_path: Path
) -> None:
    queue = tmp_path / "q"
    append(session, queue, 100)
    query = stream(session, form, queue, tmp_path / "c").start()
    query.processAllAvailable()
    append(session, queue, 10)
    query.processAllAvailable()
    query.stop()
    state = consumer_of(queue)
    assert (state.name, state.effects_saved, state.lag_records) == ("hourly", (55, 55), 0)


def test_a_run_to_the_end_leaves_no_lag(session: Any, form: str, tmp_path: Path) -> None:
    queue = tmp_path / "q"
    append(session, queue, 100)
    ended = stream(session, form, queue, tmp_path / "c", maxOffsetsPerTrigger="60")
    assert ended.trigger(availableNow=True).start().awaitTermination(120)
    state = consumer_of(queue)
    assert (state.effects_saved, state.lag_records) == ((50, 50), 0)


def test_of_two_queries_under_one_name_the_later_has_it(
    session: Any, form: str, tmp_path: Path
) -> None:
    queue = tmp_path / "q"
    append(session, queue, 100)
    one = stream(session, form, queue, tmp_path / "c").start()
    one.processAllAvailable()
    two = stream(session, form, queue, tmp_path / "d").start()
    two.processAllAvailable()
    append(session, queue, 10)
    with pytest.raises(Exception, match="somebody has taken over consumer 'hourly'"):
        one.awaitTermination(60)
    two.processAllAvailable()
    assert two.isActive
    two.stop()
    assert consumer_of(queue).effects_saved == (55, 55)


def test_a_queue_keeps_what_a_consumer_has_not_done_and_no_more(
    session: Any, tmp_path: Path
) -> None:
    queue, forever = tmp_path / "q", tmp_path / "forever"
    for each, retention in ((queue, "consumers"), (forever, "forever")):
        append(session, each, 100, retention)
        ended = stream(session, "cec", each, tmp_path / f"c-{retention}").trigger(availableNow=True)
        assert ended.start().awaitTermination(120)
        append(session, each, 100)
    assert trim(queue) == {0: 50, 1: 50}
    append(session, queue, 100)
    assert trim(queue) == {0: 50, 1: 50}, "nobody has read them"
    assert trim(forever) == {0: 0, 1: 0}
    assert read_queue(forever).read_all().num_rows == 200


def test_a_consumer_that_comes_too_late_is_told_what_is_left(
    session: Any, form: str, tmp_path: Path
) -> None:
    queue = tmp_path / "q"
    append(session, queue, 10, "1us")
    ended = stream(session, form, queue, tmp_path / "c").trigger(availableNow=True)
    assert ended.start().awaitTermination(120)
    append(session, queue, 10)
    assert trim(queue) == {0: 10, 1: 10}
    append(session, queue, 10)
    late = stream(session, form, queue, tmp_path / "c").start()
    with pytest.raises(Exception, match="is not in 10 … 15: it is trimmed"):
        late.awaitTermination(60)
    goes_on = stream(session, form, queue, tmp_path / "c", failOnDataLoss="false")
    assert goes_on.trigger(availableNow=True).start().awaitTermination(120)
    assert consumer_of(queue).effects_saved == (15, 15)


@needs_python_sources
def test_a_consumer_of_a_queue_without_partitions_is_of_the_source_in_python(
    session: Any, tmp_path: Path
) -> None:
    with open_queue(tmp_path / "q", "x", schema=SCHEMA) as queue:
        queue.append(rows(0, 5), sync=True)
    late = stream(session, "cec", tmp_path / "q", tmp_path / "c").start()
    with pytest.raises(Exception, match=r'read it by format\("cec_python"\)'):
        late.awaitTermination(60)
    ended = stream(session, "cec_python", tmp_path / "q", tmp_path / "d").trigger(availableNow=True)
    assert ended.start().awaitTermination(120)
    with open_queue(tmp_path / "q") as queue:
        assert [(c.name, c.effects_saved) for c in queue.consumers()] == [("hourly", 5)]
