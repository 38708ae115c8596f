"""Nobody relies on a commit of a local queue before its name is on disk, whoever made it."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

from cec_store import open_queue
from cec_store.errors import DurabilityLost

SCHEMA = pa.schema([("n", pa.int64())])


class Syncs:
    """Folders of the log that are synced; the first of them fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folders: list[str] = []
        self.fails = False
        fsync = os.fsync

        def noted(number: int) -> None:
            path = os.readlink(f"/proc/self/fd/{number}")
            if "/log/" in path and self.fails:
                self.fails = False
                raise OSError(5, "Input/output error")
            if "/log/" in path:
                self.folders.append(path)
            fsync(number)

        monkeypatch.setattr(os, "fsync", noted)


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": numbers}, schema=SCHEMA)


@pytest.mark.parametrize("is_opened_anew", [False, True])
def test_a_version_that_is_passed_over_is_on_disk(
    is_opened_anew: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = open_queue(tmp_path / "q", "a", schema=SCHEMA, partitions=1)
    queue.append(rows(1))
    syncs = Syncs(monkeypatch)
    syncs.fails = True
    with pytest.raises(DurabilityLost):
        queue.append(rows(2), txn_app_id="w", txn_version=1)
    if is_opened_anew:
        queue.close()
        queue = open_queue(tmp_path / "q", "a", partitions=1)
    syncs.folders.clear()
    number = queue.append(rows(2), txn_app_id="w", txn_version=1)
    assert number == 2
    assert syncs.folders == [str(tmp_path / "q" / "log" / "00000000000000000")]
    queue.close()


def test_what_a_consumer_acknowledges_is_on_disk_before_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_queue(tmp_path / "q", "a", schema=SCHEMA, partitions=1) as queue:
        queue.append(rows(1, 2))
        queue.consumer("x")
        syncs = Syncs(monkeypatch)
        syncs.fails = True
        with pytest.raises(DurabilityLost):
            queue.append(rows(3, 4))
    with open_queue(tmp_path / "q", "a", partitions=1) as queue:
        consumer = queue.consumer("x")
        syncs.folders.clear()
        consumer.acknowledge(effects_saved={0: 4})
        assert syncs.folders == [str(tmp_path / "q" / "log" / "00000000000000000")]
