"""A chain of two stateful queries over queues: exactly once from end to end, and bounded."""

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cec_store.connectors import spark as cec_spark
from cec_store.opening import open_queue, read_queue
from cec_store.partitioned.partitions import Partitions
from cec_store.storage.local import LocalFolder
from support.drivers.chain_job import ITEMS, SEGMENT_BYTES, events_of
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


def segments(folder: Path) -> int:
    return max(len(list(part.glob("*.seg"))) for part in folder.glob("partition-*"))


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
    distinct = Partitions(LocalFolder(tmp_path / "distinct"))
    for number, end in distinct.ends().items():
        (consumer,) = distinct.queue(number).consumers()
        assert consumer.name == "counts"
        assert consumer.effects_saved > 0.5 * end
        if end * 10 > 4 * SEGMENT_BYTES:  # some ten bytes a row
            assert distinct.first(number) > 0, "never trimmed"


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    cec_spark.register(spark)
    return spark


def start(session: Any, queue: Path, checkpoint: Path, consumer: str) -> Any:
    rows = session.readStream.format("cec").option("startingOffsets", "earliest")
    rows = rows.option("consumer", consumer).load(str(queue))
    return rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()


def append(session: Any, queue: Path, rows: int, retention: str = "forever") -> None:
    writer = session.range(rows).write.format("cec").mode("append").option("segmentBytes", 4096)
    writer.option("retention", retention).save(str(queue))


def test_a_consumer_acknowledges_what_its_query_has_done(session: Any, tmp_path: Path) -> None:
    queue = tmp_path / "q"
    append(session, queue, 100)
    query = start(session, queue, tmp_path / "c", "hourly")
    query.processAllAvailable()
    append(session, queue, 10)
    query.processAllAvailable()
    with open_queue(queue / "partition-00000") as part:
        (state,) = part.consumers()
    query.stop()
    assert (state.name, state.effects_saved, state.lag_records) == ("hourly", 55, 0)


def test_a_run_to_the_end_leaves_no_lag(session: Any, tmp_path: Path) -> None:
    queue = tmp_path / "q"
    rows = session.readStream.format("cec").option("startingOffsets", "earliest")
    for _ in range(2):
        append(session, queue, 100)
        loaded = rows.option("consumer", "hourly").option("maxOffsetsPerTrigger", 30)
        stream = loaded.load(str(queue)).writeStream.format("noop").trigger(availableNow=True)
        query = stream.option("checkpointLocation", str(tmp_path / "c")).start()
        assert query.awaitTermination(120)
        for number in range(2):
            with open_queue(queue / f"partition-{number:05}") as part:
                (state,) = part.consumers()
            assert (state.lag_records, state.waiting_since_us) == (0, None)


def test_two_queries_cannot_be_one_consumer(session: Any, tmp_path: Path) -> None:
    queue = tmp_path / "q"
    append(session, queue, 100)
    one = start(session, queue, tmp_path / "c", "hourly")
    one.processAllAvailable()
    two = start(session, queue, tmp_path / "d", "hourly")
    with pytest.raises(Exception, match="consumer 'hourly' is in use"):
        two.awaitTermination(60)
    assert one.isActive
    one.stop()
    three = start(session, queue, tmp_path / "c", "hourly")
    three.processAllAvailable()
    three.stop()


def test_a_sink_keeps_what_a_consumer_has_not_done_and_no_more(
    session: Any, tmp_path: Path
) -> None:
    queue = tmp_path / "q"
    append(session, queue, 10, "consumers")
    query = start(session, queue, tmp_path / "c", "hourly")
    for _ in range(6):
        append(session, queue, 4000)
        query.processAllAvailable()
    first = segments(queue)
    query.stop()
    assert first <= 4
    assert Partitions(LocalFolder(queue)).first(0) > 0
    for _ in range(3):
        append(session, queue, 4000)
    assert segments(queue) > first, "nobody has read them"
    query = start(session, queue, tmp_path / "c", "hourly")
    query.processAllAvailable()
    query.stop()


def test_a_consumer_deletes_nothing_where_the_queue_keeps_all(session: Any, tmp_path: Path) -> None:
    queue = tmp_path / "q"
    append(session, queue, 10)
    query = start(session, queue, tmp_path / "c", "hourly")
    for _ in range(4):
        append(session, queue, 4000)
        query.processAllAvailable()
    query.stop()
    assert Partitions(LocalFolder(queue)).first(0) == 0
    assert read_queue(queue).read_all().num_rows == 16_010


def test_a_consumer_that_comes_too_late_is_told_what_is_left(session: Any, tmp_path: Path) -> None:
    queue = tmp_path / "q"
    append(session, queue, 10, "1us")
    query = start(session, queue, tmp_path / "c", "hourly")
    query.processAllAvailable()
    query.stop()
    for _ in range(4):
        append(session, queue, 4000)
    first = Partitions(LocalFolder(queue)).first(0)
    assert first > 10
    late = start(session, queue, tmp_path / "c", "hourly")
    with pytest.raises(Exception, match=rf"(needs records from|trimmed).*{first}"):
        late.awaitTermination(60)
    rows = session.readStream.format("cec").option("consumer", "hourly")
    rows = rows.option("failOnDataLoss", "false").load(str(queue))
    stream = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    goes_on = stream.start()
    goes_on.processAllAvailable()
    goes_on.stop()
    with open_queue(queue / "partition-00000") as part:
        (state,) = part.consumers()
    assert state.effects_saved >= first
