"""Functions of a fleet's queries, given as such or by their places."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import reduce
from importlib import import_module, invalidate_caches
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isclass, ismethod
from types import CodeType, ModuleType
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
        return _member(owner, function, import_module(module), name)
    except ImportError as error:
        raise BadFleet(f"{owner}: no function {function}: {error}") from error


def _member(owner: str, place: str, module: ModuleType, name: str) -> Function:
    try:
        attribute: Any = reduce(getattr, name.split("."), module)
    except AttributeError as error:
        raise BadFleet(f"{owner}: no function {place}: {error}") from error
    if not callable(attribute):
        raise BadFleet(f"{owner}: {place} is no function, but {attribute!r}")
    function: Function = attribute
    return function


class _AsWritten(SourceFileLoader):
    """Compiles the file as it is now: a cache goes by its size and the second of its change."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


def read_anew(owner: str, *functions: Function | str) -> tuple[Function, ...]:
    """Return functions from the files of their modules as they are now.

    The modules take the place of those that were imported, if all of them can be read. Functions
    that were imported before stay as they are.

    Raises:
        BadFleet: a function has no place, its module no file, or that cannot be read. Nothing has
            changed.
    """
    places = [_place(owner, function) for function in functions]
    invalidate_caches()
    modules = {name: _read(owner, name) for name in {place.partition(":")[0] for place in places}}
    members = []
    for place in places:
        module, _, name = place.partition(":")
        members.append(_member(owner, place, modules[module], name))
    for module_name, read_module in modules.items():
        sys.modules[module_name] = read_module
        package, _, last = module_name.rpartition(".")
        if package in sys.modules:
            setattr(sys.modules[package], last, read_module)
    return tuple(members)


def _place(owner: str, function: Function | str) -> str:
    place = place_of(function)
    if place is None:
        raise BadFleet(
            f"{owner}: a function that only the driver's process knows cannot be read anew; "
            'declare it as "module:name", or take a new driver'
        )
    return place


def _read(owner: str, name: str) -> ModuleType:
    """Return a module of what its file has now, under its name and not yet in its place."""
    try:
        path = getattr(import_module(name), "__file__", None)
        if not path or not path.endswith(".py"):
            raise ImportError(f"{name} has no file of Python text")
        spec = spec_from_file_location(name, path, loader=_AsWritten(name, path))
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    except Exception as error:  # whatever new code may raise
        raise BadFleet(f"{owner}: {name} cannot be read anew: {error!r}") from error
    return module
