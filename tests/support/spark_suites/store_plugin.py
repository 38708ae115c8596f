"""A pytest plugin: the classes of Spark's Python tests get our store, whichever one they name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cec_store.connectors import spark


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for suite in {item.cls for item in items if isinstance(item, pytest.Function) and item.cls}:
        suite.conf = classmethod(_with_ours(suite.conf))


def _with_ours(theirs: Callable[[], Any]) -> Callable[[type], Any]:
    def conf(suite: type) -> Any:
        del suite
        found = theirs()
        for name, value in spark.conf().items():
            found.set(name, value)
        return found

    return conf
