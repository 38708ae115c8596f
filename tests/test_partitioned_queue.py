"""A queue of many partitions: tasks stage, a committer commits, readers see whole batches."""

from pathlib import Path

import pyarrow as pa
import pytest

from cec_store.committer import Committer
from cec_store.files import LocalFolder
from cec_store.partitions import Partitions
from cec_store.records import RecordSchema
from cec_store.staging import Staged

SCHEMA = RecordSchema(pa.schema([("n", pa.int64()), ("text", pa.string())]))
QUERY = "3d84e10c-fc41-4fb0-9b0b-2125874a0f07"


def rows(first: int, count: int) -> pa.RecordBatch:
    numbers = list(range(first, first + count))
    return pa.RecordBatch.from_pydict(
        {"n": numbers, "text": [str(n) for n in numbers]}, schema=SCHEMA.data
    )


def stage(
    committer: Committer, batch: int, parts: dict[int, pa.RecordBatch], query: str = QUERY
) -> list[Staged]:
    found = []
    for number, part in parts.items():
        stager = committer.stager(query, batch, number)
        stager.append(part)
        staged = stager.finish()
        assert staged is not None
        found.append(staged)
    return found


def contents(path: Path) -> dict[int, list[int]]:
    queue = Partitions(LocalFolder(path))
    return {
        number: [n for part in queue.replay(number, 0, end) for n in part.column("n").to_pylist()]
        for number, end in queue.ends().items()
    }


def test_a_batch_is_seen_once_committed(tmp_path: Path) -> None:
    path = tmp_path / "trades"
    committer = Committer(LocalFolder(path), SCHEMA)
    assert contents(path) == {0: []}
    staged = stage(committer, 0, {0: rows(0, 3), 2: rows(10, 2)})
    assert contents(path) == {0: []}
    assert committer.commit(QUERY, 0, staged)
    assert contents(path) == {0: [0, 1, 2], 1: [], 2: [10, 11]}
    assert not committer.commit(QUERY, 0, stage(committer, 0, {0: rows(50, 3)}))
    assert committer.commit(QUERY, 1, stage(committer, 1, {0: rows(3, 2)}))
    assert contents(path) == {0: [0, 1, 2, 3, 4], 1: [], 2: [10, 11]}
    assert not list((path / "staged").iterdir())
    assert len(list((path / "partition-00000").glob("*.seg"))) == 2, "one as it was made, one since"


def test_a_commit_that_a_crash_cut_short_is_finished_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "trades"
    committer = Committer(LocalFolder(path), SCHEMA)
    committer.commit(QUERY, 0, stage(committer, 0, {0: rows(0, 3), 1: rows(10, 3)}))
    staged = stage(committer, 1, {0: rows(3, 2), 1: rows(13, 2)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(committer, "_apply", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            committer.commit(QUERY, 1, staged)
    assert contents(path) == {0: [0, 1, 2], 1: [10, 11, 12]}, "seen before it is applied"
    other = Committer(LocalFolder(path), SCHEMA)
    assert not other.commit(QUERY, 1, stage(other, 1, {0: rows(90, 2)})), "committed twice"
    assert contents(path) == {0: [0, 1, 2, 3, 4], 1: [10, 11, 12, 13, 14]}
