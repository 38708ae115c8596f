"""Whoever hangs and is replaced is told so, wherever it hung; nobody else is."""

import pyarrow as pa

from cec_store import Fenced
from cec_store.format.schema import RecordSchema
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
