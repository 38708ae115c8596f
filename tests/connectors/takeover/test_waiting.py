"""A driver that waits tells if it is warm: state and lag in batches, without a Spark."""

from pathlib import Path

from cec_store import KeepAlive, leases_of, wait_until_warm
from cec_store.connectors.spark.takeover.tenure import LEASE
from cec_store.connectors.spark.takeover.waiting import WaitingDriver
from cec_store.standby.nodes.members import Members, seen_leases
from cec_store.standby.nodes.notes import NodeState

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
    assert [name for name in leases_of(tmp_path).names() if name.startswith(LEASE)]
