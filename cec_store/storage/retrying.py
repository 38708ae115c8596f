"""Trying again what fails while another process holds a lock for a short time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

_POLL_S = 0.01
_Taken = TypeVar("_Taken")


def retry_while_busy(take: Callable[[], _Taken], busy: type[Exception], wait_s: float) -> _Taken:
    """What ``take`` returns, called until it does not raise ``busy``.

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
