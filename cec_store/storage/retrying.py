"""Trying again what another process keeps from succeeding for a short time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

_LOOKS = 4
_POLL_S = 0.01
_Found = TypeVar("_Found")


def retry_while_busy(take: Callable[[], _Found], busy: type[Exception], wait_s: float) -> _Found:
    """Return the result of ``take``, which is called again while it raises ``busy``.

    The error is raised once ``wait_s`` seconds have passed.
    """
    until_s = time.monotonic() + wait_s
    while True:
        try:
            return take()
        except busy:
            if time.monotonic() > until_s:
                raise
            time.sleep(_POLL_S)


def retry_when_changed(
    look: Callable[[], _Found],
    missed: type[Exception] | tuple[type[Exception], ...],
    has_changed: Callable[[], bool] = lambda: True,
) -> _Found:
    """Return the result of ``look``, called again at once where it raises ``missed``.

    ``look`` reads files that a writer may change meanwhile. The error is raised by the fourth call,
    or as soon as ``has_changed`` returns False, because then another call would fail alike.
    """
    for _ in range(_LOOKS - 1):
        try:
            return look()
        except missed:
            if not has_changed():
                raise
    return look()
