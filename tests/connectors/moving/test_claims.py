"""A move into a store takes nothing away that another has put there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cec_store.connectors.spark.moving import moving
from cec_store.storage.folder import FolderTree
from cec_store.storage.stores.by_url import store_at
from support.places.made_checkpoints import KEY, START_MS, VALUE, MadeCheckpoint
from support.stores.copies import contents, in_memory
from support.stores.needed import need

need("fsspec")
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class JobDouble:
    """A job that needs no Spark, and what it was asked to do."""

    def __init__(self, run: Callable[[], None]) -> None:
        self._run = run
        self.calls: list[str] = []

    def check(self) -> None:
        self.calls.append("check")

    def run(self, into: FolderTree) -> tuple[int, dict[str, list[list[str]]]]:
        self.calls.append("run")
        self._run()
        return 1, {}

    def take_away(self, into: FolderTree) -> None:
        self.calls.append("take away")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    made = MadeCheckpoint(tmp_path / "old", KEY, VALUE)
    made.batch({("ann", 1): (1, "")})
    made.close()
    conf = {"spark.sql.streaming.stateStore.providerClass": ROCKSDB}
    offsets = {"batchWatermarkMs": 0, "batchTimestampMs": START_MS, "conf": conf}
    (made.path / "offsets" / "0").write_text(f"v1\n{json.dumps(offsets)}\n0")
    return made.path


def adopt(old: Path, url: str, job: JobDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "StateJob", lambda session, plan: job)
    moving.adopt(object(), old, url)


def test_second_move_to_a_place_is_refused_while_the_first_is_under_way(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, second = in_memory(), JobDouble(lambda: None)

    def begin_second() -> None:
        with pytest.raises(FileExistsError, match=f"{url}: .* is making it.*delete the folder"):
            adopt(old, url, second, monkeypatch)

    first = JobDouble(begin_second)
    adopt(old, url, first, monkeypatch)
    assert (first.calls, second.calls) == (["check", "run"], [])
    assert {"metadata", "offsets/0", "commits/0"} <= contents(store_at(url)).keys()
    assert "_being_made" not in contents(store_at(url))


def test_failed_move_takes_its_state_away(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = in_memory()

    def fail() -> None:
        raise KeyboardInterrupt

    job = JobDouble(fail)
    with pytest.raises(KeyboardInterrupt):
        adopt(old, url, job, monkeypatch)
    assert job.calls == ["check", "run", "take away"]
    assert contents(store_at(url)) == {}


def test_state_stays_where_another_has_made_a_checkpoint_meanwhile(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that was started there claims nothing."""
    url = in_memory()
    job = JobDouble(lambda: store_at(url).create("metadata", [b"another"]))
    with pytest.raises(FileExistsError):
        adopt(old, url, job, monkeypatch)
    assert job.calls == ["check", "run"]
    assert contents(store_at(url)) == {"metadata": b"another"}
