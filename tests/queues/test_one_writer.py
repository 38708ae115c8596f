"""A queue of one writer whose frames stand in its commits: docs/format.md §13."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from cec_store import OutputQueue, PartitionedQueue, QueueOptions, Targets, open_queue, read_queue
from cec_store.errors import CorruptLog, OutOfRange, QueueReplaced
from cec_store.format.bodies import encode_body
from cec_store.format.by_reference.commits import WRITER_SETTING, ReferenceObject
from cec_store.format.by_reference.inline import NumberedFrames
from cec_store.format.frame import CONTINUES, FrameHeader, FrameType
from cec_store.format.records import data_records, to_timestamps
from cec_store.format.schema import RecordSchema
from cec_store.inspector.places.places import place_at
from cec_store.inspector.showing.states import WindowReader
from cec_store.inspector.verifying.place import verify_place
from cec_store.ledger.commit_chain import CommitChain
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_commits import appended_after
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.log.frames import FrameMarks
from cec_store.operators import (
    Aggregate,
    ArrowSource,
    CountWindow,
    QueueSource,
    Runner,
    record_schema,
)
from cec_store.storage.names import LOG_FOLDER, commit_object_name
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.store_folder import StoreFolder
from support.stores.copies import in_memory
from support.stores.counting import CountingStore
from support.stores.needed import need

need("fsspec")
SCHEMA = pa.schema([("n", pa.int64())])
RECORDS = RecordSchema(SCHEMA)
INPUT = pa.table(
    {
        "at": pa.array(range(0, 1_000_000, 1000), pa.timestamp("us", "UTC")),
        "key": [f"k{n % 7}" for n in range(1000)],
        "value": [n % 101 for n in range(1000)],
    }
)


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": list(numbers)}, schema=SCHEMA)


def opened(url: str) -> OutputQueue:
    queue = open_queue(url, "a", schema=SCHEMA)
    assert isinstance(queue, OutputQueue)
    return queue


def faults(url: str) -> list[str]:
    return [str(fault) for fault in verify_place(place_at(url), records=True).faults]


def of_operator(url: str) -> OutputQueue:
    """Run an operator over all input, and return its queue, open."""
    operator = Aggregate(
        group_by=["key"], aggregates={"total": ("sum", "value")}, window=CountWindow(60),
        input_schema=INPUT.schema,
    )  # fmt: skip
    options = QueueOptions(sync="commit")
    queue = open_queue(url, "a", schema=record_schema(operator), options=options)
    assert isinstance(queue, OutputQueue)
    policy = Targets(extent_factor=2.0, extent_floor=1, replay_rows=300)
    Runner(operator, [ArrowSource(INPUT, "at")], queue, policy, step_rows_max=50).run()
    return queue


def test_the_queue_of_an_operator_is_sound_and_has_its_state() -> None:
    url = in_memory()
    with of_operator(url) as queue:
        checkpoint = queue.rebuild()
        assert checkpoint.open_windows == 7
        assert queue.extent().records == checkpoint.extent.records
    assert faults(url) == []
    (log,) = verify_place(place_at(url), records=True).logs
    assert log.found is not None
    assert log.found.recounted_frames > 4
    assert {kind for kind, count in log.found.kinds.items() if count} >= {"OPEN", "RESULT"}
    assert len(WindowReader(place_at(url)).chain.segments) > 4


def test_an_operator_in_a_store_notes_which_queue_it_reads(tmp_path: Path) -> None:
    url, place = in_memory(), tmp_path / "input"
    schema = INPUT.drop(["at"]).schema

    def run() -> None:
        operator = Aggregate(
            group_by=["key"], aggregates={"total": ("sum", "value")}, window=CountWindow(60),
            input_schema=schema,
        )  # fmt: skip
        with open_queue(place) as source, open_queue(
            url, "a", schema=record_schema(operator)
        ) as queue:  # fmt: skip
            assert isinstance(source, OutputQueue)
            Runner(operator, [QueueSource(source.chain)], queue).run()

    with open_queue(place, "a", schema=schema) as queue:
        queue.append(INPUT.drop(["at"]), sync=True)
    run()
    run()
    shutil.rmtree(place)
    with open_queue(place, "a", schema=schema) as queue:
        queue.append(INPUT.drop(["at"]), sync=True)
    with pytest.raises(QueueReplaced):
        run()
    assert faults(url) == []


def test_a_trim_keeps_what_a_rebuild_needs() -> None:
    url = in_memory()
    with of_operator(url) as queue:
        before = queue.rebuild()
        first = queue.trim(queue.durable_offset)
        assert 0 < first <= before.end_offset - before.extent.records
        assert queue.rebuild().keys.equals(before.keys)
    assert faults(url) == []


def test_a_consumer_by_commits_is_waited_for() -> None:
    """Spark's source and `cec-store consumers` register beside the writer."""
    url = in_memory()
    with opened(url) as queue:
        for number in range(6):
            queue.append(rows(number), sync=True)
        reading = PartitionedQueue(store_at(url), "r", clock_us=lambda: 5)
        consumer = reading.consumer("late")
        consumer.acknowledge(received={0: 3}, effects_saved={0: 2})
        queue.append(rows(6), sync=True)
        assert queue.trim(5) == 2
        queue.set_retention("consumers")
        consumer.acknowledge(received={0: 4}, effects_saved={0: 4})
        assert queue.trim() == 4
    assert faults(url) == []


def test_frames_without_records_count_and_are_passed_over() -> None:
    url = in_memory()
    nothing = pa.RecordBatch.from_pylist([], RECORDS.arrow)
    with opened(url) as queue:
        queue.append_records(nothing, FrameMarks(input_upto=3))
        queue.sync()
        queue.append(rows(1, 2), sync=True)
        queue.append_records(nothing, FrameMarks(input_upto=5))
        queue.sync()
    with opened(url) as queue:
        assert queue.append(rows(3), sync=True) == 3
        assert [frame.header.seq for frame in queue.chain().frames()] == [0, 1, 2, 3]
        assert queue.trim(2) == 2
        assert [frame.header.input_upto for frame in queue.chain().frames()] == [5, 0]
        with pytest.raises(OutOfRange):
            queue.chain().find_offset(1)
    assert read_queue(url).read_all()["n"].to_pylist() == [3]
    assert faults(url) == []


def body_of(numbers: list[int]) -> bytes:
    batch = pa.record_batch({"n": numbers}, schema=SCHEMA)
    times = to_timestamps(pa.array([0] * len(numbers), pa.int64()))
    return encode_body(data_records(RECORDS, batch, times), 0).stored


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"seq": 7}, "number"),
        ({"first_offset": 9}, "first record"),
        ({"flags": CONTINUES}, "within its step"),
    ],
)
def test_a_frame_out_of_its_order_is_a_fault(change: dict[str, int], kind: str) -> None:
    url = in_memory()
    with opened(url) as queue:
        queue.append(rows(1, 2), sync=True)
        queue.append(rows(3, 4), sync=True)
        chain = queue.chain()
        assert isinstance(chain, CommitChain)
    log, stored = ReferenceLog(store_at(url)), body_of([5])
    last = chain.end.last
    assert last is not None
    header = FrameHeader(
        type=FrameType.BATCH, seq=2, first_offset=4, schema_byte=0, min_timestamp_us=0,
        max_timestamp_us=0, record_count=1, raw_bytes=len(stored),
    )._replace(**change)  # fmt: skip

    def commit(now: QueueState) -> ReferenceObject:
        frames = [(header, stored)]
        previous = (last.segment_id, last.byte)
        inline = [NumberedFrames(secrets.randbits(64), frames, previous)]
        return appended_after(now, frames, inline, 0)

    log.add(log.open(), commit)
    assert any(kind in fault for fault in faults(url))


def test_rows_of_another_writer_are_not_shown_as_the_end() -> None:
    """The newest frame and the commit have to say the same."""
    url = in_memory()
    with opened(url) as queue:
        queue.append(rows(1, 2), sync=True)
    log, stored = ReferenceLog(store_at(url)), body_of([5])
    header = FrameHeader(
        type=FrameType.BATCH, seq=1, first_offset=7, schema_byte=0, min_timestamp_us=0,
        max_timestamp_us=0, record_count=1, raw_bytes=len(stored),
    )  # fmt: skip

    def commit(now: QueueState) -> ReferenceObject:
        frames = [(header, stored)]
        return appended_after(now, frames, [NumberedFrames(5, frames, (1, 0))], 0)

    log.add(log.open(), commit)
    with pytest.raises(CorruptLog, match="the newest frame ends at record 8, the commit at 3"):
        read_queue(url)


@pytest.mark.parametrize(
    ("groups", "reading", "appending"),
    # Behind commit 0 and two listings. Of 3 and of 63 groups the newest commit, by which the queue
    # was closed, says all there is, and that before it has the last rows. Of 70 groups it is number
    # 71, and there are 68 and 64 to read besides those between. To append, there are a commit and
    # its proof as well.
    [(0, 4, 6), (3, 5, 7), (63, 5, 7), (70, 8, 10)],
)
def test_a_queue_is_opened_by_few_requests(groups: int, reading: int, appending: int) -> None:
    """No commit is read twice but commit 0, where it is the newest."""
    url = in_memory()
    with opened(url) as queue:
        for number in range(groups):
            queue.append(rows(number), sync=True)
    newest = groups + 1 if groups else 0
    store = CountingStore(store_at(url))
    folder = StoreFolder(store)
    reader = open_queue(folder)
    assert isinstance(reader, OutputQueue)
    first = ("read", commit_object_name(0))
    lists = [("list", LOG_FOLDER), ("list", commit_object_name(0).rpartition("/")[0])]
    assert store.calls[:3] == [first, *lists]
    assert len(store.calls) == reading, store.calls
    assert len({*store.calls}) == reading - (not groups)
    store.calls.clear()
    assert reader.replay().read_all()["n"].to_pylist() == [*range(groups)]
    # Each of two readers looks for a next commit, and whether the newest is there; rows of
    # commits that were read for the opening are not read again.
    assert len(store.calls) <= 4 + groups
    assert not groups or first not in store.calls
    store.calls.clear()
    open_queue(folder, "a").close()
    assert store.calls[:3] == [first, *lists]
    made = [("create", commit_object_name(newest + 1)), ("read", commit_object_name(newest))]
    assert store.calls[-2:] == made
    assert len(store.calls) == appending, store.calls


def test_a_queue_that_is_made_anew_is_no_reader_of_the_one_before() -> None:
    """What an opening handed on is of the queue that stood there then."""
    url = in_memory()
    opened(url).close()
    store = store_at(url)
    ledger = ReferenceLog(store)
    assert ledger.is_there()
    store.delete([commit_object_name(0), commit_object_name(1)])
    other = RecordSchema(pa.schema([("other", pa.string())]))
    open_queue(url, "a", schema=other).close()
    assert ledger.schema(ReferenceLog(store).open()).is_as(other)
    state = ledger.open()
    assert ledger.first is not None
    assert ledger.schema(state).is_as(other)
    assert ledger.first.log_id == state.log_id


def test_the_setting_is_there_from_the_first_commit_on() -> None:
    url = in_memory()
    opened(url).close()
    first = ReferenceLog(store_at(url)).commit(0)
    assert len(first.commit.settings[WRITER_SETTING]) == 32
