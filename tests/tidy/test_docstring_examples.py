"""Public names have an example in their docstring, and it does what it prints."""

import doctest
import importlib
import inspect
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cec_store
from cec_store import operators
from cec_store.connectors import spark as connector
from cec_store.errors import CecError
from cec_store.operators import Aggregate, ArrowSource, CountWindow, Operator, Runner, record_schema
from support.places.made_checkpoints import KEY, VALUE, MadeCheckpoint

# What has none: steps and effects are made by a runner and an operator, never by their users.
INNER = {"Step", "Effects"}
BIDS = pa.table(
    {
        "item": [1, 2, 1, 1],
        "price": [10, 7, 20, 30],
        "at": pa.array([1, 2, 3, 4], pa.timestamp("us")),
    }
)


def names() -> dict[str, Any]:
    """Of `cec_store` without its errors, which have a page of their own, and of its operators."""
    found = {name: getattr(cec_store, name) for name in cec_store.__all__ if name[0] != "_"}
    found |= {name: getattr(operators, name) for name in operators.__all__}
    return {
        name: value
        for name, value in found.items()
        if not (inspect.isclass(value) and issubclass(value, CecError)) and name not in INNER
    }


def averages() -> Aggregate:
    """Of each item's last two prices."""
    return Aggregate(
        group_by=["item"],
        aggregates={"mean": ("avg", "price")},
        window=CountWindow(2),
        input_schema=BIDS.schema,
    )


def output_of(operator: Operator) -> list[dict[str, Any]]:
    """Of the bids."""
    with cec_store.open_queue("output", "x", schema=record_schema(operator)) as queue:
        Runner(operator, [ArrowSource(BIDS, "at")] * operator.inputs, queue).run()
        found: list[dict[str, Any]] = queue.replay().read_all().to_pylist()
        return found


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the examples speak of, as docs/reference/python.md says."""
    monkeypatch.chdir(tmp_path)
    Path("queues").mkdir()
    rows = pa.table({"item": ["a", "b", "a"], "price": [10, 7, 20]})
    with cec_store.open_queue("queues/trades", "x", schema=rows.schema) as queue:
        noon_us = 1_767_268_800_000_000
        queue.append(rows, pa.array([noon_us + 60_000_000 * n for n in range(3)]), sync=True)
    with cec_store.open_queue("averages", "x", schema=record_schema(averages())) as queue:
        Runner(averages(), [ArrowSource(BIDS, "at")], queue).run()
    made = MadeCheckpoint(tmp_path / "checkpoint", KEY, VALUE, partitions=1)
    for batch in range(3):
        made.batch({("ann", 1): (batch + 1, "home")})
    made.close()
    return {
        **vars(operators), **names(), "pa": pa, "datetime": datetime, "timedelta": timedelta,
        "bids": BIDS, "source": ArrowSource(BIDS, "at"), "averages": averages,
        "output_of": output_of,
    }  # fmt: skip


def example_of(name: str, value: Any, given: dict[str, Any]) -> doctest.DocTest:
    test = doctest.DocTestParser().get_doctest(
        inspect.getdoc(value) or "", given, name, inspect.getsourcefile(value), 0
    )
    assert test.examples, f"{name} has no example"
    return test


def check(test: doctest.DocTest) -> None:
    said: list[str] = []
    doctest.DocTestRunner().run(test, out=said.append, clear_globs=False)
    assert not said, "".join(said)


@pytest.mark.parametrize("name", sorted(names()))
def test_example(name: str, given: dict[str, Any]) -> None:
    check(example_of(name, names()[name], given))


def test_an_example_that_prints_something_else_fails(given: dict[str, Any]) -> None:
    def wrong() -> None:
        """>>> 1 + 1
        3
        """

    with pytest.raises(AssertionError, match="Expected"):
        check(example_of("wrong", wrong, given))


def test_names_are_found() -> None:
    assert len(names()) > 50
    assert importlib.import_module("cec_store.connectors.spark") is connector
