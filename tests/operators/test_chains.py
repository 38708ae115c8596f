"""Source, operator, queue, operator, queue: each forgets what is saved, and none misses it."""

from __future__ import annotations

import random

import pytest

from cec_store import Targets
from support.crashes.acknowledged_chains import OPERATORS, Chain

PAIRS = [
    ("count windows", "time windows"),
    ("time windows", "count windows that overlap"),
    ("join", "count windows"),
    ("filter", "join"),
    ("union", "time windows that overlap"),
    ("map", "union"),
    ("count windows that overlap", "filter"),
    ("time windows that overlap", "map"),
    ("filter of everything", "join"),
]
ROUNDS = 12


def test_the_pairs_have_every_operator() -> None:
    assert {first for first, _ in PAIRS} | {second for _, second in PAIRS} == set(OPERATORS)


@pytest.mark.crash
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_chain_that_crashes_anywhere_makes_what_one_that_never_crashed_makes(
    first: str, second: str, crash_count
) -> None:
    rng = random.Random(f"{first} {second}")
    whole = Chain(first, second, rng)
    whole.rounds(ROUNDS, trims=False)
    trimmed = 0
    for _ in range(crash_count(2, 30)):
        chain = Chain(first, second, rng)
        chain.run_with_crashes(ROUNDS, crashes=6)
        assert chain.output() == whole.output()
        trimmed += sum(chain.trimmed.values())
    assert trimmed > 500
    assert len(whole.taken) > 60 or first == "filter of everything"


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_the_queues_of_a_chain_stay_bounded(first: str, second: str) -> None:
    chain = Chain(first, second, random.Random(7))
    chain.policy = Targets(extent_factor=2.0, extent_floor=1, replay_rows=100)
    chain.rounds(10)
    early = dict(chain.segments_max)
    chain.rounds(40)
    late = chain.segments_max
    names = {"rows", "first", "second"}
    if "join" in (first, second) and first != "filter of everything":
        names.add("right")  # behind a filter of everything it waits for rows that never come
    for name in names:
        assert late[name] <= early[name] + 3 <= 16, f"{name}: {early} and then {late}"
