"""Three nodes that are killed, stopped and told to change places: which one takes over, and when.

Processes and signals are real. Nothing is lost or doubled; where one standby is behind the other,
the other one takes over; and no failover comes sooner after the last one than damping allows.
"""

import pytest

from cec_store.inspector.verifying.log import verify
from cec_store.standby.lease_format import Cause
from cec_store.standby.schemes import Scheme
from cec_store.storage.local import LocalFolder
from support.runs.counts import crash_cases, crash_count
from support.standby.cluster import DAMPING_S, Cluster
from support.standby.two_nodes import expected

pytestmark = pytest.mark.crash

TAKEOVERS = crash_count(6, 100)
QUICK = [("count windows", Scheme.PASSIVE), ("time windows", Scheme.ACTIVE)]
CASES = [
    (operator, scheme)
    for operator in ("count windows", "count windows that overlap", "time windows",
                     "time windows that overlap", "map")
    for scheme in (Scheme.PASSIVE, Scheme.ACTIVE)
]  # fmt: skip
CLOCK_STEP_S = 0.01
"""Resolution of a file's time."""


@pytest.fixture(scope="module")
def cluster():
    nodes = Cluster()
    yield nodes
    nodes.close()


@pytest.mark.parametrize(("operator", "scheme"), crash_cases(QUICK, CASES))
def test_the_most_caught_up_takes_over_and_not_twice_in_a_row(
    cluster, tmp_path, operator, scheme, tally
):
    rows = cluster.run(tmp_path, operator, scheme, len(operator), TAKEOVERS)
    assert rows == expected(operator, cluster.rows)
    assert verify(LocalFolder(tmp_path / "out")).faults == ()
    gaps_s = cluster.failover_gaps_s()
    assert min(gaps_s, default=DAMPING_S) >= DAMPING_S - CLOCK_STEP_S
    causes = [cause for cause, _, _ in cluster.history.values()]
    print(
        f"{operator} by {scheme.value}: {len(causes) - 1} takeovers, "
        + ", ".join(f"{causes.count(cause)} {cause.value}" for cause in Cause)
        + f"; {cluster.chosen} with one standby behind; "
        + f"{sum(gap_s < DAMPING_S + 0.3 for gap_s in gaps_s)} held back by damping"
    )
    assert cluster.chosen > 0
    assert {Cause.FAILOVER} <= {*causes}
    tally(len(causes) - 1)
