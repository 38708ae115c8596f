"""Functions of a fleet's queries, given as such or by their places."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from importlib import import_module
from inspect import isclass, ismethod
from typing import Any

from cec_store.errors import BadFleet

Function = Callable[..., Any]
"""Function of a query: what it makes of DataFrames, or what it does with each batch."""
ELSEWHERE = "elsewhere:nowhere"
"""Name in place of a function that no other process can find."""
_PLACE = re.compile(r"[\w.]+:[\w.]+")


def check_function(owner: str, what: str, function: object) -> None:
    """Check that a value is a function or a place; ``owner`` is the name of its query.

    Raises:
        BadFleet: it is neither.
    """
    is_place = isinstance(function, str) and _PLACE.fullmatch(function) is not None
    if not callable(function) and not is_place:
        raise BadFleet(
            f'{owner}: {what} {function!r}; give a function, or where it is: "module:name"'
        )


def place_of(function: Function | str) -> str | None:
    """Return "module:name" of a function, for another process; ``None`` if it has none."""
    if isinstance(function, str):
        return function
    if ismethod(function) and not isclass(function.__self__):
        return None  # its object is this process's
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", "<none>")
    return f"{module}:{name}" if module not in (None, "__main__") and "<" not in name else None


def imported(owner: str, function: Function | str) -> Function:
    """Return the function itself, imported if it is named.

    Raises:
        BadFleet: there is no such module, nothing of that name in it, or it is no function.
    """
    if not isinstance(function, str):
        return function
    module, _, name = function.partition(":")
    try:
        attribute: Any = reduce(getattr, name.split("."), import_module(module))
    except (ImportError, AttributeError) as error:
        raise BadFleet(f"{owner}: no function {function}: {error}") from error
    if not callable(attribute):
        raise BadFleet(f"{owner}: {function} is no function, but {attribute!r}")
    imported_function: Function = attribute
    return imported_function
