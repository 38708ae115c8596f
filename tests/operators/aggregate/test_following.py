"""What an aggregate keeps while it follows another one's footprints, as passive standby does."""

import numpy as np
import pyarrow as pa

from cec_store.operators import Aggregate, ArrowSource, CountWindow, SessionWindow
from cec_store.operators.aggregate.session_slots import SessionSlots
from cec_store.operators.choosing import Choosing, Luck
from cec_store.operators.inputs.sources import steps_of

SCHEMA = pa.schema([("k", pa.int64()), ("at", pa.timestamp("us"))])


def rows_of_keys(keys: int, spacing_us: int = 1) -> list[ArrowSource]:
    """One row of each key, so many microseconds apart."""
    at = pa.array(np.arange(keys) * spacing_us, pa.int64())
    return [ArrowSource(pa.table([np.arange(keys), at], names=SCHEMA.names).cast(SCHEMA), "at")]


def with_timeout() -> Aggregate:
    return Aggregate(
        group_by=["k"], aggregates={"n": ("count",)}, window=CountWindow(1000),
        input_schema=SCHEMA, timeout_us=1_000,
    )  # fmt: skip


def test_deadlines_that_are_kept_are_those_of_open_windows_however_often_restored() -> None:
    primary, follower = with_timeout(), with_timeout()
    clock_us, sources = [7], rows_of_keys(100)
    choosing = Choosing(primary, sources, 65_536, Luck(clock_us=lambda: clock_us[0]))
    (step,) = choosing.steps(np.zeros(1, np.int64))
    keys, states = primary.snapshot(primary.apply(step).opened)
    for position in range(100, 200):
        follower.restore(keys, states, np.full((100, 1), position))
    follower.let_go(keys.slice(0, 10))
    assert follower._deadlines is not None
    for clock_us[0], closed in ((1_006, 0), (1_007, 90)):
        effects = follower.apply(choosing.tick(np.array([200])))
        assert effects.rows.num_rows == closed
        runs = follower._deadlines._due._runs
        assert sum(len(ends) for ends, _ in runs) == 90 - closed


def over_sessions() -> Aggregate:
    return Aggregate(
        group_by=["k"], aggregates={"n": ("count",)}, window=SessionWindow(10),
        input_schema=SCHEMA,
    )  # fmt: skip


def test_groups_that_a_follower_of_sessions_keeps_are_those_of_open_ones() -> None:
    primary, follower = over_sessions(), over_sessions()
    begin = np.zeros(1, np.int64)
    for step in steps_of(rows_of_keys(50_000, spacing_us=5), begin, None, 1_000):
        effects = primary.apply(step)
        follower.let_go(effects.keys)
        keys, states = primary.snapshot(effects.opened)
        follower.restore(keys, states, np.full((len(keys), 1), step.end[0]))
        follower.catch_up(step)
    slots = follower._slots
    assert isinstance(slots, SessionSlots)
    assert slots._groups is not None
    assert follower.open_windows < 10
    assert slots.keys.size < 10_000
    assert slots._groups.size < 10_000
