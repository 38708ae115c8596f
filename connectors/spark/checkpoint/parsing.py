"""Reads what Spark wrote into a checkpoint; whatever is not as it should be is a CorruptLog."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from cec_store.errors import CorruptLog, UnsupportedVersion, upgrade_needed
from cec_store.storage.folder import Folder

_ADVICE = "the file is Spark's own: restore it from a copy"
_VERSION = re.compile(r"v([1-9][0-9]{0,8})")
Parsed = TypeVar("Parsed")


def parsed(path: str, data: bytes, parse: Callable[[], Parsed], byte: int = 0) -> Parsed:
    """Return what ``parse`` returns; ``path``, ``data`` and ``byte`` place its failure in the file.

    Raises:
        CorruptLog: it fails.
    """
    try:
        return parse()
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        what = "the file ends too early" if len(data) <= byte else f"not what Spark writes: {error}"
        raise damaged(path, byte, what) from error


def read_whole(folder: Folder, name: str) -> tuple[str, bytes]:
    """Path and content of a file that must be there; raises :class:`CorruptLog` if it is not."""
    path = f"{folder.path}/{name}"
    try:
        return path, folder.read(name, 0, folder.size(name))
    except FileNotFoundError:
        raise damaged(path, 0, "the file is missing") from None


def known_version(path: str, text: str, newest: int, oldest: int = 1) -> int:
    """Return the number of a format that Spark calls `v1`, `v2`, ….

    Raises:
        CorruptLog: the text is no version, or one that Spark does not write there.
        UnsupportedVersion: the version is above ``newest``, the last one that this release reads.
    """
    match = _VERSION.fullmatch(text)
    if match is None:
        raise damaged(path, 0, f"it begins with {text[:20]!r}, which is no version")
    version = int(match[1])
    if version > newest:
        raise later_version(path, f"format v{version}", newest)
    if version < oldest:
        raise damaged(path, 0, f"format v{version}, and Spark writes v{oldest} or later here")
    return version


def later_version(path: str, what: str, newest: int) -> UnsupportedVersion:
    """The error for a file of Spark's that is sound, as far as this release can tell."""
    return upgrade_needed(path, f"{what}, newer than this release knows (v{newest})")


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
        isinstance(stores, list) and all(isinstance(unique_id, str) for unique_id in stores)
        for stores in value
    ):
        raise TypeError("the unique ids of an operator are not lists of texts")
    return value
