"""Who a queue keeps its records for: names, acknowledgements, what is on disk, and its damage."""

from __future__ import annotations

import errno
import multiprocessing
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from cec_store import (
    Consumer,
    ConsumerInUse,
    CorruptLog,
    OutOfRange,
    OutputQueue,
    QueueLocked,
    StorageError,
    UnsupportedVersion,
    open_queue,
)
from cec_store.format.acknowledgement import Acknowledgement
from cec_store.format.checksum import crc32c
from cec_store.inspector.measuring.extents import inspect_extent
from cec_store.inspector.verifying.log import verify
from cec_store.log.chain import Chain
from cec_store.log.epochs import newest_epoch
from cec_store.queues import consumers
from cec_store.queues.consumers import acknowledgements
from cec_store.storage.names import acknowledgement_name
from support.disks.memory_folder import MemoryFolder
from support.disks.simulated_folder import Fault, SimulatedFolder, images
from support.processes.consumer_child import hold

SCHEMA = pa.schema([("n", pa.int64())])
ACK = acknowledgement_name("hourly")


def a_queue(folder: object = None, records: int = 10) -> OutputQueue:
    """Each record has a segment of its own; record n is of microsecond 10 n."""
    ticks = count(1_000)
    queue = open_queue(
        MemoryFolder({}) if folder is None else folder,
        "a",
        schema=SCHEMA,
        clock_us=lambda: next(ticks),
        retention="consumers",
    )
    fill(queue, records)
    return queue


def fill(queue: OutputQueue, records: int) -> None:
    for _ in range(records):
        number = queue.end_offset
        queue.append(pa.record_batch({"n": [number]}), pa.array([10 * number]), sync=True)
        queue.roll()


def state_of(queue: OutputQueue, name: str = "hourly") -> tuple[int, int]:
    (found,) = (each for each in queue.consumers() if each.name == name)
    return found.received, found.effects_saved


# -- registering ------------------------------------------------------------------------------


def test_the_first_use_of_a_name_registers_it_at_the_oldest_offset() -> None:
    queue = a_queue()
    queue.trim(3)
    with queue.consumer("hourly") as consumer:
        assert (consumer.start, consumer.received, consumer.effects_saved) == (3, 3, 3)
    assert state_of(queue) == (3, 3)


def test_a_consumer_goes_on_where_it_was_and_a_second_start_means_nothing() -> None:
    queue = a_queue()
    with queue.consumer("hourly", start=4) as consumer:
        consumer.acknowledge(received=7, effects_saved=5)
    with queue.consumer("hourly", start=9) as consumer:
        assert (consumer.start, consumer.received, consumer.effects_saved) == (4, 7, 5)


@pytest.mark.parametrize("start", [2, 11, 2**40])
def test_a_start_that_is_not_in_the_queue_is_refused_and_registers_nothing(start: int) -> None:
    queue = a_queue()
    queue.trim(3)
    with pytest.raises(OutOfRange, match=rf"'hourly' cannot start at {start}.* 3 … 10"):
        queue.consumer("hourly", start=start)
    assert queue.consumers() == []
    queue.consumer("hourly", start=10).close()  # nor is the name held


@pytest.mark.parametrize("start", [-1, True, 1.0, "3", 2**63])
def test_a_start_that_is_no_offset_is_refused(start: object) -> None:
    with pytest.raises(ValueError, match="not an offset"):
        a_queue().consumer("hourly", start=start)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    ["", "a/b", "../x", "a b", "ä", "x" * 101, "a\n", None, "..", "-", "_a", ".a", "-a", "a."],
)
def test_a_name_that_could_leave_the_folder_is_refused(name: str) -> None:
    queue = a_queue()
    before = queue.folder.names()
    for call in (queue.consumer, queue.drop_consumer):
        with pytest.raises(ValueError, match="not a consumer's name"):
            call(name)
    assert queue.folder.names() == before


@pytest.mark.parametrize(
    "name", ["a", "A", "a..b", "x" * 100, "a.ack", "a.ack.tmp", "0-", "0_", "a.lock"]
)
def test_any_name_of_the_allowed_letters_is_one(tmp_path: Path, name: str) -> None:
    with a_queue(tmp_path / "queue") as queue:
        for each in {name, "a"}:
            queue.consumer(each).close()
        assert {each.name for each in queue.consumers()} == {name, "a"}
        queue.drop_consumer(name)
        assert {each.name for each in queue.consumers()} == {"a"} - {name}


def test_a_name_has_one_holder_at_a_time() -> None:
    queue = a_queue()
    first = queue.consumer("hourly")
    with pytest.raises(ConsumerInUse, match="'hourly' is in use"):
        queue.consumer("hourly")
    queue.consumer("daily").close()
    first.close()
    first.close()
    queue.consumer("hourly").close()


def test_a_reader_in_another_process_acknowledges_and_frees_its_name_by_dying(tmp_path) -> None:
    context = multiprocessing.get_context("spawn")
    with a_queue(tmp_path / "queue") as queue:
        held, done = context.Event(), context.Event()
        child = context.Process(target=hold, args=(tmp_path / "queue", held, done))
        child.start()
        assert held.wait(60)
        assert state_of(queue) == (5, 5)
        assert queue.trim() == 5
        with pytest.raises(ConsumerInUse):
            queue.consumer("hourly")
        with pytest.raises(ConsumerInUse):
            queue.drop_consumer("hourly")
        child.kill()
        child.join(60)
        with queue.consumer("hourly") as consumer:
            assert consumer.effects_saved == 5


# -- acknowledging ----------------------------------------------------------------------------


def test_effects_saved_imply_that_they_were_received() -> None:
    queue = a_queue()
    with queue.consumer("hourly") as consumer:
        consumer.acknowledge(effects_saved=4)
        assert (consumer.received, consumer.effects_saved) == (4, 4)
        consumer.acknowledge(received=6)
        assert state_of(queue) == (consumer.received, consumer.effects_saved) == (6, 4)


def test_acknowledgements_never_fall() -> None:
    queue = a_queue()
    with queue.consumer("hourly") as consumer:
        consumer.acknowledge(received=8, effects_saved=6)
        said = queue.consumers()
        consumer.acknowledge(received=2, effects_saved=1)
        consumer.acknowledge(effects_saved=3)
        consumer.acknowledge(received=0)
        assert queue.consumers() == said  # not even when it was said


def test_what_contradicts_itself_or_the_queue_is_refused_and_nothing_changes() -> None:
    queue = a_queue()
    with queue.consumer("hourly") as consumer:
        consumer.acknowledge(received=3)
        before = queue.folder.snapshot()
        with pytest.raises(ValueError, match="saved up to 5, and only received up to 4"):
            consumer.acknowledge(received=4, effects_saved=5)
        for offset in (-1, True, 0.5, 2**63):
            with pytest.raises(ValueError, match="not an offset"):
                consumer.acknowledge(received=offset)  # type: ignore[arg-type]
        for much in ({"received": 11}, {"effects_saved": 11}):
            with pytest.raises(OutOfRange, match="acknowledges 11, the queue's durable end is 10"):
                consumer.acknowledge(**much)
        assert queue.folder.snapshot() == before
        assert state_of(queue) == (consumer.received, consumer.effects_saved) == (3, 0)
        fill(queue, 1)
        consumer.acknowledge(effects_saved=11)
    with pytest.raises(ValueError, match="is closed"):
        consumer.acknowledge(received=11)


def test_records_that_are_not_durable_cannot_be_acknowledged() -> None:
    folder = MemoryFolder({})
    with open_queue(folder, "a", schema=SCHEMA) as queue, queue.consumer("hourly") as consumer:
        release = threading.Event()
        folder.before = lambda call, name: release.wait(30) if call == "sync" else None
        queue.append(pa.record_batch({"n": [1]}))
        with pytest.raises(OutOfRange, match="durable end is 0"):
            consumer.acknowledge(received=1)
        release.set()
        queue.sync()
        consumer.acknowledge(received=1)


def test_the_listing_has_everyone_with_its_lag_the_gone_ones_too() -> None:
    queue = a_queue()
    queue.consumer("gone", start=2).close()
    with queue.consumer("late") as late, queue.consumer("here") as here:
        late.acknowledge(received=4, effects_saved=3)
        here.acknowledge(effects_saved=10)
        gone, here_now, late_now = queue.consumers()
    assert (gone.name, gone.received, gone.lag_records, gone.lag_us) == ("gone", 2, 8, 70)
    assert (here_now.name, here_now.lag_records, here_now.lag_us) == ("here", 0, 0)
    assert (late_now.name, late_now.lag_records, late_now.lag_us) == ("late", 6, 50)
    assert gone.acknowledged_us < late_now.acknowledged_us < here_now.acknowledged_us
    assert open_queue(queue.folder).consumers() == [gone, here_now, late_now]


def test_frames_without_records_at_the_end_do_not_hide_the_lag() -> None:
    queue = a_queue()
    queue.consumer("hourly", start=4).close()
    queue.append_records(pa.RecordBatch.from_pylist([], queue.schema.arrow))
    queue.sync()
    (found,) = queue.consumers()
    assert (found.lag_records, found.lag_us) == (6, 50)
    totals = inspect_extent(queue.folder).totals
    assert (totals.first_timestamp_us, totals.last_timestamp_us) == (0, 90)


def test_an_empty_queue_has_consumers_without_lag() -> None:
    queue = a_queue(records=0)
    queue.consumer("hourly").close()
    (found,) = queue.consumers()
    assert (found.received, found.lag_records, found.lag_us) == (0, 0, 0)


def test_a_lag_by_the_clock_is_that_of_the_next_record(tmp_path: Path) -> None:
    now = [500]
    with (
        open_queue(
            tmp_path / "q", "x", schema=pa.schema([("n", pa.int64())]), clock_us=lambda: now[0]
        ) as queue,
        queue.consumer("hourly") as consumer,
    ):
        for now[0] in (1_000, 2_000, 3_000):
            queue.append(pa.record_batch({"n": [now[0]]}), sync=True)
        consumer.acknowledge(received=1)
        assert queue.consumers()[0].waiting_since_us == 2_000
        consumer.acknowledge(received=3)
        assert queue.consumers()[0].waiting_since_us is None


def test_a_lag_by_the_clock_knows_no_event_time() -> None:
    queue = a_queue()
    queue.consumer("hourly", start=4).close()
    chain = queue.chain()
    frame = chain.find_offset(4)
    assert frame is not None
    began_us = chain.reader(frame.address.segment_id).header.created_us
    assert queue.consumers()[0].waiting_since_us == began_us


# -- dropping ---------------------------------------------------------------------------------


def test_a_consumer_is_dropped_by_name_and_not_while_in_use() -> None:
    queue = a_queue()
    with queue.consumer("hourly") as consumer:
        with pytest.raises(ConsumerInUse):
            queue.drop_consumer("hourly")
        consumer.acknowledge(received=4)
    queue.drop_consumer("hourly")
    assert queue.consumers() == []
    with pytest.raises(ValueError, match="no consumer 'hourly'"):
        queue.drop_consumer("hourly")
    with queue.consumer("hourly") as consumer:
        assert consumer.received == 0


# -- what is on disk --------------------------------------------------------------------------


def put(folder: MemoryFolder, byte: int, data: bytes) -> None:
    """Bytes of the acknowledgement, and its checksum made right."""
    file = folder.files[ACK]
    file[byte : byte + len(data)] = data
    file[-4:] = crc32c(bytes(file[:-4])).to_bytes(4, "little")


def refused(queue: OutputQueue, error: type[StorageError], text: str) -> None:
    """By everything that would have to believe it; nothing changes."""
    folder = queue.folder
    assert isinstance(folder, MemoryFolder)
    folder.lock("consumers.lock").close()  # once made, it stays
    folder.lock("consumer-hourly.lock").close()
    before = folder.snapshot()
    calls: list[Callable[[], object]] = [
        lambda: queue.consumer("hourly"), queue.consumers, queue.trim, lambda: queue.trim(5),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(error, match=text) as caught:
            call()
        assert f"{folder.path}/{ACK}" in str(caught.value)
        assert folder.snapshot() == before
    assert folder.locks == {"writer.lock"}
    queue.drop_consumer("hourly")
    assert queue.trim(5) == 5


def an_acknowledged_queue() -> tuple[OutputQueue, MemoryFolder]:
    queue = a_queue()
    with queue.consumer("hourly", start=1) as consumer:
        consumer.acknowledge(received=8, effects_saved=6)
    assert isinstance(queue.folder, MemoryFolder)
    return queue, queue.folder


def test_the_bytes_are_those_of_the_format_page() -> None:
    queue, folder = an_acknowledged_queue()
    data = bytes(folder.files[ACK])
    log_id = queue.chain().manifest.log_id
    numbers = [int.from_bytes(data[at : at + 8], "little") for at in (32, 40, 48, 56)]
    assert data[:16] == b"CECACKS\0" + bytes([1, 0, 72, 0, 0, 0, 0, 0])
    assert data[16:32] == log_id
    assert numbers[:3] == [1, 8, 6]
    assert data[64:68] == bytes(4)
    assert int.from_bytes(data[68:], "little") == crc32c(data[:68])
    assert Acknowledgement.decode(data, "x") == Acknowledgement(log_id, 1, 8, 6, numbers[3])


@pytest.mark.parametrize("bit", range(0, 72 * 8, 5))
def test_a_flipped_bit_is_refused_and_nothing_is_trimmed(bit: int) -> None:
    queue, folder = an_acknowledged_queue()
    folder.flip(ACK, bit)
    refused(queue, CorruptLog, "fails its checksum; restore .* or drop the consumer")


def test_every_flipped_bit_and_every_length_is_seen() -> None:
    _, folder = an_acknowledged_queue()
    data = bytes(folder.files[ACK])
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptLog):
            Acknowledgement.decode(bytes(flipped), "x")
    for size in [*range(len(data)), len(data) + 1]:
        with pytest.raises(CorruptLog):
            Acknowledgement.decode((data + b"\0")[:size], "x")


@pytest.mark.parametrize("size", [0, 1, 8, 10, 71])
def test_a_cut_file_is_refused_and_nothing_is_trimmed(size: int) -> None:
    queue, folder = an_acknowledged_queue()
    del folder.files[ACK][size:]
    refused(queue, CorruptLog, "fails its checksum")


def test_a_later_format_is_refused() -> None:
    queue, folder = an_acknowledged_queue()
    put(folder, 8, b"\2\0")
    refused(queue, UnsupportedVersion, "version 2; .* upgrade")
    queue, folder = an_acknowledged_queue()
    put(folder, 8, b"\2\0\x60\0")
    folder.files[ACK] += bytes(24)
    refused(queue, UnsupportedVersion, "version 2; .* upgrade")


def test_the_acknowledgement_of_another_queue_is_refused() -> None:
    queue, folder = an_acknowledged_queue()
    put(folder, 16, b"\0" * 16)
    refused(queue, CorruptLog, "byte 16: the acknowledgement belongs to another queue")


def test_one_that_has_received_more_than_there_is_stops_every_trim() -> None:
    queue, folder = an_acknowledged_queue()
    put(folder, 40, (11).to_bytes(8, "little"))
    for before in (None, 5):
        with pytest.raises(CorruptLog, match=r"byte 40: received up to 11, the queue ends at 10"):
            queue.trim(before)
    assert queue.chain().first_offset() == 0


def test_one_restored_from_before_a_trim_is_refused_by_name() -> None:
    queue, folder = an_acknowledged_queue()
    old = bytes(folder.files[ACK])
    with queue.consumer("hourly") as consumer:
        consumer.acknowledge(effects_saved=9)
    assert queue.trim() == 9
    folder.files[ACK] = bytearray(old)
    with pytest.raises(OutOfRange, match=r"'hourly' needs records from 6 on, and the oldest is 9"):
        queue.consumer("hourly")
    assert queue.trim() == 9
    assert not folder.locks - {"writer.lock"}


def test_verify_names_a_damaged_one_and_has_nothing_to_say_of_a_sound_one() -> None:
    queue, folder = an_acknowledged_queue()
    found = verify(folder)
    assert (found.faults, found.notes) == ((), ())
    folder.flip(ACK, 400)
    (fault,) = verify(folder).faults
    assert (fault.kind, fault.path) == ("consumer-damaged", f"{folder.path}/{ACK}")
    queue.close()


# -- crashes ----------------------------------------------------------------------------------


def acknowledge_thrice(folder: SimulatedFolder, noted: Callable[[int], None]) -> None:
    with a_queue(folder, records=4) as queue, queue.consumer("hourly") as consumer:
        for offset in (1, 3, 4):
            consumer.acknowledge(effects_saved=offset)
            noted(offset)


def test_a_power_cut_leaves_the_old_or_the_new_acknowledgement_and_never_loses_one() -> None:
    folder = SimulatedFolder(record=True)
    acknowledge_thrice(folder, lambda offset: folder.mark(offset))
    seen = set()
    for snapshot in folder.snapshots:
        for image in images(snapshot, subset_writes=2):
            cut = SimulatedFolder(image)
            if ACK not in dict(image):
                assert snapshot.marks is None
                continue
            manifests = [name for name in dict(image) if name.startswith("manifest")]
            assert manifests, "a consumer of a queue that is not there"
            log_id = Chain(cut).manifest.log_id
            saved = acknowledgements(cut, log_id)["hourly"].effects_saved
            promised = snapshot.marks or 0
            assert saved in {0: (0, 1), 1: (1, 3), 3: (3, 4), 4: (4,)}[promised]
            seen.add((promised, saved))
    assert len(seen) == 7  # each on the way, before and after


def test_a_consumer_of_a_queue_that_is_just_being_made_does_not_stop_it_from_being_made() -> None:
    folder = SimulatedFolder(record=True)

    def register_when_it_can_be_seen(operation: str, name: str) -> None:
        if operation == "sync_names" and newest_epoch(folder) is not None:
            folder.before_operation = lambda operation, name: None
            with open_queue(folder) as reader:
                reader.consumer("hourly").close()

    folder.before_operation = register_when_it_can_be_seen
    open_queue(folder, "x", schema=SCHEMA).close()
    made = 0
    for snapshot in folder.snapshots:
        for image in images(snapshot, subset_writes=1, product_max=16):
            disk = SimulatedFolder(image)
            with open_queue(disk, "a", schema=SCHEMA) as queue:
                assert len(queue.consumers()) == (ACK in dict(image))
            made += 1
    assert made > 30


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("short", [False, True])
def test_a_failed_call_changes_nothing_and_the_next_attempt_succeeds(code, short) -> None:
    failures = 0
    for at in range(40):
        folder = SimulatedFolder()
        queue = a_queue(folder, records=4)
        consumer = queue.consumer("hourly")
        folder.fault = fault = Fault(at, code, short=short)
        try:
            consumer.acknowledge(effects_saved=3)
        except StorageError:
            failures += 1
        folder.fault = None
        assert consumer.effects_saved == (0 if fault.hits else 3)
        assert state_of(queue) in ((0, 0), (3, 3))
        consumer.acknowledge(effects_saved=4)
        assert state_of(queue) == (4, 4)
        consumer.close()
        queue.close()
    assert failures >= 5


# -- registering beside a trim ----------------------------------------------------------------


class Gate(MemoryFolder):
    """One thread's n-th call waits until another thread has done what it can."""

    def stop_before(self, call_number: int, meanwhile: Callable[[], None]) -> Callable[[], bool]:
        numbers, owner = count(), threading.get_ident()

        def before(call: str, name: str) -> None:
            # The trim itself goes on in the writer's thread: the test waits for both alike.
            if threading.get_ident() in (owner, self.also) and next(numbers) == call_number:
                meanwhile()

        self.also = 0
        self.before = before
        return lambda: next(numbers) > call_number


def trim_and_register(stopped: str, call_number: int) -> tuple[bool, Consumer | None, OutputQueue]:
    """One begins and stops before one of its calls; the other then runs until it ends or waits."""
    folder = Gate({})
    queue = a_queue(folder, records=8)
    queue.consumer("here", start=5).close()
    results: dict[str, object] = {}

    def register() -> None:
        try:
            results["register"] = open_queue(folder).consumer("hourly", start=2)
        except OutOfRange as error:
            results["register"] = error

    def trim() -> None:
        results["trim"] = queue.trim()

    work = {"trim": trim, "register": register}
    other = threading.Thread(target=work["register" if stopped == "trim" else "trim"])

    def meanwhile() -> None:
        other.start()
        other.join(0.05)  # until it is done, or waits for the lock that this one holds

    reached = folder.stop_before(call_number, meanwhile)
    if stopped == "trim":
        assert queue._pipeline is not None
        folder.also = queue._pipeline._thread.ident or 0
    work[stopped]()
    was_reached = reached()
    folder.before = lambda call, name: None
    if not other.ident:
        other.start()
    other.join(30)
    first = queue.chain().first_offset()
    assert results["trim"] == first
    registered = results["register"]
    if isinstance(registered, OutOfRange):
        assert first == 5
        assert [each.name for each in queue.consumers()] == ["here"]
        registered = None
    else:
        assert first <= 2, "trimmed what a consumer has been promised"
    return was_reached, registered, queue  # type: ignore[return-value]


@pytest.mark.parametrize("stopped", ["trim", "register"])
def test_of_a_trim_and_a_registration_the_later_one_sees_the_earlier(stopped: str) -> None:
    outcomes = set()
    for call_number in range(200):
        was_reached, registered, queue = trim_and_register(stopped, call_number)
        outcomes.add(registered is not None)
        if registered is not None:
            rows = [row["n"] for batch in queue.replay() for row in batch.to_pylist()]
            assert rows[-6:] == list(range(2, 8))
        queue.close()
        if not was_reached:
            break
    assert 10 < call_number < 199
    assert outcomes == {True, False}


def test_whoever_hangs_with_the_lock_is_named_after_a_while(monkeypatch) -> None:
    queue = a_queue()
    monkeypatch.setattr(consumers, "_LOCK_WAIT_S", 0.02)
    lock = queue.folder.lock("consumers.lock")
    for call in (lambda: queue.consumer("hourly"), lambda: queue.trim(4)):
        with pytest.raises(QueueLocked, match=r"consumers.lock: held for 0 s by a trim"):
            call()
    lock.close()
    queue.consumer("hourly").close()
    assert queue.trim(4) == 0
