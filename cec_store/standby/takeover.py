"""Results of a takeover: a runner that continues, and a report of what was done."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from cec_store.errors import Fenced
from cec_store.operators.inputs.sources import consumers_of
from cec_store.operators.recovery import Recovery
from cec_store.operators.runner import Runner
from cec_store.queues.output_queue import OutputQueue
from cec_store.standby.lease import Lease
from cec_store.standby.schemes import Scheme


@dataclass(frozen=True)
class SkippedInput:
    """Input that no output reflects: offsets ``[first, end)`` of one input."""

    source: int
    first: int
    end: int


@dataclass(frozen=True)
class TakeoverReport:
    """Actions of a takeover, and the seconds that each part of it took."""

    scheme: Scheme
    check_s: float
    """Looking whether it can be done, before anything was touched."""
    fence_s: float
    """Seconds until the primary could acknowledge nothing more."""
    complete_s: float
    """Seconds from then on until the operator stood where the log ends."""
    frames_read: int
    """Frames of the log that were read at the takeover."""
    replayed_rows: int
    """Input rows that were taken again at the takeover."""
    dropped_rows: int
    """Output that was made here, and that the log had already; of a shadow ever since it began."""
    appended_rows: int
    """Output that was held back, and that the log lacked."""
    skipped: tuple[SkippedInput, ...] = ()
    """Input that amnesia skipped; empty in other schemes."""

    @property
    def takeover_s(self) -> float:
        """Seconds of the whole takeover: check, fence and complete."""
        return self.check_s + self.fence_s + self.complete_s


def report_of(
    scheme: Scheme, recovery: Recovery | None, *, check_s: float, fence_s: float, complete_s: float
) -> TakeoverReport:
    """Return the report of a takeover; without a recovery there was no state to continue from."""
    skipped: tuple[SkippedInput, ...] = ()
    if scheme is Scheme.AMNESIA and recovery is not None:
        ends = zip(recovery.replay_from, recovery.replay_upto, strict=True)
        skipped = tuple(SkippedInput(n, *bounds) for n, bounds in enumerate(ends))
    return TakeoverReport(
        scheme=scheme,
        check_s=check_s,
        fence_s=fence_s,
        complete_s=complete_s,
        frames_read=0 if recovery is None else recovery.extent.frames,
        replayed_rows=0 if recovery is None else recovery.replayed_rows,
        dropped_rows=0 if recovery is None else recovery.dropped_rows,
        appended_rows=0 if recovery is None else recovery.appended_rows,
        skipped=skipped,
    )


@dataclass(frozen=True)
class Takeover:
    """The runner in the primary's place. Close the queue when done with it.

    Examples:
        >>> with Standby("averages", averages, [source]) as standby:
        ...     taken = standby.take_over()
        >>> taken.runner.run()
        >>> taken.queue.close()
        >>> taken.report.scheme
        <Scheme.PASSIVE: 'passive standby'>
    """

    runner: Runner
    queue: OutputQueue
    report: TakeoverReport
    lease: Lease | None = None
    """Lease of a standby that watched for the primary's; it is kept alive until it is released."""

    def close(self) -> None:
        """Close the inputs' consumers and the queue; the lease is kept.

        Raises:
            Fenced: another process has taken over; all is closed.
        """
        for consumer in filter(None, consumers_of(self.runner.sources)):
            with suppress(Fenced):
                consumer.close()
        self.queue.close()
