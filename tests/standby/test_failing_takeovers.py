"""Nodes whose takeover fails behind the fence."""

from pathlib import Path

import pytest

from cec_store import OutOfRange, StoreUnreachable
from cec_store.standby.nodes.notes import NodeState
from cec_store.standby.standby import Standby
from support.standby.node_threads import NodeThreads
from support.standby.two_nodes import expected


def test_a_store_that_is_lost_behind_the_fence_delays_a_takeover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = Standby._complete
    failures: list[StoreUnreachable] = []

    def complete_later(standby: Standby, *arguments: object) -> object:
        if not failures:
            failures.append(StoreUnreachable("s3://queue: no answer"))
            raise failures[0]
        return complete(standby, *arguments)

    with NodeThreads(tmp_path) as running:
        warm_standby(running)
        monkeypatch.setattr(Standby, "_complete", complete_later)
        running.end("a")
        running.wait(lambda: running.errors or running.state("b") is NodeState.PRIMARY)
        assert running.errors == {}
        assert failures
        running.feed(40)
        running.wait(lambda: len(running.rows()) == len(expected("count windows", 80)))
        assert running.rows() == expected("count windows", 80)


def test_input_that_is_missed_behind_the_fence_is_told_and_ends_no_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def complete(*_: object) -> None:
        raise OutOfRange("queues/in: offset 3 is not in 7 … 9")

    with NodeThreads(tmp_path) as running:
        warm_standby(running)
        monkeypatch.setattr(Standby, "_complete", complete)
        running.end("a")
        running.wait(lambda: running.errors or running.state("b") is NodeState.REFUSED)
        assert running.errors == {}
        assert "offset 3 is not in" in running.nodes["b"].note.reason


def warm_standby(running: NodeThreads) -> None:
    """Let a be the primary, and b its standby, after 40 rows of input."""
    running.start("a")
    running.primary()
    running.feed(40)
    running.wait(lambda: len(running.rows()) == len(expected("count windows", 40)))
    running.start("b")
    running.wait_ready("b")
