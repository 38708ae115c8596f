"""Warming of a waiting driver outlasts a checkpoint that cannot be read, without a Spark."""

import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cec_store import KeepAlive, StoreUnreachable, leases_of
from cec_store.connectors.spark.takeover import passive
from cec_store.connectors.spark.takeover.tenure import LEASE
from cec_store.connectors.spark.takeover.waiting import WaitingDriver
from cec_store.connectors.spark.takeover.warming import read_state
from cec_store.standby.nodes.notes import NodeState

QUICK = KeepAlive(0.02, 50)


class StateFolder(NamedTuple):
    operator: int
    store: str


class Listings:
    """A checkpoint that has these batches and states, or cannot be listed."""

    path = "x"

    def __init__(
        self, committed: list[int] | Exception, states: Sequence[StateFolder] | None = None
    ) -> None:
        self._committed = committed
        self._states = states

    def committed_batches(self) -> list[int]:
        if isinstance(self._committed, Exception):
            raise self._committed
        return self._committed

    def state_folders(self) -> Sequence[StateFolder]:
        if self._states is not None:
            return self._states
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


def test_a_takeover_does_not_wait_for_state_that_is_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = leases_of(tmp_path)
    lease = leases.hold(LEASE, keep_alive=KeepAlive(0.01, 3))
    reads, end = threading.Event(), threading.Event()

    def read(*_: object) -> None:
        reads.set()
        lease.release()
        assert end.wait(60.0)

    monkeypatch.setattr(passive, "_read", read)
    monkeypatch.setattr(passive, "_NOTED_EVERY_S", 0.001)
    monkeypatch.setattr(passive, "_STATE_AGE_S", 0.0)
    watch, checkpoint = leases.watch(LEASE), Listings([])
    taken: list[int] = []

    def wait() -> None:
        waiting = WaitingDriver(leases, QUICK)
        taken.append(passive._warm_until_silent(None, checkpoint, watch, waiting))  # type: ignore[arg-type]

    waits = threading.Thread(target=wait, daemon=True)
    waits.start()
    waits.join(10.0)
    assert reads.is_set()
    assert taken == [lease.number]
    end.set()
    watch.close()


def test_a_session_that_fails_while_it_reads_ends_the_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object) -> None:
        raise ConnectionError("the JVM has ended")

    monkeypatch.setattr(passive, "_read", read)
    monkeypatch.setattr(passive, "_NOTED_EVERY_S", 0.001)
    monkeypatch.setattr(passive, "_STATE_AGE_S", 0.0)
    monkeypatch.setattr(passive, "_LOOK_S", 0.01)
    leases, checkpoint = leases_of(tmp_path), Listings([])
    with leases.hold(LEASE, keep_alive=QUICK):
        watch = leases.watch(LEASE)
        waiting = WaitingDriver(leases, QUICK)
        with pytest.raises(ConnectionError, match="the JVM has ended"):
            passive._warm_until_silent(None, checkpoint, watch, waiting)  # type: ignore[arg-type]
        watch.close()


def test_once_the_waiting_ends_no_further_store_is_read() -> None:
    checkpoint: Any = Listings([3], [StateFolder(0, "a"), StateFolder(0, "b")])
    assert read_state(None, checkpoint, "x", goes_on=lambda: False) is None
