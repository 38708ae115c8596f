"""What Spark wrote into a checkpoint: it is as it should be, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from cec_store.errors import CorruptLog

_ADVICE = "the file is Spark's own: restore it from a copy"
Parsed = TypeVar("Parsed")


def parsed(path: str, data: bytes, parse: Callable[[], Parsed], byte: int = 0) -> Parsed:
    """What ``parse`` makes of ``data``, of which it begins with ``byte``.

    Raises:
        CorruptLog: it makes nothing of it.
    """
    try:
        return parse()
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        what = "the file ends too early" if len(data) <= byte else f"not what Spark writes: {error}"
        raise damaged(path, byte, what) from error


def damaged(path: str, byte: int, reason: str) -> CorruptLog:
    """The error for a file of Spark's."""
    return CorruptLog(path, byte, reason, _ADVICE)


def json_object(value: Any) -> dict[str, Any]:
    """Raises ``TypeError`` for anything else."""
    if not isinstance(value, dict):
        raise TypeError(f"{str(value)[:40]!r} is no JSON object")
    return value


def whole_number(value: Any) -> int:
    """Raises ``TypeError`` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{str(value)[:40]!r} is no number of milliseconds")
    return value


def lists_of_texts(value: Any) -> list[list[str]]:
    """Raises ``TypeError`` for anything else."""
    if not isinstance(value, list) or not all(
        isinstance(stores, list) and all(isinstance(each, str) for each in stores)
        for stores in value
    ):
        raise TypeError("the unique ids of an operator are not lists of texts")
    return value
