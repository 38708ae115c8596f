"""What a job that was made to fail has written: every row of its input, once and in order."""

from pathlib import Path

from cec_store.log.selection import Selection
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.storage.stores.local_store import LocalStore
from cec_store.storage.stores.store import Store
from cec_store.values import Position
from support.drivers.queue_job import ROWS_PER_FILE


def assert_exactly_once(folder: Path, store: Store | None = None) -> None:
    """What `queue_job` or `jvm_queue_job` wrote to the queue below its folder, or in a store."""
    files = len(list((folder / "in").glob("*.json")))
    queue = ReferenceQueue(store or LocalStore(folder / "queue"))
    seen: set[tuple[int, int]] = set()
    for number, end in queue.ends().items():
        before = (-1, -1)
        for batch in queue.replay(number, Selection(Position(0), Position(end))):
            for row in zip(*(batch.column(n).to_pylist() for n in ("file", "row")), strict=True):
                assert row not in seen, f"{row} twice"
                assert row[0] != before[0] or row[1] == before[1] + 1, "not in order"
                seen.add(row)
                before = row
    assert len(seen) == files * ROWS_PER_FILE, "lost"
