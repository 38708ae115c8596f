"""Costs of loading, replaying and checking, as measured while running."""

from __future__ import annotations

from dataclasses import dataclass

_MEMORY = 0.8
"""Share of an average that a new observation leaves."""


@dataclass
class Rates:
    """Measured costs, as running averages in seconds; the defaults are for a slow laptop.

    The operator's thread alone writes and reads them, so there is no lock: recovery observes the
    load, the runner each step, the checkpointer its CHECKs, and policies read them to plan.
    """

    load_s_per_record: float = 2e-6
    replay_s_per_row: float = 5e-7
    check_s_per_record: float = 5e-7
    fixed_s: float = 0.05
    """Seconds of a recovery before the first record: opening files, reading the tail."""
    output_records_per_s: float = 1e5
    """Records other than CHECK that the operator appends."""
    input_rows_per_output: float = 1.0
    checks_seen: float = 1000.0
    """Number of CHECKs that the average of their costs stands for."""

    def observe_load(self, records: int, seconds: float) -> None:
        """A rebuild took this long. The first load measured replaces the guess."""
        if records >= 1000:
            self.load_s_per_record = seconds / records

    def observe_step(self, rows: int, outputs: int, seconds: float) -> None:
        """The operator took ``rows`` of input and made ``outputs`` records in ``seconds``."""
        if rows and seconds > 0:
            self.replay_s_per_row = _blend(self.replay_s_per_row, seconds / rows)
            self.output_records_per_s = _blend(self.output_records_per_s, outputs / seconds)
        if rows and outputs:
            self.input_rows_per_output = _blend(self.input_rows_per_output, rows / outputs)

    def observe_checks(self, checks: int, seconds: float) -> None:
        """Writing ``checks`` CHECK records took ``seconds`` of the operator's time.

        Averaged by their number: a handful of them says more of what a frame costs.
        """
        seen = _MEMORY * self.checks_seen
        self.checks_seen = seen + checks
        self.check_s_per_record = (seen * self.check_s_per_record + seconds) / self.checks_seen


def _blend(old: float, new: float) -> float:
    return _MEMORY * old + (1 - _MEMORY) * new
