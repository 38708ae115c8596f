"""An operator whose queue is in a store: after any crash it goes on as if there had been none."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from cec_store import QueueOptions, StoreUnreachable, Targets, open_queue, read_queue
from cec_store.errors import CecError
from cec_store.operators import Aggregate, ArrowSource, CountWindow, Runner, record_schema
from cec_store.storage.stores.fsspec_store import FsspecStore
from support.stores.copies import in_memory
from support.stores.needed import need

need("fsspec")
INPUT = pa.table(
    {
        "at": pa.array(range(0, 3_000_000, 1000), pa.timestamp("us", "UTC")),
        "key": [f"k{n * 7 % 23}" for n in range(3000)],
        "value": [n % 101 for n in range(3000)],
    }
)


def run(url: str) -> None:
    operator = Aggregate(
        group_by=["key"], aggregates={"total": ("sum", "value"), "rows": ("count",)},
        window=CountWindow(9), input_schema=INPUT.schema,
    )  # fmt: skip
    options = QueueOptions(sync="commit")  # an object a step
    with open_queue(url, "a", schema=record_schema(operator), options=options) as queue:
        source = ArrowSource(INPUT, "at")
        policy = Targets(extent_factor=2.0, extent_floor=1, replay_rows=300)
        Runner(operator, [source], queue, policy, step_rows_max=150).run()


@pytest.fixture(scope="module")
def expected() -> pa.Table:
    url = in_memory()
    run(url)
    return read_queue(url).read_all()


@pytest.mark.parametrize("seed", range(6))
def test_output_is_that_of_a_run_that_never_crashed(
    expected: pa.Table, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each life ends at some create, made or not made."""
    generator, url = random.Random(seed), in_memory()
    create = FsspecStore.create
    left = [0]

    def dying(self: FsspecStore, name: str, parts: Any) -> None:
        left[0] -= 1
        if left[0] == 0 and generator.random() < 0.5:
            raise StoreUnreachable(f"{name}: not made")
        create(self, name, parts)
        if left[0] == 0:
            raise StoreUnreachable(f"{name}: nobody can say")

    monkeypatch.setattr(FsspecStore, "create", dying)
    lives = 0
    while True:
        left[0] = generator.randrange(1, 12)
        lives += 1
        assert lives < 300
        try:
            run(url)
            break
        except CecError:
            continue
    monkeypatch.setattr(FsspecStore, "create", create)
    assert lives > 1
    assert read_queue(url).read_all() == expected
