"""Costs of a restart, with the present target Q and with others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from cec_store.errors import CecError
from cec_store.inspector.measuring.crash_costs import LoadRates, restart_cost
from cec_store.inspector.measuring.extent_history import WhatIf
from cec_store.inspector.measuring.extents import reader_at
from cec_store.inspector.measuring.what_if import TargetOutcome, outcomes_of, simulate, together
from cec_store.report.facts import LogFacts

Document = dict[str, Any]
_FACTORS = tuple(np.geomspace(1.1, 32, 18).round(3).tolist())
"""RecoveryCurves to try, in open windows where there were most."""
_SIMULATED_BYTES_MAX = 64 << 20
_SIMULATED_LOGS_MAX = 32
"""More logs, or longer ones, are not gone through: that would take longer than all the rest."""


def restart_of(logs: Sequence[LogFacts], rates: LoadRates, cores: int) -> Document | None:
    """Return the seconds of a restart; ``None`` where no log has a state that can be read."""
    loads = [load for facts in logs if (load := facts.restart_load) is not None]
    if not loads:
        return None
    rows = sum(load.replay_rows for load in loads)
    return {**asdict(restart_cost(loads, rates, cores)), "replay_rows": rows}


class RecoveryCurves:
    """Costs of other targets for some logs together; each log is read once."""

    def __init__(self, rates: LoadRates, cores: int) -> None:
        self._rates = rates
        self._cores = cores
        self._known: dict[str, tuple[TargetOutcome, ...]] = {}

    def curve(self, logs: Sequence[LogFacts]) -> Document | None:
        """Over Q: the time of a load, and CHECKs for each other record."""
        logs = [f for f in logs if f.footprints is not None and f.open_windows]
        if not logs:
            return None
        now = sum(facts.extent_records for facts in logs)
        curve = self._simulated(logs) or self._modelled(logs)
        q = curve["extent_records"]
        loads = [facts.load for facts in logs if facts.load is not None]

        def load_s(records: int) -> float:
            scaled = [load.scaled(records / max(1, now)) for load in loads]
            return restart_cost(scaled, self._rates, self._cores).load_s

        return {
            **curve,
            "load_s": [load_s(records) for records in q],
            "now": now,
            "open_windows": sum(facts.open_windows for facts in logs),
        }

    def _simulated(self, logs: Sequence[LogFacts]) -> Document | None:
        """Return the costs of other CHECKs, simulated on what was recorded.

        ``None`` where the logs are too large or too many, or cannot be simulated.
        """
        size = sum(facts.history.bytes for facts in logs)
        if size > _SIMULATED_BYTES_MAX or len(logs) > _SIMULATED_LOGS_MAX:
            return None
        try:
            recorded, *tried = together([self._outcomes(facts) for facts in logs])
        except (CecError, ValueError):
            return None  # forgotten, or too much trimmed: nothing to begin with
        return {
            "is_simulated": True,
            "extent_target": [sum(_target(f, factor) for f in logs) for factor in _FACTORS],
            "extent_records": [outcome.extent_max for outcome in tried],
            "checks_per_record": [outcome.check_overhead for outcome in tried],
            "recorded_checks_per_record": recorded.check_overhead,
        }

    def _outcomes(self, facts: LogFacts) -> tuple[TargetOutcome, ...]:
        path = facts.log.folder.path
        if path not in self._known:
            targets = [WhatIf(extent_records=_target(facts, factor)) for factor in _FACTORS]
            self._known[path] = outcomes_of(
                simulate(*reader_at(facts.log.folder, facts.at), targets)
            )
        return self._known[path]

    @staticmethod
    def _modelled(logs: Sequence[LogFacts]) -> Document:
        """Between two CHECKs of a window the log advances by Q − N records.

        So each record brings N ÷ (Q − N) CHECKs; see :mod:`cec_store.checkpoints.policy`.
        """
        windows = sum(facts.windows_max for facts in logs)
        q = [sum(_target(facts, factor) for facts in logs) for factor in _FACTORS]
        return {
            "is_simulated": False,
            "extent_target": q,
            "extent_records": q,
            "checks_per_record": [windows / max(1, target - windows) for target in q],
            "recorded_checks_per_record": None,
        }


def _target(facts: LogFacts, factor: float) -> int:
    return max(facts.windows_max + 1, round(facts.windows_max * factor))
