"""Wait of a failed query before it is started again, while the others go on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cec_store.connectors.spark.fleet.rules import Rules

_DOUBLINGS_MAX = 40
_TEXT_MAX = 2000


@dataclass(frozen=True)
class Failures:
    """Failures of one query since its last finished batch; times are wall clock, in seconds."""

    count: int = 0
    until_s: float = 0.0
    """Moment before which it is not started again."""
    reason: str = ""

    def after(self, reason: str, now_s: float, rules: Rules) -> Failures:
        """Return the failures with one more."""
        failures = Failures(self.count + 1, 0.0, reason[:_TEXT_MAX])
        return replace(failures, until_s=now_s + failures.wait_s(rules))

    def wait_s(self, rules: Rules) -> float:
        """Return the seconds to wait after the last failure; 0 where there was none."""
        if not self.count:
            return 0.0
        doublings = min(self.count - 1, _DOUBLINGS_MAX)
        return min(rules.wait_first_s * 2.0**doublings, rules.wait_most_s)

    def may_start(self, now_s: float, rules: Rules) -> bool:
        """A clock that was set back makes nobody wait for longer than the longest wait."""
        return now_s >= self.until_s or self.until_s - now_s > rules.wait_most_s

    def forgiven(self) -> Failures:
        """Return no failures, as when a batch of it is done."""
        return replace(self, count=0, until_s=0.0) if self.count else self
