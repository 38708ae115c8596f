"""Warming of a waiting driver outlasts a checkpoint that cannot be read, without a Spark."""

import logging
from pathlib import Path
from typing import Any

import pytest

from cec_store import KeepAlive, StoreUnreachable, leases_of
from cec_store.connectors.spark.takeover import passive
from cec_store.connectors.spark.takeover.waiting import WaitingDriver
from cec_store.connectors.spark.takeover.warming import read_state
from cec_store.standby.nodes.notes import NodeState

QUICK = KeepAlive(0.02, 50)


class Listings:
    """A checkpoint of which listings fail."""

    path = "x"

    def __init__(self, committed: list[int] | Exception) -> None:
        self._committed = committed

    def committed_batches(self) -> list[int]:
        if isinstance(self._committed, Exception):
            raise self._committed
        return self._committed

    def state_folders(self) -> list[Any]:
        raise OSError("a folder went while it was listed")


@pytest.mark.parametrize("committed", [StoreUnreachable("s3://x: no answer"), [3]])
def test_a_checkpoint_that_cannot_be_listed_ends_no_waiting_and_is_not_read(
    tmp_path: Path, committed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint: Any = Listings(committed)
    waiting = WaitingDriver(leases_of(tmp_path), QUICK)
    with caplog.at_level(logging.WARNING):
        assert read_state(None, checkpoint, "x") is None
        passive._read(None, checkpoint, waiting)
    assert "cannot be read now" in caplog.text
    assert waiting.note.state is NodeState.WARMING


def test_before_the_first_batch_there_is_no_state_to_read(tmp_path: Path) -> None:
    checkpoint: Any = Listings([])
    waiting = WaitingDriver(leases_of(tmp_path), QUICK)
    passive._read(None, checkpoint, waiting)
    assert (waiting.note.state, waiting.note.position) == (NodeState.READY, 0)
