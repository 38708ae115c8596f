"""A checkpoint in a store: its state, its changes, and forks from and to there."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from cec_store import (
    CorruptLog,
    NotACheckpoint,
    StorageError,
    fork,
    open_queue,
    read_changes,
    read_state,
)
from cec_store.connectors.spark.checkpoint.state_rows import decoder_of
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.folders import folder_at
from cec_store.storage.stores.fsspec_store import FsspecStore
from cec_store.storage.stores.store_folder import StoreFolder
from support.places.made_checkpoints import grown
from support.stores.copies import contents, copy_into, in_memory
from support.stores.counting import CountingStore
from support.stores.needed import need
from support.stores.s3_server import BUCKET, options_of

need("fsspec")


@pytest.fixture(scope="module", params=[1, 2])
def local(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "checkpoint"
    made, *_ = grown(path, batches=9, partitions=3, format=request.param)
    made.close()
    return path


def ordered(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=repr)


def test_state_and_changes_are_those_of_the_local_one(local: Path) -> None:
    url = in_memory(local)
    for version in (1, 5, None):
        assert ordered(read_state(url, version=version)) == ordered(
            read_state(local, version=version)
        )
    assert ordered(read_changes(url, 3, 8)) == ordered(read_changes(local, 3, 8))
    with pytest.raises(NotACheckpoint, match=f"{url}/state: no checkpoint"):
        read_state(f"{url}/state")


def test_state_is_read_for_a_few_requests_a_partition(local: Path) -> None:
    store = CountingStore(store_at(in_memory(local)))
    assert ordered(read_state(StoreFolder(store))) == ordered(read_state(local))  # type: ignore[arg-type]
    segments = sum(name.endswith(".seg") for name in contents(store.store))
    assert len(store.calls) <= 20 + 3 * 8 + segments


def test_a_lone_state_log_finds_what_spark_notes_above_it(local: Path) -> None:
    url = f"{in_memory(local)}/state/0/1"
    decoder = decoder_of(folder_at(url))
    assert decoder is not None
    assert decoder.schema.partitions == 3
    with open_queue(url) as log:
        assert log.rebuild().keys.type.num_fields == 2
    assert decoder_of(folder_at(url.rpartition("/")[0])) is None


@pytest.mark.parametrize(("old", "new"), [("url", "url"), ("url", "path"), ("path", "url")])
def test_a_fork_runs_on_from_the_same_state(
    local: Path, tmp_path: Path, old: str, new: str
) -> None:
    source = in_memory(local) if old == "url" else str(local)
    target = in_memory() if new == "url" else str(tmp_path / "new")
    before = contents(store_at(source)) if old == "url" else {}
    tried = fork(source, target, batch=5, dry_run=True)
    done = fork(source, target, batch=5)
    assert (done.linked_files, done.copied_files) == (0, tried.copied_files)
    assert done.copied_bytes == tried.copied_bytes
    assert ordered(read_state(target)) == ordered(read_state(local, version=6))
    assert old == "path" or contents(store_at(source)) == before
    with pytest.raises(FileExistsError):
        fork(source, target, batch=5)
    with pytest.raises(StorageError, match="inside the checkpoint"):
        fork(source, f"{source}/below", batch=5)


def test_a_fork_that_fails_leaves_nothing(local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = in_memory(local), in_memory()
    create = FsspecStore.create
    made = []

    def failing(self: FsspecStore, name: str, parts: object) -> None:
        made.append(name)
        if name == "metadata":
            raise StorageError("the store fails")
        create(self, name, parts)  # type: ignore[arg-type]

    monkeypatch.setattr(FsspecStore, "create", failing)
    with pytest.raises(StorageError, match="the store fails"):
        fork(source, target, batch=5)
    assert len(made) > 10
    assert made[-1] == "metadata"
    assert contents(store_at(target)) == {}


def test_damage_in_a_store_is_refused_by_name(local: Path) -> None:
    url = in_memory(local)
    store = store_at(url)
    name = next(n for n in sorted(contents(store)) if n.startswith("state/0/2/") and ".seg" in n)
    data = bytearray(store.read(name))
    data[-30] ^= 1
    store.delete([name])
    store.create(name, [bytes(data)])
    with pytest.raises(CorruptLog, match=f"{url}/state/0/2"):
        read_state(url)
    target = in_memory()
    with pytest.raises(CorruptLog, match=f"{url}/state/0/2"):
        fork(url, target, batch=8)
    assert contents(store_at(target)) == {}


def test_a_real_s3_server_gives_the_same(local: Path, s3_address: str) -> None:
    options = options_of(s3_address)
    url = f"s3://{BUCKET}/{os.path.basename(local.parent)}"
    copy_into(store_at(f"{url}/old", options), local)
    done = fork(f"{url}/old", f"{url}/new", batch=6, storage_options=options)
    assert done.path == f"{url}/new"
    forked = read_state(f"{url}/new", storage_options=options)
    assert ordered(forked) == ordered(read_state(local, version=7))
    changes = read_changes(f"{url}/old", 2, 4, storage_options=options)
    assert ordered(changes) == ordered(read_changes(local, 2, 4))
