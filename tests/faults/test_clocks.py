"""Clocks that jump: forward, back, before 1970, to the ends of time. Lookups equal a scan."""

import itertools
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cec_store import QueueOptions, open_queue
from cec_store.values import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US
from support.models.index_oracle import SCHEMA, assert_equals_scan

pytestmark = pytest.mark.crash

OPTIONS = QueueOptions(sync="none")
EDGES = [0, 1, -1, MIN_TIMESTAMP_US, MIN_TIMESTAMP_US + 1, MAX_TIMESTAMP_US - 1, MAX_TIMESTAMP_US]
YEAR_US = 365 * 24 * 3600 * 10**6
JUMPS = st.one_of(
    st.sampled_from(
        [0, 0, 1, 1000, -1, -1000, 3600 * 10**6, -3600 * 10**6, YEAR_US, -60 * YEAR_US]
    ),
    st.integers(-(2**63), 2**63),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.just("stamped"), st.lists(st.sampled_from(EDGES), min_size=1, max_size=3)),
        st.tuples(st.sampled_from(["roll", "reopen", "reindex", "trim"]), st.just(0)),
    ),
    min_size=1,
    max_size=14,
)


def clock_with(jumps: list[int], start: int):
    """Microseconds, within what a clock of 64 bits can say."""
    now = start
    for jump in itertools.cycle(jumps):
        now = max(MIN_TIMESTAMP_US, min(MAX_TIMESTAMP_US, now + jump))
        yield now


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # the tally adds up
@given(STEPS, st.lists(JUMPS, min_size=1, max_size=8), st.sampled_from(EDGES))
def test_lookups_equal_a_scan_whatever_the_clock_says(tally, steps, jumps, start) -> None:
    ticks = clock_with(jumps, start)
    stamps: list[int] = []
    first = 0
    path = Path(tempfile.mkdtemp()) / "queue"
    try:

        def opened():
            return open_queue(path, "a", schema=SCHEMA.data, options=OPTIONS,
                              clock_us=lambda: next(ticks))  # fmt: skip

        queue = opened()
        for step, value in steps:
            if step == "append":
                before = len(stamps)
                batch = pa.record_batch({"number": list(range(before, before + value))})
                queue.append(batch, sync=True)
                told = [
                    t
                    for f in queue.chain().frames()
                    for t in queue.chain().records(f)["_timestamp"].cast(pa.int64()).to_pylist()
                ]
                stamps += told[-value:]
            elif step == "stamped":
                numbers = range(len(stamps), len(stamps) + len(value))
                batch = pa.record_batch({"number": list(numbers)})
                queue.append(batch, pa.array(value, pa.int64()), sync=True)
                stamps += value
            elif step == "reopen":
                queue.close()
                queue = opened()
            elif step == "trim":
                first = queue.trim(len(stamps) // 2)
            else:
                getattr(queue, step)()
        queue.sync()
        tally(assert_equals_scan(queue._timestamp_index(), queue.chain()))
        for moment in {*EDGES, *stamps, *(t + 1 for t in stamps if t < MAX_TIMESTAMP_US)}:
            reached = [n for n, t in enumerate(stamps) if n >= first and t >= moment]
            wanted = min(reached, default=len(stamps))
            assert queue.position_at(moment).offset == wanted, f"{moment} in {stamps}"
            numbers = [n for b in queue.replay(since=moment) for n in b["number"].to_pylist()]
            assert numbers == reached
            replay = queue.replay(from_moment=moment)
            numbers = [n for b in replay for n in b["number"].to_pylist()]
            assert numbers == list(range(wanted, len(stamps)))
        queue.close()
    finally:
        shutil.rmtree(path.parent)
