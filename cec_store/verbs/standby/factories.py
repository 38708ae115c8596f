"""Products of functions of the user's that a verb is given by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from importlib import import_module
from typing import Any, TypeVar

from cec_store.errors import CecError
from cec_store.verbs.working_folder import look_in_working_folder

Product = TypeVar("Product")


def product_of(name: str, make: Callable[[Any], Product], told: str = "") -> Product:
    """Return what ``make`` gives for the function that ``module:function`` names.

    The working folder is looked into first, as with `python -m`, and stays there: the function may
    import what it needs once it is called, and so may what it returns.

    Args:
        told: what stands before the name in errors, as an option does.

    Raises:
        ValueError: there is no such function, or it fails.
    """
    module, _, function = name.partition(":")
    look_in_working_folder()
    try:
        factory: Any = reduce(getattr, function.split("."), import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{told}{name}: no such function: {error}") from error
    except Exception as error:
        raise ValueError(f"{told}{name}: {_failed(error)}") from error
    try:
        return make(factory)
    except CecError:
        raise
    except Exception as error:
        raise ValueError(f"{told}{name}: {_failed(error)}") from error


def _failed(error: Exception) -> str:
    return f"it fails: {type(error).__name__}: {error}"
