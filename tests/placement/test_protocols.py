"""What migrations cost by the model: Table 3, and the shapes of Figures 5 and 6."""

from dataclasses import replace

import pytest

from cec_store.placement import Group, Links, Protocol, cost

LINKS = Links()
GROUP = Group(state_bytes=25e6, replay_rows=4000, row_s=100e-6, rows_per_s=400, upstreams=20)


def latencies(protocol: Protocol) -> list[float]:
    rows = (0, 1000, 2000, 4000)
    return [cost(protocol, replace(GROUP, replay_rows=n), LINKS).latency_s for n in rows]


def test_the_latency_of_cpal_does_not_depend_on_the_replay() -> None:
    assert len(set(latencies(Protocol.CPAL))) == 1
    assert latencies(Protocol.CPAL)[0] < 2 * LINKS.queue_s


def test_the_latency_of_cpa_is_its_completion_and_grows_with_the_replay() -> None:
    found = cost(Protocol.CPA, GROUP, LINKS)
    assert found.latency_s == found.completion_s
    first, second, third, fourth = latencies(Protocol.CPA)
    assert second - first == pytest.approx(third - second) == pytest.approx((fourth - third) / 2)
    assert second - first == pytest.approx(1000 * (GROUP.row_s + 5 / LINKS.bytes_per_s))


def test_direct_depends_on_the_state_alone() -> None:
    assert len(set(latencies(Protocol.DIRECT))) == 1
    small = cost(Protocol.DIRECT, replace(GROUP, state_bytes=0), LINKS)
    assert small.latency_s == pytest.approx(2 * LINKS.message_s)
    assert cost(Protocol.DIRECT, GROUP, LINKS).latency_s > 1


def test_cpa_and_cpal_complete_in_similar_times() -> None:
    cpa, cpal = (cost(each, GROUP, LINKS) for each in (Protocol.CPA, Protocol.CPAL))
    assert cpa.completion_s < cpal.completion_s < 1.2 * cpa.completion_s


def test_rows_that_come_during_a_replay_lengthen_it() -> None:
    quiet = cost(Protocol.CPAL, replace(GROUP, rows_per_s=0), LINKS)
    busy = cost(Protocol.CPAL, replace(GROUP, rows_per_s=5000), LINKS)
    # Half of the time goes to rows that come meanwhile.
    assert busy.completion_s == pytest.approx(2 * quiet.completion_s, rel=0.05)


def test_numbers_that_nothing_has_are_refused() -> None:
    with pytest.raises(ValueError, match="bytes_per_s is 0"):
        Links(bytes_per_s=0)
    with pytest.raises(ValueError, match="queue_s is -1"):
        Links(queue_s=-1)
    with pytest.raises(ValueError, match="upstreams is 0"):
        replace(GROUP, upstreams=0)
    with pytest.raises(ValueError, match="no target catches up"):
        replace(GROUP, rows_per_s=10_000)
