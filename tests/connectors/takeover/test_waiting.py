"""A driver that waits tells if it is warm: state and lag in batches, without a Spark."""

import time
from pathlib import Path

import pytest

from cec_store import KeepAlive, leases_of, wait_until_warm
from cec_store.connectors.spark.takeover import waiting as waiting_module
from cec_store.connectors.spark.takeover.tenure import LEASE
from cec_store.connectors.spark.takeover.waiting import WaitingDriver
from cec_store.standby.nodes.members import Members, seen_leases
from cec_store.standby.nodes.notes import NodeState, node_lease

QUICK = KeepAlive(0.02, 50)


def test_it_is_warm_once_it_has_read_the_state(tmp_path: Path) -> None:
    leases = leases_of(tmp_path)
    with WaitingDriver(leases, QUICK) as waiting:
        assert not wait_until_warm(tmp_path, lease=LEASE, timeout_s=0.1)
        waiting.has_read(7)
        assert wait_until_warm(tmp_path, lease=LEASE, lag_max=0, timeout_s=30.0)
        waiting.sees([5, 9])
        members = Members(leases, LEASE)
        while True:
            (member,) = members.look()
            if member.note.lag:
                break
        members.close()
        assert (member.note.state, member.note.lag) == (NodeState.READY, 2)
        (seen,) = seen_leases(leases)
        assert seen.name == LEASE
    assert not wait_until_warm(tmp_path, lease=LEASE, timeout_s=0.1)


def test_before_the_first_batch_it_is_warm_with_nothing_read(tmp_path: Path) -> None:
    with WaitingDriver(leases_of(tmp_path), QUICK) as waiting:
        waiting.has_read(None)
        waiting.sees([])
        assert (waiting.note.position, waiting.note.lag) == (0, 0)
        assert wait_until_warm(tmp_path, lease=LEASE, timeout_s=30.0)


def test_a_query_that_runs_along_is_warm_once_it_has_come_as_far(tmp_path: Path) -> None:
    waiting = WaitingDriver(leases_of(tmp_path), QUICK)
    noted = []
    for own, theirs in (([], [4]), ([3], [9]), ([4], [9]), ([4], [20]), ([20], [20])):
        waiting.follows(own, theirs)
        noted.append((waiting.note.state.value, waiting.note.lag))
    assert noted == [("warming", 5), ("warming", 6), ("ready", 5), ("ready", 16), ("ready", 0)]


def test_one_that_cannot_hold_its_lease_waits_all_the_same(tmp_path: Path) -> None:
    with (
        WaitingDriver(leases_of(tmp_path), QUICK),
        WaitingDriver(leases_of(tmp_path), QUICK) as two,
    ):
        two.has_read(1)
        assert len(leases_of(tmp_path).names()) == 1


def test_drivers_that_have_waited_leave_no_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = leases_of(tmp_path)
    for name in ("host-1", "host-2"):
        monkeypatch.setattr(waiting_module, "_own_name", lambda name=name: name)
        with WaitingDriver(leases, QUICK):
            assert leases.names() == [f"{LEASE}.node.{name}"]
    assert leases.names() == []
    assert seen_leases(leases) == []


@pytest.mark.parametrize("place", ["on a disk", "in a store"])
def test_leases_that_killed_drivers_left_are_deleted_and_those_of_others_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    leases = leases_of(tmp_path if place == "on a disk" else f"memory://{tmp_path}")
    monkeypatch.setattr(waiting_module, "_own_name", lambda: "host-1")
    at_once = KeepAlive(0.02, 3)
    alive = leases.hold(node_lease(LEASE, "alive-2"), keep_alive=QUICK)
    primary = leases.hold(LEASE, keep_alive=at_once)
    primary.abandon()
    leases.hold(node_lease(LEASE, "gone-3"), keep_alive=at_once).abandon()
    leases.hold(node_lease(LEASE, "released-4"), keep_alive=at_once).release()
    leases.hold(node_lease("another", "gone-3"), keep_alive=at_once).abandon()
    drivers = [node_lease(LEASE, name) for name in ("alive-2", "host-1")]
    kept = [node_lease("another", "gone-3"), LEASE, *drivers]
    with WaitingDriver(leases, QUICK):
        deadline_s = time.monotonic() + 30.0
        while leases.names() != kept:
            assert time.monotonic() < deadline_s, leases.names()
            time.sleep(0.005)
        alive.check()
    alive.release()


def test_a_driver_whose_lease_was_taken_leaves_it_to_the_other(tmp_path: Path) -> None:
    leases = leases_of(tmp_path)
    with WaitingDriver(leases, QUICK):
        (name,) = leases.names()
        other = leases.hold(name, keep_alive=QUICK, after=1)
    other.check()
    other.release()


def test_a_folder_without_a_tenure_is_no_node(tmp_path: Path) -> None:
    """A store with folders may keep that of a lease whose objects were deleted."""
    (tmp_path / "leases" / node_lease(LEASE, "host-1")).mkdir(parents=True)
    members = Members(leases_of(tmp_path), LEASE)
    assert members.look() == []
    members.close()
