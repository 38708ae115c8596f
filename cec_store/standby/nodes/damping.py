"""Age of the last failover, by the store's one clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from cec_store.standby.lease_format import Cause
from cec_store.standby.lease_objects import LeaseObjects


class LastFailover:
    """Age of the last failover of a lease, asked for once for each tenure. For one thread.

    What has passed since it was asked for is added by this process' own clock, which is not set.
    """

    def __init__(self, objects: LeaseObjects, clock: Callable[[], float] = time.monotonic) -> None:
        self._objects = objects
        self._clock = clock
        self._asked: tuple[int, float, float] | None = None

    def age_s(self, tenure: int) -> float:
        """Return the seconds since the last failover up to this tenure; infinite without one.

        Only the tenures that are kept are looked at: eight that followed it make it forgotten.

        Raises:
            StorageError, CorruptLog: the place cannot be read.
        """
        if self._asked is None or self._asked[0] != tenure:
            self._asked = tenure, self._age_s(), self._clock()
        _, age_s, asked_s = self._asked
        return age_s + self._clock() - asked_s

    def _age_s(self) -> float:
        for tenure in self._objects.kept_tenures():
            if tenure.cause is Cause.FAILOVER:
                age_us = self._objects.age_us(tenure.number)
                return math.inf if age_us is None else age_us / 1e6
        return math.inf
