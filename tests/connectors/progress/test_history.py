"""The history of a query's batches: bounded, without a batch lost, and gaps stay gaps."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.connectors.spark.progress.history import (
    FILE_BYTES_MAX,
    STRETCHES_MAX,
    Stretch,
    bounded,
    decode,
    encode,
    gaps_before,
    spans_s,
)

SECOND = 1_000_000
HUGE = 2**63 - 1


def batch(number: int, from_s: float, took_s: float = 1, rows: int = 10) -> Stretch:
    from_us, took_us = round(from_s * SECOND), round(took_s * SECOND)
    return Stretch(
        from_us, from_us + took_us, number, 1, took_us, took_us, rows, took_us // 4, 5, 6, None
    )


STEP = st.tuples(st.integers(0, 500), st.integers(0, 90), st.integers(0, 99))


@given(st.lists(STEP, max_size=60), st.integers(1, 80))
def test_nothing_is_lost_however_many_batches_there_are(
    steps: list[tuple[int, int, int]], repeats: int
) -> None:
    """Against the plain list of all batches."""
    history: list[Stretch] = []
    rows = batches = took_us = longest_us = now_s = 0
    for number, (pause_s, took_s, count) in enumerate(steps * repeats):
        now_s += pause_s
        history = bounded([*history, batch(number, now_s, took_s, count)])
        now_s += took_s
        rows, batches, took_us = rows + count, batches + 1, took_us + took_s * SECOND
        longest_us = max(longest_us, took_s * SECOND)
    assert len(history) <= STRETCHES_MAX
    assert sum(s.rows for s in history) == rows
    assert sum(s.batches for s in history) == batches
    assert sum(s.batch_us for s in history) == took_us
    assert max((s.batch_max_us for s in history), default=0) == longest_us
    assert all(a.until_us <= b.from_us for a, b in pairwise(history))
    assert all(a.batch < b.batch for a, b in pairwise(history))
    assert decode(encode(history)) == history
    assert len(spans_s(history)) == len(gaps_before(history)) == len(history)


@pytest.mark.parametrize("back", range(495, 506))
def test_a_clock_that_goes_back_leaves_a_file_that_can_be_read(back: int) -> None:
    stretches: list[Stretch] = []
    for number in range(1_025):
        stretches = bounded([*stretches, batch(number, number - 5 * (number >= back))])
    assert decode(encode(stretches)) == stretches
    assert sum(each.batches for each in stretches) == 1_025


def test_stretches_are_not_joined_over_an_outage() -> None:
    before = [batch(n, n * 2) for n in range(700)]
    after = [batch(700 + n, 100_000 + n * 2) for n in range(700)]
    history: list[Stretch] = []
    for item in before + after:
        history = bounded([*history, item])
    assert len(history) < 1100
    assert sum(gaps_before(history)) == 1
    [place] = [n for n, is_gap in enumerate(gaps_before(history)) if is_gap]
    assert history[place].from_us == 100_000 * SECOND
    assert history[place - 1].until_us == before[-1].until_us


def test_a_query_with_a_long_interval_has_no_gaps_but_its_outage() -> None:
    hourly = [batch(n, n * 3600) for n in range(10)]
    late = [batch(10 + n, (n + 30) * 3600) for n in range(10)]
    assert gaps_before(hourly) == [False] * 10
    assert [n for n, gap in enumerate(gaps_before(hourly + late)) if gap] == [10]


def test_each_batch_after_an_outage_still_fits() -> None:
    """All of them are behind gaps: they are joined all the same."""
    history: list[Stretch] = []
    for number in range(3000):
        history = bounded([*history, batch(number, number * 100 + number**2 * 10_000)])
    assert len(history) <= STRETCHES_MAX
    assert sum(s.batches for s in history) == 3000


def test_the_largest_file_is_within_its_bound() -> None:
    largest = Stretch(*[HUGE] * 11)
    assert len(encode([largest] * STRETCHES_MAX)) <= FILE_BYTES_MAX


def _document(**changes: Any) -> bytes:
    return json.dumps({**json.loads(encode([batch(0, 0)])), **changes}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"\xff", b"[" * 100_000,
        _document(format="other"), _document(version=2), _document(columns=["rows"]),
        _document(stretches=None), _document(stretches=[[]]),
        _document(stretches=[[0, 1, 0, 1, 1, 1, 1.5, 0, 0, 0, 0]]),
        _document(stretches=[[0, 1, 0, 1, 1, 1, True, 0, 0, 0, 0]]),
        _document(stretches=[[0, 1, None, 1, 1, 1, 1, 0, 0, 0, 0]]),
        _document(stretches=[[2, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0]]),
        _document(stretches=[[0, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0]]),
        _document(stretches=[[0, 2**63, 0, 1, 1, 1, 1, 0, 0, 0, 0]]),
        _document(stretches=[[0, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0]] * 1025),
    ],
)  # fmt: skip
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises((ValueError, RecursionError)):
        decode(data)
