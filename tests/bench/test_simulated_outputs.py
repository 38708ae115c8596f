"""Table 2 of the availability paper, from outputs that are compared, and Table 4's additions."""

import numpy as np
import pytest

from bench.simulators.standby.outputs import observed, recovery_type
from cec_store.operators.taxonomy import NetworkType, RecoveryType
from cec_store.standby.schemes import Scheme

REPEATING, CONVERGENT, DIVERGENT = (
    RecoveryType.REPEATING, RecoveryType.CONVERGENT, RecoveryType.DIVERGENT,
)  # fmt: skip
TABLE_2 = {
    Scheme.PASSIVE: (REPEATING, REPEATING, REPEATING, DIVERGENT),
    Scheme.UPSTREAM: (REPEATING, CONVERGENT, DIVERGENT, DIVERGENT),
    Scheme.ACTIVE: (REPEATING, REPEATING, REPEATING, DIVERGENT),
}
EACH = [
    (scheme, kind, expected)
    for scheme, types in TABLE_2.items()
    for kind, expected in zip(NetworkType, types, strict=True)
]


@pytest.mark.parametrize(("scheme", "kind", "expected"), EACH)
def test_rollback_recovery_is_as_table_2_says(
    scheme: Scheme, kind: NetworkType, expected: RecoveryType
) -> None:
    assert observed(scheme, kind) is expected


@pytest.mark.parametrize(("scheme", "kind", "_"), EACH)
def test_additions_make_recovery_precise(
    scheme: Scheme, kind: NetworkType, _: RecoveryType
) -> None:
    assert observed(scheme, kind, is_precise=True) is RecoveryType.PRECISE


@pytest.mark.parametrize("kind", NetworkType)
def test_amnesia_leaves_a_gap_and_the_eventual_checkpoint_is_precise(kind: NetworkType) -> None:
    assert observed(Scheme.AMNESIA, kind) is RecoveryType.GAP
    assert observed(Scheme.EVENTUAL, kind) is RecoveryType.PRECISE


def test_a_lost_window_is_a_gap_and_not_a_divergence() -> None:
    rows = np.array([[n, n, n] for n in range(120)])
    assert recovery_type(rows[:50], rows[50:], rows) is RecoveryType.PRECISE
    assert recovery_type(rows[:50], rows[40:], rows) is REPEATING
    assert recovery_type(rows[:50], rows[51:], rows) is RecoveryType.GAP
    other = rows.copy()
    other[60, 2] = 0
    assert recovery_type(rows[:50], other[40:], rows) is DIVERGENT
    other[60, 2], other[45, 2] = 60, 0
    assert recovery_type(rows[:50], other[40:], rows) is CONVERGENT
