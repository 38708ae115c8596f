"""Consumers of a queue of many partitions: what they need stays, and one at a time acts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cec_store import (
    ConsumerState,
    PartitionedConsumerState,
    PartitionedQueue,
    Position,
    open_queue,
)
from cec_store.errors import CorruptLog, Fenced, OutOfRange, QueueReplaced
from cec_store.format.schema import RecordSchema
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_commits import making
from cec_store.ledger.registrations import check_is_there
from cec_store.partitioned.by_reference.partitioned_consumer import PartitionedConsumer
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.partitioned.read_options import parse
from cec_store.partitioned.reading import StreamReader
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.store import Store

SCHEMA = RecordSchema(pa.schema([("n", pa.int64())]))
At = Callable[[], Store]


def opened(at: At, partitions: int = 2) -> PartitionedQueue:
    return PartitionedQueue(at(), "a", SCHEMA, partitions=partitions, clock_us=lambda: 9)


def filled(at: At, appends: int = 8) -> PartitionedQueue:
    queue = opened(at)
    for n in range(appends):
        queue.append(pa.table({"n": [10 * n, 10 * n + 1]}))
    return queue


def test_an_acknowledgement_is_there_after_a_restart(at: At) -> None:
    queue = filled(at)
    with_it = queue.consumer("billing")
    assert (with_it.start, with_it.received, with_it.effects_saved) == ((0, 0),) * 3
    with_it.acknowledge(received={0: 4, 1: 2}, effects_saved={0: 2})
    again = opened(at).consumer("billing")
    assert (again.received, again.effects_saved) == ((4, 2), (2, 0))
    again.acknowledge(effects_saved={0: 8})
    again.acknowledge(received={0: 1, 1: 1})  # nothing falls
    (state,) = opened(at).consumers()
    assert (state.received, state.effects_saved, state.lag_records) == ((8, 2), (8, 0), 6)
    assert (state.name, state.acknowledged_us) == ("billing", 9)


def test_a_consumer_of_many_partitions_says_what_one_of_a_plain_queue_says(tmp_path: Path) -> None:
    names = [
        [field.name for field in fields(kind)] for kind in (ConsumerState, PartitionedConsumerState)
    ]
    assert names[0] == names[1]
    schema = RecordSchema(pa.schema([("at", pa.int64())]), timestamp_column="at")
    clock = iter(range(100, 1_000_000, 100))
    queue = PartitionedQueue(
        store_at(tmp_path), "a", schema, partitions=2, clock_us=lambda: next(clock)
    )
    queue.append(pa.table({"at": [5, 50]}))
    written_us = queue._state.live.column("written_us")[0].as_py()
    queue.append(pa.table({"at": [20, 21]}))
    reader = queue.consumer("reader")
    (state,) = queue.consumers()
    assert (state.lag_us, state.waiting_since_us) == (45, written_us)
    first = queue._state.live.column("partition")[0].as_py()
    reader.acknowledge(received={first: 2})
    (state,) = queue.consumers()
    assert (state.lag_records, state.lag_us) == (2, 1)
    assert state.waiting_since_us > written_us
    reader.acknowledge(received=queue.ends())
    (state,) = queue.consumers()
    assert (state.lag_records, state.lag_us, state.waiting_since_us) == (0, 0, None)


def test_whoever_acts_under_the_name_later_fences_the_one_before(at: At) -> None:
    queue = filled(at)
    first = queue.consumer("billing")
    first.acknowledge(effects_saved={0: 2})
    second = opened(at).consumer("billing")
    with pytest.raises(Fenced, match="taken over consumer 'billing'"):
        first.acknowledge(effects_saved={0: 8})
    for offset in (4, 6):
        second.acknowledge(effects_saved={0: offset})
    with pytest.raises(Fenced):  # its number is free again, and another one is higher
        first.acknowledge(effects_saved={0: 8})
    assert opened(at).consumers()[0].effects_saved == (6, 0)


def test_no_trim_takes_what_a_consumer_needs(at: At) -> None:
    queue = filled(at)
    consumer = queue.consumer("billing")
    queue.set_retention("consumers")
    assert queue.trim() == {0: 0, 1: 0}
    consumer.acknowledge(effects_saved={0: 5, 1: 8})
    assert queue.trim(before={0: 8, 1: 8}) == {0: 4, 1: 8}
    late = queue.consumer("audit")
    assert late.start == (4, 8)
    consumer.acknowledge(effects_saved={0: 8})
    assert queue.trim() == {0: 4, 1: 8}
    queue.drop_consumer("audit")
    assert queue.trim() == {0: 8, 1: 8}
    with pytest.raises(ValueError, match="no consumer 'audit'"):
        queue.drop_consumer("audit")


def test_a_consumer_registers_where_it_says_once(at: At) -> None:
    queue = filled(at)
    assert queue.consumer("billing", start={0: 3}).start == (3, 0)
    assert queue.consumer("billing", start={0: 5}).start == (3, 0)
    for start in ({0: 99}, {7: 0}):
        with pytest.raises(OutOfRange):
            queue.consumer("other", start=start)
    with pytest.raises(ValueError, match="not an offset: -1"):  # as of a plain queue
        queue.consumer("other", start={0: -1})
    for name in ("", "a/b", "x" * 101):
        with pytest.raises(ValueError, match="name"):
            queue.consumer(name)
    assert [each.name for each in queue.consumers()] == ["billing"]


def test_what_is_not_there_is_not_acknowledged(at: At) -> None:
    consumer = filled(at).consumer("billing")
    with pytest.raises(OutOfRange, match="whose end is 8"):
        consumer.acknowledge(received={0: 9})
    with pytest.raises(OutOfRange, match="partition 2"):
        consumer.acknowledge(received={2: 0})
    with pytest.raises(ValueError, match="not received"):
        consumer.acknowledge(received={0: 1}, effects_saved={0: 2})
    assert consumer.received == (0, 0)
    opened(at).append(pa.table({"n": [1]}))
    consumer.acknowledge(received={0: 9})


def test_one_that_is_dropped_and_registers_anew_begins_anew(at: At) -> None:
    queue = filled(at)
    old = queue.consumer("billing")
    old.acknowledge(effects_saved={0: 8, 1: 8})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cec_store.partitioned.by_reference.partitioned_consumer."
                      "dropped_names", lambda *_: [])  # fmt: skip
        queue.drop_consumer("billing")  # and dies before the objects are deleted
    anew = queue.consumer("billing", start={0: 2})
    assert anew.effects_saved == (2, 0)
    assert queue.consumers()[0].effects_saved == (2, 0)


@pytest.mark.parametrize("times", [1, 3])
def test_who_acted_under_a_name_before_it_was_dropped_acknowledges_nothing_more(
    at: At, times: int
) -> None:
    """Else a trim would go by what it has read, and the new one's rows be gone."""
    queue = filled(at)
    queue.set_retention("consumers")
    old = queue.consumer("billing")
    for offset in (2, 4, 6):
        old.acknowledge(effects_saved={0: offset})
    for _ in range(times):
        queue.drop_consumer("billing")
        new = queue.consumer("billing", start={0: 0})
    assert new.effects_saved == (0, 0)
    with pytest.raises(Fenced):
        old.acknowledge(effects_saved={0: 8, 1: 8})
    assert queue.trim() == {0: 0, 1: 0}
    new.acknowledge(effects_saved={0: 2})
    assert queue.consumers()[0].effects_saved == (2, 0)


def test_who_acts_under_a_name_while_it_is_registered_anew_says_nothing_for_the_new_one(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = filled(at)
    old = queue.consumer("billing")
    queue.drop_consumer("billing")
    real = PartitionedConsumer._taken_over

    def late(consumer: PartitionedConsumer) -> object:
        old.acknowledge(effects_saved={0: 8, 1: 8})
        return real(consumer)

    monkeypatch.setattr(PartitionedConsumer, "_taken_over", late)
    assert queue.consumer("billing").effects_saved == (0, 0)


def test_a_damaged_acknowledgement_stops_trims_until_its_consumer_is_dropped(
    tmp_path: Path,
) -> None:
    at: At = lambda: store_at(tmp_path)  # noqa: E731
    queue = filled(at)
    queue.consumer("billing").acknowledge(effects_saved={0: 8, 1: 8})
    (file,) = (tmp_path / "consumers" / "billing").iterdir()
    good = file.read_bytes()
    for byte in range(len(good)):
        file.chmod(0o600)
        file.write_bytes(good[:byte] + bytes([good[byte] ^ 4]) + good[byte + 1 :])
        with pytest.raises(CorruptLog, match=file.name):
            queue.trim(before={0: 8})
    for size in range(len(good)):
        file.write_bytes(good[:size])
        with pytest.raises(CorruptLog, match=file.name):
            queue.consumers()
    queue.drop_consumer("billing")
    assert queue.trim(before={0: 8})[0] == 8


def test_a_position_of_another_queue_is_refused(at: At, tmp_path: Path) -> None:
    queue = filled(at)
    with opened(lambda: store_at(str(tmp_path / "other"))) as other:
        other.append(pa.table({"n": [1]}))
    mine = ReferenceQueue(at()).queue_id
    another = ReferenceQueue(store_at(str(tmp_path / "other"))).queue_id
    foreign = Position(2, 0, another)
    with pytest.raises(QueueReplaced, match=f"of queue {another}"):
        queue.consumer("billing", start={0: foreign})
    assert queue.consumers() == []
    consumer = queue.consumer("billing", start={0: Position(2, 0, mine)})
    for places in ({"received": {0: foreign}}, {"effects_saved": {0: foreign}}):
        with pytest.raises(QueueReplaced, match=f"of queue {another}"):
            consumer.acknowledge(**places)
    consumer.acknowledge(effects_saved={0: Position(4, 0, mine), 1: 2})
    assert (consumer.start, consumer.effects_saved) == ((2, 0), (4, 2))


def test_a_query_needs_nothing_that_it_has_done(tmp_path: Path) -> None:
    """What it acknowledged last was lost, and the queue was trimmed up to there."""
    path, schema = tmp_path / "q", pa.schema([("n", pa.int64())])
    given = {"path": str(path), "startingOffsets": "earliest", "consumer": "hourly"}
    queue = open_queue(path, "a", schema=schema, partitions=2)
    reader = StreamReader(parse(given, is_stream=True))
    position = reader.begin()
    for count in range(2):
        queue.append(pa.table({"n": [*range(9)]}))
        position = reader.next_end(position, takes_all=True)
        reader.acknowledge(position)
        if not count:
            shutil.copytree(path / "consumers", tmp_path / "kept")
    assert queue.trim(before=queue.ends()) == queue.ends()
    shutil.rmtree(path / "consumers")
    shutil.copytree(tmp_path / "kept", path / "consumers")
    again = StreamReader(parse(given, is_stream=True))
    assert again.next_end(position, takes_all=True) == position
    (consumer,) = queue.consumers()
    assert consumer.lag_records == 0


def test_what_was_received_of_partitions_that_are_not_there_is_an_older_copy() -> None:
    """The copy was made before there were three."""
    state = QueueState.of([making(SCHEMA, 2, {}, 1)])
    with pytest.raises(OutOfRange, match="partition 2 up to 5, and the queue has them up to 0: an"):
        check_is_there("q", state, "hourly", (0, 0, 5))
    check_is_there("q", state, "hourly", (0, 0, 0))


def test_offsets_are_integers_of_any_kind_and_nothing_else(tmp_path: Path) -> None:
    with open_queue(tmp_path / "q", "a", schema=SCHEMA, partitions=1) as queue:
        queue.append(pa.table({"n": range(9)}))
        consumer = queue.consumer("hourly", start={0: np.int64(5)})
        for refused in (lambda: queue.consumer("other", start={0: 2.5}),
                        lambda: consumer.acknowledge(effects_saved={0: 6.5})):  # fmt: skip
            with pytest.raises(ValueError, match="not an offset"):
                refused()
        consumer.acknowledge(effects_saved={0: np.int64(6)})
        [state] = queue.consumers()
        assert (state.name, state.effects_saved) == ("hourly", (6,))
