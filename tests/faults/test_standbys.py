"""Two nodes that are killed, stopped and woken up: nothing is lost or doubled, but by amnesia.

That loses exactly what it says. Processes and signals are real: a stopped primary wakes up, finds
that it has been fenced, and becomes the standby.
"""

import pytest

from cec_store.inspector.verifying.log import verify
from cec_store.standby.schemes import Scheme
from cec_store.storage.local import LocalFolder
from cec_store.storage.stores.folders import folder_at
from support.crashes.acknowledged_chains import OPERATORS, ROWS
from support.runs.counts import crash_cases, crash_count
from support.standby.two_nodes import TwoNodes, expected
from support.stores.s3_server import BUCKET, options_of

pytestmark = pytest.mark.crash

TAKEOVERS = crash_count(3, 12)
SEEDS = range(crash_count(1, 3))
CASES = [
    (operator, scheme)
    for operator, make in OPERATORS.items()
    for scheme in Scheme
    # Windows of counted rows do not align again from an empty state (3.2); and what comes first of
    # two inputs that end at different moments is nothing that amnesia could say.
    if (scheme is not Scheme.UPSTREAM or "count" not in operator)
    and (scheme is not Scheme.AMNESIA or make(ROWS).inputs == 1)
]
QUICK = [
    ("count windows", Scheme.PASSIVE),
    ("join", Scheme.ACTIVE),
    ("time windows that overlap", Scheme.UPSTREAM),
    ("map", Scheme.AMNESIA),
]


@pytest.fixture(scope="module")
def nodes():
    both = TwoNodes()
    yield both
    both.close()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("operator", "scheme"), crash_cases(QUICK, CASES))
def test_nodes_take_over_from_one_another(nodes, tmp_path, operator, scheme, seed, tally):
    output = nodes.run(tmp_path, operator, scheme, seed, TAKEOVERS)
    assert_nothing_lost_or_doubled(nodes, operator, scheme, output)
    assert verify(LocalFolder(tmp_path / "out")).faults == ()
    tally(len(nodes.takeovers))


@pytest.mark.parametrize(("operator", "scheme"), crash_cases(QUICK[:1], CASES))
def test_nodes_take_over_a_log_in_s3(nodes, tmp_path, s3_address, operator, scheme, tally):
    url, options = f"s3://{BUCKET}/{tmp_path.name}", options_of(s3_address)
    takeovers = crash_count(2, 4)
    output = nodes.run(tmp_path, operator, scheme, 7, takeovers, url, options)
    assert_nothing_lost_or_doubled(nodes, operator, scheme, output)
    assert verify(folder_at(url, options)).faults == ()
    tally(len(nodes.takeovers))


def assert_nothing_lost_or_doubled(nodes, operator, scheme, output):
    """But by amnesia, which loses exactly what its takeovers say."""
    rows = [{name: row[name] for name in row if not name.startswith("_")} for row in output]
    if scheme is not Scheme.AMNESIA:
        assert rows == expected(operator, nodes.rows)
        return
    left, start = [], 0
    for takeover in sorted(nodes.takeovers, key=lambda each: each["took_over"]):
        until = sum(row["_offset"] < takeover["end"] for row in output)
        left += expected(operator, nodes.rows, start)[: until - len(left)]
        ((_, start),) = takeover["skipped"]
    assert rows == left + expected(operator, nodes.rows, start)
