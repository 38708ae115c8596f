"""The functions of queries that are named by where they are."""

from __future__ import annotations

from functools import reduce
from importlib import import_module
from typing import Any

from cec_store.connectors.spark.fleet.declaration import Function, Query
from cec_store.errors import BadFleet


def function_of(query: Query) -> Function:
    """What the query calls.

    Raises:
        BadFleet: there is no such module, nothing of that name in it, or it is no function.
    """
    if not isinstance(query.function, str):
        return query.function
    module, _, name = query.function.partition(":")
    try:
        found: Any = reduce(getattr, name.split("."), import_module(module))
    except (ImportError, AttributeError) as error:
        raise BadFleet(f"{query.name}: no function {query.function}: {error}") from error
    if not callable(found):
        raise BadFleet(f"{query.name}: {query.function} is no function, but {found!r}")
    function: Function = found
    return function
