"""A queue as it was after an earlier commit: gone back to in place, or made anew beside it."""

from pathlib import Path

import pyarrow as pa
import pytest

from cec_store import CorruptLog, OutOfRange, open_queue, read_queue
from cec_store.errors import QueueReplaced
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.partitioned.by_reference.earlier import (
    copy_at,
    forget_consumers,
    go_back,
    keep_settings,
    state_at,
)
from cec_store.partitioned.by_reference.partitioned_queue import PartitionedQueue
from cec_store.storage.local import LocalFolder
from cec_store.storage.stores.local_store import LocalStore
from cec_store.storage.stores.store import Store
from support.places.layouts import put_into_objects

ROWS = pa.schema([("v", pa.int64())])
NOW_US = 1_700_000_000_000_000


def table(*values: int) -> pa.Table:
    return pa.table({"v": pa.array(values, pa.int64())}, schema=ROWS)


def opened(path: Path, mode: str = "a") -> PartitionedQueue:
    queue = open_queue(path, mode, schema=ROWS, partitions=2, clock_us=lambda: NOW_US)
    assert isinstance(queue, PartitionedQueue)
    return queue


def made(path: Path, appends: int) -> dict[int, list[int]]:
    """A queue of so many appends; its rows after the commit of each, and after commit 0."""
    after: dict[int, list[int]] = {0: []}
    with opened(path, "x") as queue:
        for value in range(0, 2 * appends, 2):
            number = queue.append(table(value, value + 1))
            after[number] = list(range(value + 2))
    return after


def rows(path: Path) -> list[int]:
    return sorted(read_queue(path).read_all()["v"].to_pylist())


@pytest.mark.parametrize(("appends", "number"), [(5, 0), (6, 3), (9, 4), (70, 68)])
def test_a_queue_goes_back_and_on(tmp_path: Path, appends: int, number: int) -> None:
    """The last one behind a merge, which comes with the 64th commit."""
    after = made(tmp_path / "q", appends)
    go_back(LocalStore(tmp_path / "q"), number, NOW_US)
    assert rows(tmp_path / "q") == after[number]
    with opened(tmp_path / "q") as queue:
        assert queue.commit_number == number
        for value in range(1000, 1010):
            queue.append(table(value))
    assert rows(tmp_path / "q") == [*after[number], *range(1000, 1010)]
    found = verify_place(place_at(tmp_path / "q"), deep=True)
    assert found.is_sound, found.faults


class Dying(LocalStore):
    """Dies before the delete of this number."""

    def __init__(self, path: Path, deletes: int) -> None:
        super().__init__(path)
        self.left = deletes

    def delete(self, names: object) -> None:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        super().delete(names)  # type: ignore[arg-type]


def test_wherever_it_is_interrupted_there_is_a_queue(tmp_path: Path) -> None:
    done = deletes = 0
    while not done:
        path = tmp_path / str(deletes)
        after = made(path, 9)
        try:
            go_back(Dying(path, deletes), 3, NOW_US)
            done = 1
        except KeyboardInterrupt:
            assert rows(path) in [after[each] for each in range(3, 10)]
            go_back(LocalStore(path), 3, NOW_US)
        assert rows(path) == after[3]
        deletes += 1
    assert deletes >= 7


def test_consumers_are_put_back_and_fenced(tmp_path: Path) -> None:
    made(tmp_path / "q", 6)
    with opened(tmp_path / "q") as queue:
        consumer = queue.consumer("reader")
        queue.append(table(100, 101))
        number, ends = queue.commit_number - 1, queue.ends()
        consumer.acknowledge(effects_saved=ends)
    store = LocalStore(tmp_path / "q")
    before = state_at(ReferenceLog(store), number)
    go_back(store, number, NOW_US)
    with opened(tmp_path / "q") as queue:
        [state] = queue.consumers()
        assert state.effects_saved == before.commit.ends
        for value in range(200, 206):
            queue.append(table(value, -value))
        with pytest.raises(QueueReplaced):
            consumer.acknowledge(effects_saved={0: ends[0] + 1, 1: ends[1] + 1})


def test_a_copy_is_a_queue_of_its_own(tmp_path: Path) -> None:
    after = made(tmp_path / "q", 70)
    with opened(tmp_path / "q") as queue:
        queue.consumer("reader")
    source = LocalFolder(tmp_path / "q")
    linked, copied = copy_at(source, LocalStore(source.path), LocalFolder(tmp_path / "c"), 68)
    assert (linked > 66, copied) == (True, 0)
    copy: Store = LocalStore(tmp_path / "c")
    forget_consumers(copy, lambda: NOW_US)
    assert rows(tmp_path / "c") == after[68]
    with opened(tmp_path / "c") as queue:
        assert queue.consumers() == []
        queue.append(table(5000))
    assert rows(tmp_path / "c") == [*after[68], 5000]
    assert rows(tmp_path / "q") == list(range(140))
    found = verify_place(place_at(tmp_path / "c"), deep=True)
    assert found.is_sound, found.faults
    with pytest.raises(FileExistsError):
        copy_at(source, LocalStore(source.path), LocalFolder(tmp_path / "c"), 68)


def test_what_is_not_there_is_refused_and_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_into_objects(monkeypatch)
    after = made(tmp_path / "q", 6)
    store = LocalStore(tmp_path / "q")
    for number in (-1, 7):
        with pytest.raises(OutOfRange, match=f"commit {number} is not there; the newest is 6"):
            go_back(store, number, NOW_US)
    file = ReferenceLog(store).at(2).live["file"][0].as_py()
    (tmp_path / "q" / file).rename(tmp_path / "aside")
    with pytest.raises(OutOfRange, match="is deleted"):
        go_back(store, 3, NOW_US)
    with pytest.raises(OutOfRange, match="is deleted"):
        copy_at(LocalFolder(store.url), store, LocalFolder(tmp_path / "c"), 3)
    assert not (tmp_path / "c").exists()
    (tmp_path / "aside").rename(tmp_path / "q" / file)
    assert rows(tmp_path / "q") == after[6]
    (tmp_path / "q/log/00000000000000000/00000000000000000002.commit").write_bytes(b"")
    with pytest.raises(CorruptLog):
        go_back(store, 3, NOW_US)


@pytest.mark.parametrize("times", [1, 2])
def test_settings_made_since_stay_where_a_queue_goes_back(tmp_path: Path, times: int) -> None:
    """Else a consumer that has registered since finds its rows trimmed when it comes back."""
    with opened(tmp_path / "q", "x") as queue:
        queue.consumer("weekly")
        queue.append(table(*range(10)))
        cut = queue.commit_number
        ends = queue.ends()
        queue.set_retention("consumers")
        reports = queue.consumer("reports")
        queue.drop_consumer("weekly")
        queue.append(table(*range(10, 20)))
        late = queue.consumer("late", start=queue.ends())
        reports.acknowledge(effects_saved={0: 2})
        late.acknowledge(effects_saved=queue.ends())
        queue.refresh()
        settings = dict(queue._state.commit.settings)
    for _ in range(times):
        go_back(LocalStore(tmp_path / "q"), cut, NOW_US)
        keep_settings(LocalStore(tmp_path / "q"), settings, NOW_US)
    assert rows(tmp_path / "q") == [*range(10)]
    with opened(tmp_path / "q") as queue:
        assert queue._state.commit.settings["retention"] == "consumers"
        saved = {state.name: state.effects_saved for state in queue.consumers()}
        assert saved == {"late": tuple(ends.values()), "reports": reports.effects_saved}
        assert queue.consumer("reports").effects_saved == reports.effects_saved
        assert queue.trim() == {0: 0, 1: 0}
        queue.append(table(*range(100, 110)))
    assert verify_place(place_at(tmp_path / "q"), deep=True).is_sound
