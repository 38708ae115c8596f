"""Whoever hangs and is replaced is told so, wherever it hung; nobody else is."""

import pyarrow as pa
import pytest

from cec_store import Consumer, ConsumerInUse, Fenced
from cec_store.format.schema import RecordSchema
from cec_store.inspector.damage.queue_files import QueueFiles
from cec_store.queues.appendable_queue import AppendableQueue
from support.disks.memory_folder import MemoryFolder

SCHEMA = RecordSchema(pa.schema({"n": pa.int64()}))


def rows(value: int) -> pa.RecordBatch:
    return pa.record_batch({"n": [value]}, SCHEMA.data)


def filled() -> MemoryFolder:
    folder = MemoryFolder()
    with AppendableQueue(folder, "x", SCHEMA) as queue:
        for value in range(3):
            queue.append(rows(value), sync=True)
            queue.roll()
    return folder


def values(folder: MemoryFolder) -> list[int]:
    chain = AppendableQueue(folder, "r").chain()
    return [chain.records(frame).column("n")[0].as_py() for frame in chain.frames()]


def hang(folder: MemoryFolder, call_number: int, meanwhile) -> list[str]:
    """Let ``meanwhile`` happen ahead of one of the calls that follow; which one that was."""
    count, hit = iter(range(10_000)), []

    def before(call: str, name: str) -> None:
        if not hit and next(count) == call_number:
            hit.append(f"{call} {name}")
            folder.before, mine = lambda call, name: None, folder.before
            meanwhile()
            folder.before = mine

    folder.before = before
    return hit


def test_a_writer_that_hung_anywhere_in_its_opening_is_fenced_and_finds_no_damage() -> None:
    told = 0
    for number in range(1_000):
        folder = filled()
        ends = []

        def succeed(folder: MemoryFolder = folder, ends: list[int] = ends) -> None:
            with AppendableQueue(folder, "a", takeover=True) as queue:
                queue.append(rows(3), sync=True)
                queue.roll()
                queue.append(rows(4), sync=True)
                queue.roll()
                queue.trim(4)
                ends.append(queue.durable_offset)

        hit = hang(folder, number, succeed)
        try:
            with AppendableQueue(folder, "a") as zombie:
                folder.before = lambda call, name: None
                zombie.append(rows(5), sync=True)
        except Fenced:
            told += 1
        else:
            # It claimed its epoch after its successor did, which was done by then.
            ends[:] = [each + 1 for each in ends]
        folder.before = lambda call, name: None
        if not hit:
            break
        left = values(folder)
        assert left in ([4], [4, 5], [3, 4], [3, 4, 5]), f"{number}, {hit}: {left}"
        assert AppendableQueue(folder, "r").durable_offset == ends[0]
    assert 10 < told < number < 1_000


# -- consumers --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hourly", "x" * 100])
def test_a_consumer_that_was_taken_over_acknowledges_nothing_more(name: str) -> None:
    folder = filled()
    queue = AppendableQueue(folder, "r")
    old = queue.consumer(name)
    old.acknowledge(effects_saved=1)
    with pytest.raises(ConsumerInUse, match="takeover=True"):
        queue.consumer(name)
    new = queue.consumer(name, takeover=True)
    assert (new.start, new.received, new.effects_saved) == (0, 1, 1)
    before = folder.snapshot()
    with pytest.raises(Fenced, match="taken over consumer"):
        old.acknowledge(effects_saved=3)
    assert folder.snapshot() == before
    new.acknowledge(received=2)
    old.close()
    # The first holder's lock is free; the second's is not.
    with pytest.raises(ConsumerInUse):
        queue.consumer(name)
    with pytest.raises(ConsumerInUse):
        queue.drop_consumer(name)
    third = queue.consumer(name, takeover=True)
    assert (third.received, third.effects_saved) == (2, 1)
    with pytest.raises(Fenced):
        new.acknowledge(received=3)
    third.acknowledge(effects_saved=2)
    for consumer in (new, third):
        consumer.close()
    with queue.consumer(name) as again:
        assert again.effects_saved == 2
        again.acknowledge(effects_saved=3)
    assert [state.effects_saved for state in queue.consumers()] == [3]
    queue.drop_consumer(name)
    assert queue.consumers() == []
    with queue.consumer(name) as anew:
        assert anew.effects_saved == 0
    with queue.consumer("other", takeover=True) as first_of_its_name:
        assert first_of_its_name.start == 0


def test_a_consumer_that_hung_anywhere_in_an_acknowledgement_is_told_and_hides_nothing() -> None:
    outcomes = set()
    for number in range(1_000):
        folder = filled()
        with AppendableQueue(folder, "a") as writer:
            old = writer.consumer("c")
            taken: list[Consumer] = []

            def take_over(folder: MemoryFolder = folder, taken: list[Consumer] = taken) -> None:
                taken.append(AppendableQueue(folder, "r").consumer("c", takeover=True))

            hit = hang(folder, number, take_over)
            try:
                old.acknowledge(effects_saved=3)
            except Fenced:
                acknowledged = 0
            else:
                acknowledged = 3
            folder.before = lambda call, name: None
            if not hit:
                break
            new = taken[0]
            assert new.effects_saved >= acknowledged, f"{number}, {hit}: it was acknowledged"
            outcomes.add((acknowledged, new.effects_saved))
            # Whatever the one before has left: the queue keeps what its successor may ask for.
            assert writer.trim() <= new.effects_saved
            new.acknowledge(received=new.effects_saved)
            new.close()
            old.close()
            with writer.consumer("c") as again:
                assert again.effects_saved == new.effects_saved
    assert outcomes == {(0, 0), (0, 3)}
    assert number < 1_000


def test_a_tool_knows_the_files_of_consumers_that_were_taken_over() -> None:
    folder = filled()
    queue = AppendableQueue(folder, "r")
    for _ in range(2):
        queue.consumer("c", takeover=True).close()
    files = QueueFiles(folder)
    assert [note.path for note in files.notes if "consumer" in note.path] == []
    assert list(files.consumer_faults()) == []
    folder.flip("consumer-c.ack-000002", 300)
    assert [fault.kind for fault in files.consumer_faults()] == ["consumer-damaged"]
