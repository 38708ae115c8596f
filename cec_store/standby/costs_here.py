"""Costs and recovery times of each scheme with this product, in closed form.

The paper's protocols send messages between nodes (:mod:`.costs`). Here there is a log instead: all
output is in it before anybody is shown it, a standby reads it, inputs are queues that the new
primary reads again, and a takeover fences the log. Nothing is sent to other nodes and nothing is
ever put out twice. The query's own work is in none of the costs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cec_store.standby.costs import (
    FRAME_BYTES,
    LogCost,
    Query,
    advance_of,
    log_cost,
    messages_per_s,
    state_tuples,
)
from cec_store.standby.schemes import Scheme, System

FENCE_S = 0.04
"""Seconds of fencing in a takeover on a local disk, its syncs; bench/micro/standby.py has it."""
CATCH_UP_SHARE = 0.1
"""A passive standby takes the input along at this share of what the primary does for it."""


@dataclass(frozen=True)
class CostHere:
    """One scheme's."""

    scheme: Scheme
    outage_s: float
    """Seconds from the failure until the state is what it was, or lost input has passed."""
    log_bytes_per_s: float
    """The primary's log, output included."""
    read_bytes_per_s: float
    """Bytes of the log and the inputs that the standby reads per second, while nothing fails."""
    processor_share: float
    """Share of one processor, summed over both nodes."""
    memory_bytes: float
    """Bytes of memory at the standby."""
    disk_bytes: float
    """Bytes of the log and the inputs that are kept for a takeover."""
    lost_rows: float
    held_s: float
    """Seconds that an output waits until it is durable, with no failure."""

    def bandwidth_share(self, system: System) -> float:
        """Bytes written and read, over those of the input."""
        return (self.log_bytes_per_s + self.read_bytes_per_s) / system.input_bytes_per_s

    def fits(self, recovery_time_s: float, *, may_lose: bool) -> bool:
        """Return True if it is back within so many seconds, and loses nothing unless it may."""
        return self.outage_s <= recovery_time_s and (may_lose or not self.lost_rows)


def costs_here(
    system: System, query: Query, *, extent_factor: float = 2.0
) -> dict[Scheme, CostHere]:
    """Return the cost of each scheme.

    Raises:
        ValueError: as in :func:`.costs.costs`.
    """
    log = log_cost(system, query, extent_factor)
    made = _Costs(system, query, log)
    all_costs = (made.amnesia(), made.passive(), made.upstream(), made.active(), made.eventual())
    return {cost.scheme: cost for cost in all_costs}


def cheapest(
    offers: Iterable[CostHere], system: System, recovery_time_s: float, *, may_lose: bool = False
) -> CostHere | None:
    """Return the fitting scheme of least bandwidth plus processor, as shares, or ``None``."""
    fit = [cost for cost in offers if cost.fits(recovery_time_s, may_lose=may_lose)]
    return min(
        fit,
        key=lambda cost: (cost.bandwidth_share(system) + cost.processor_share, cost.outage_s),
        default=None,
    )


class _Costs:
    def __init__(self, system: System, query: Query, log: LogCost) -> None:
        self._system, self._query, self._log = system, query, log
        frames_per_s = FRAME_BYTES * messages_per_s(system)
        self._bare_bytes_per_s = query.results_per_s * query.footprint_bytes + frames_per_s
        """A log of output alone."""
        self._log_bytes_per_s = log.records_per_s * query.footprint_bytes + frames_per_s
        self._footprints_share = (log.records_per_s - query.results_per_s) * system.window_tuple_s
        self._follow_share = log.records_per_s * system.window_tuple_s
        self._since = system.tuples_per_s * system.interval_s / 2
        """Input rows that the log does not reflect yet."""

    def _cost(
        self, scheme: Scheme, recovery_s: float, *, is_bare: bool = False, read: float = 0.0,
        processor: float = 0.0, memory: float = 0.0, disk: float = 0.0, lost: float = 0.0,
    ) -> CostHere:  # fmt: skip
        system = self._system
        written = self._bare_bytes_per_s if is_bare else self._log_bytes_per_s
        frame_bytes = written * system.interval_s
        return CostHere(
            scheme=scheme,
            outage_s=system.detection_s + FENCE_S + recovery_s,
            log_bytes_per_s=written,
            read_bytes_per_s=read,
            processor_share=processor + (0.0 if is_bare else self._footprints_share),
            memory_bytes=memory,
            disk_bytes=disk,
            lost_rows=lost,
            held_s=system.interval_s / 2 + 8 * frame_bytes / system.bits_per_s + system.delay_s,
        )

    def amnesia(self) -> CostHere:
        """An empty operator at the live end of the inputs."""
        away = self._system.tuples_per_s * (self._system.detection_s + FENCE_S) + self._since
        lost = away + state_tuples(self._system, self._query)
        return self._cost(Scheme.AMNESIA, 0.0, is_bare=True, lost=lost)

    def passive(self) -> CostHere:
        """The state is there as of the log's end; what came since is taken again."""
        system, query = self._system, self._query
        load = system.tuples_per_s * query.tuple_s
        return self._cost(
            Scheme.PASSIVE,
            self._since * (system.tuple_s + query.tuple_s),
            read=self._log_bytes_per_s + system.input_bytes_per_s,
            processor=self._follow_share + CATCH_UP_SHARE * load,
            memory=query.open_windows * query.footprint_bytes,
            disk=self._kept_bytes,
        )

    def upstream(self) -> CostHere:
        """An empty operator takes the input of all open windows again, and what came since."""
        system, query = self._system, self._query
        state = system.tuples_per_s * query.window_s
        since = system.tuples_per_s * (system.interval_s + advance_of(query) / 2)
        rows = state + since
        return self._cost(
            Scheme.UPSTREAM,
            rows * system.tuple_s + (state / 2 + since) * query.tuple_s,
            is_bare=True,
            disk=rows * system.tuple_bytes,
        )

    def active(self) -> CostHere:
        """All is done twice; at a takeover the output of an interval is appended."""
        system, query = self._system, self._query
        held = query.results_per_s * system.interval_s
        return self._cost(
            Scheme.ACTIVE,
            held * 8 * query.footprint_bytes / system.bits_per_s,
            read=self._log_bytes_per_s + system.input_bytes_per_s,
            processor=self._follow_share + system.tuples_per_s * query.tuple_s,
            memory=(query.open_windows + held) * query.footprint_bytes,
            disk=self._kept_bytes,
        )

    def eventual(self) -> CostHere:
        """The log's extent is read, and input taken again from its oldest footprint on."""
        system, query, log = self._system, self._query, self._log
        again_s = log.rows_again * system.tuple_s + log.rows_into_windows * query.tuple_s
        return self._cost(Scheme.EVENTUAL, log.read_s + again_s, disk=self._kept_bytes)

    @property
    def _kept_bytes(self) -> float:
        extent_bytes = self._log.extent_records * self._query.footprint_bytes
        return extent_bytes + self._log.rows_again * self._system.tuple_bytes
