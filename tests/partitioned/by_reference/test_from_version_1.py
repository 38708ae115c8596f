"""A queue of version 1 goes on as version 2 with the same rows, or stays what it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cec_store import PartitionedQueue, open_queue, read_queue
from cec_store.errors import CorruptLog, NotAQueue, ReadOnly, SchemaMismatch
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.partitioned.by_reference import from_version_1
from cec_store.partitioned.partitions import Partitions
from cec_store.queues.output_queue import OutputQueue
from cec_store.storage.local import LocalFolder
from cec_store.storage.stores.by_url import store_at
from support.places.partitioned_queues import QUERY, SCHEMA, contents, rows, stage
from support.places.version_1 import Committer
from support.stores.copies import contents as objects
from support.stores.copies import in_memory
from support.stores.needed import need

NAMED = {f"partition-00000/{1:020d}.seg", f"partition-00002/{0:020d}.seg"}
"""Segments that have rows."""


def version_1(path: Path, batches: int = 3) -> Committer:
    committer = Committer(LocalFolder(path), SCHEMA, clock_us=lambda: 50)
    for batch in range(batches):
        staged = stage(committer, batch, {0: rows(100 * batch, 5), 2: rows(100 * batch + 50, 4)})
        committer.commit(QUERY, batch, staged)
    return committer


def gone_on(path: Path, **more: Any) -> PartitionedQueue:
    return open_queue(path, "a", partitions=3, **more)


def everything(path: Path | str) -> pa.Table:
    return read_queue(path, include_metadata=True).read_all()


def files(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def test_rows_offsets_and_moments_stay_what_they_were(tmp_path: Path) -> None:
    version_1(tmp_path)
    before = everything(tmp_path)
    data = {name: bytes for name, bytes in files(tmp_path).items() if name in NAMED}
    queue = gone_on(tmp_path)
    assert everything(tmp_path).equals(before)
    assert len(data) == 2
    assert files(tmp_path).items() >= data.items(), "no segment was touched"
    queue.append(pa.Table.from_batches([rows(900, 3)]))
    assert everything(tmp_path).num_rows == before.num_rows + 3
    assert gone_on(tmp_path).commit_number == 1
    assert not verify_place(place_at(tmp_path)).faults


def test_a_query_goes_on_with_its_next_batch(tmp_path: Path) -> None:
    version_1(tmp_path, batches=3)
    queue = gone_on(tmp_path)
    table = pa.Table.from_batches([rows(900, 3)])
    queue.append(table, txn_app_id=QUERY, txn_version=2)
    assert queue.commit_number == 0
    queue.append(table, txn_app_id=QUERY, txn_version=3)
    assert queue.commit_number == 1


def cut_short(path: Path) -> None:
    """A queue of version 1 whose second batch is committed, and in no partition yet."""
    committer = version_1(path, batches=1)
    staged = stage(committer, 1, {0: rows(300, 2), 1: rows(310, 2)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(committer, "_apply", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            committer.commit(QUERY, 1, staged)


def test_a_commit_that_a_crash_cut_short_is_finished_first(tmp_path: Path) -> None:
    cut_short(tmp_path)
    gone_on(tmp_path)
    found = sorted(everything(tmp_path)["n"].to_pylist())
    assert found == [0, 1, 2, 3, 4, 50, 51, 52, 53, 300, 301, 310, 311]


def test_a_copy_in_a_store_stays_what_it_is(tmp_path: Path) -> None:
    need("fsspec")
    cut_short(tmp_path)
    url = in_memory(tmp_path)
    before = objects(store_at(url))
    shown = everything(tmp_path)
    for partitions in (3, 5):
        with pytest.raises(ReadOnly, match=r"a copy of a queue of version 1.*on local files alone"):
            open_queue(url, "a", schema=SCHEMA, partitions=partitions)
    with pytest.raises(FileExistsError):
        open_queue(url, "x", schema=SCHEMA, partitions=3)
    assert objects(store_at(url)) == before
    assert everything(url).equals(shown)


def test_no_new_one_is_made_over_it(tmp_path: Path) -> None:
    version_1(tmp_path)
    before = files(tmp_path)
    with pytest.raises(FileExistsError):
        open_queue(tmp_path, "x", schema=SCHEMA, partitions=3)
    assert files(tmp_path) == before


def test_whoever_is_open_is_told_to_open_it_again(tmp_path: Path) -> None:
    committer = version_1(tmp_path)
    reading = Partitions(LocalFolder(tmp_path))
    staged = stage(committer, 3, {0: rows(900, 2)})
    gone_on(tmp_path)
    with pytest.raises(NotAQueue, match=r"version 2.*open it again"):
        committer.commit(QUERY, 3, staged)
    with pytest.raises(NotAQueue, match="open it again"):
        Committer(LocalFolder(tmp_path), SCHEMA).commit(QUERY, 3, staged)
    with pytest.raises(NotAQueue, match="open it again"):
        reading.ends()
    assert everything(tmp_path).num_rows == 27


def test_older_releases_are_kept_out_before_the_first_commit(tmp_path: Path) -> None:
    """And a crash in between leaves a queue of version 1, which can be begun again."""
    version_1(tmp_path)
    before = contents(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(from_version_1, "_segments", lambda *_: (_ for _ in ()).throw(OSError("cut")))
        with pytest.raises(OSError, match="cut"):
            gone_on(tmp_path)
    (manifest,) = (tmp_path / "commits").glob("manifest-*")
    assert int.from_bytes(manifest.read_bytes()[8:10], "little") == 2
    assert contents(tmp_path) == before
    (tmp_path / "log" / "00000000000000000").mkdir(parents=True)
    assert not verify_place(place_at(tmp_path)).faults
    staged = stage(version_1(tmp_path, batches=0), 3, {1: rows(700, 2)})
    assert Committer(LocalFolder(tmp_path), SCHEMA).commit(QUERY, 3, staged)
    before = contents(tmp_path)
    rows_before = everything(tmp_path)
    gone_on(tmp_path)
    assert everything(tmp_path).equals(rows_before)
    assert before[1] == [700, 701]


def test_what_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    version_1(tmp_path)
    before = files(tmp_path)
    with pytest.raises(SchemaMismatch, match="has 3 partitions, not 5"):
        open_queue(tmp_path, "a", partitions=5)
    with pytest.raises(SchemaMismatch):
        gone_on(tmp_path, schema=pa.schema([("other", pa.int64())]))
    assert files(tmp_path) == before


def test_damage_is_refused_and_leaves_a_queue_of_version_1(tmp_path: Path) -> None:
    version_1(tmp_path)
    newest = sorted((tmp_path / "partition-00002").glob("*.seg"))[-1]
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 0xFF
    newest.write_bytes(data)
    with pytest.raises(CorruptLog, match=newest.name):
        gone_on(tmp_path)
    assert not (tmp_path / "log").exists()


def test_consumers_and_retention_go_along(tmp_path: Path) -> None:
    version_1(tmp_path)
    for number, (received, saved) in {0: (7, 5), 2: (4, 0)}.items():
        queue = OutputQueue(LocalFolder(tmp_path / f"partition-{number:05d}"), "r")
        with queue.consumer("billing") as consumer:
            consumer.acknowledge(received=received, effects_saved=saved)
    queue_2 = gone_on(tmp_path)
    (state,) = queue_2.consumers()
    assert (state.name, state.received, state.effects_saved) == ("billing", (7, 0, 4), (5, 0, 0))
    assert state.lag_records == 8 + 8
    assert queue_2.consumer("billing").effects_saved == (5, 0, 0)
    assert str(queue_2.retention) == "forever"


def test_a_copy_without_the_empty_folder_of_staged_pieces_goes_on(tmp_path: Path) -> None:
    version_1(tmp_path)
    (tmp_path / "staged").rmdir()
    assert gone_on(tmp_path).ends() == {0: 15, 1: 0, 2: 12}
