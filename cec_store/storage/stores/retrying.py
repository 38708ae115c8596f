"""Number of attempts at a call of a remote store, and the pauses between them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Retries:
    """Number of attempts at a call whose failure may pass, and the pauses between them.

    The pauses double, and half of each is drawn at random. s3fs is told to ask the server once in
    each attempt; gcsfs and Azure's client try again by themselves.
    """

    attempts: int = 8
    """Calls in all, at least one. With the pauses below they take about ten seconds."""
    first_pause_s: float = 0.1
    pause_s_max: float = 5.0
    last_start_s: float = 120.0
    """No attempt begins later than this after the first: each may wait for a minute itself."""

    def __post_init__(self) -> None:
        if self.attempts < 1 or min(self.first_pause_s, self.pause_s_max, self.last_start_s) < 0:
            raise ValueError(f"at least one attempt, and no negative times: {self}")

    def turns(self) -> Iterator[int]:
        """The numbers of the attempts, from 1, with the pauses between them."""
        began_s = time.monotonic()
        for number in range(1, self.attempts + 1):
            yield number
            # Half of it at random, so that writers who were refused together come back apart.
            pause_s = min(self.pause_s_max, self.first_pause_s * 2 ** (number - 1))
            pause_s *= random.uniform(0.5, 1)
            late = time.monotonic() + pause_s - began_s > self.last_start_s
            if number == self.attempts or late:
                return
            time.sleep(pause_s)
