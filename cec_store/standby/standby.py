"""A node that is ready to replace an operator's runner in another process.

High-availability paper, 2.2 and 4 to 5, with the operator's log in place of messages between the
nodes: any process that can read the log and the inputs can take over. A takeover fences the log's
writer by the next epoch, so that a primary that was only slow can acknowledge nothing any more, and
anything that it still writes is never read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from cec_store.checkpoints.policy import Policy
from cec_store.errors import CecError, LeaseHeld, OutOfRange, StandbyRefused, StoreUnreachable
from cec_store.ledger.commit_chain import chain_at
from cec_store.log.chain import QueueChain
from cec_store.log.options import QueueOptions
from cec_store.log.reopening import check_schema
from cec_store.opening import open_queue
from cec_store.operators.contract import Operator, Source
from cec_store.operators.inputs.input_queues import checked_input_queues
from cec_store.operators.inputs.merge import BATCH_ROWS_MAX
from cec_store.operators.inputs.sources import consumers_of
from cec_store.operators.recovery import Recovering, recover
from cec_store.operators.runner import Runner, record_schema
from cec_store.queues.output_queue import OutputQueue
from cec_store.standby.followers.held_output import HeldOutput, HeldOutputLost
from cec_store.standby.followers.shadow import Shadow, ShadowDiffers
from cec_store.standby.followers.warm_state import WarmState
from cec_store.standby.leases import Lease, Leases, Sighting, Sign, Watch
from cec_store.standby.queue_input import QueueInput
from cec_store.standby.refusals import (
    made_by,
    needed_input,
    refuse_log,
    refuse_lost_input,
    refuse_operator,
    refuse_sources,
    scheme_of,
)
from cec_store.standby.schemes import Scheme
from cec_store.standby.skipping import skip
from cec_store.standby.takeover import Takeover, report_of
from cec_store.storage.caches import scratch_folder
from cec_store.storage.folder import Folder
from cec_store.storage.paths import AnyPath
from cec_store.storage.stores.folders import StorageOptions, folder_at

_log = logging.getLogger(__name__)
HELD_BYTES_MAX = 64 << 20
_STEPS_AT_ONCE = 2


class Standby:
    """Follows a primary, as its scheme has it, and takes over once. For one thread.

    Examples:
        >>> with Standby("averages", averages, [source]) as standby:
        ...     standby.take_over().queue.close()
    """

    def __init__(
        self,
        queue: AnyPath | Folder,
        operator: Callable[[], Operator],
        sources: Sequence[Source],
        scheme: Scheme | str = Scheme.PASSIVE,
        policy: Policy | None = None,
        *,
        options: QueueOptions | None = None,
        storage_options: StorageOptions | None = None,
        step_rows_max: int = BATCH_ROWS_MAX,
        acknowledge_interval_s: float = 1.0,
        replays_ahead: bool = True,
        held_bytes_max: int = HELD_BYTES_MAX,
        held_folder: AnyPath | None = None,
    ) -> None:
        """Stand by for the runner that writes ``queue``, a path or URL.

        ``operator`` makes a new operator each time it is called, as the primary's is. Inputs that
        the primary acknowledges are :class:`QueueInput`; all others :class:`Source` as they are.
        ``policy``, ``options``, ``step_rows_max`` and ``acknowledge_interval_s`` are those of the
        runner that will go on.

        Passive standby takes the inputs along, at a tenth of what the primary does for them: else
        (``replays_ahead=False``) a takeover takes them again from the oldest footprint on. Active
        standby holds ``held_bytes_max`` bytes of output in memory and what is more in a folder
        below ``held_folder``, by default the user's cache. Where that disk is full or fails, it
        continues as a passive standby, which needs no disk: :attr:`scheme` says so.

        Raises:
            StandbyRefused: no such scheme; or the operator or a source is not fit for it.
            NotAQueue: the primary has not made its queue yet.
            SchemaMismatch: another operator writes the queue.
            QueueReplaced: a source is another queue than the one that the primary reads.
            RecoveryError: the primary writes with, or without, checkpoints, and the scheme needs
                the other.
        """
        self.scheme = scheme_of(scheme)
        self._make = operator
        made = made_by(operator)
        refuse_operator(self.scheme, made)
        refuse_sources(self.scheme, made, sources)
        self.folder: Folder = folder_at(queue, storage_options)
        self._schema = record_schema(made)
        self._sources = sources
        self._policy = policy
        self._options = options
        self._step_rows_max = step_rows_max
        self._acknowledge_interval_s = acknowledge_interval_s
        self._replays_ahead = replays_ahead
        self._is_over = False
        chain = self._checked_chain()
        self._warm: WarmState | None = None
        self._shadow: Shadow | None = None
        if self.scheme is Scheme.PASSIVE:
            self._warm = self._warm_state(chain)
        if self.scheme is Scheme.ACTIVE:
            make_folder = partial(scratch_folder, chain.log_id, held_folder)
            held = HeldOutput(self._schema, held_bytes_max, make_folder)
            frame_bytes_max = (options or QueueOptions()).frame_bytes_max
            self._shadow = Shadow(operator, sources, chain, held, step_rows_max, frame_bytes_max)

    def _warm_state(self, chain: QueueChain) -> WarmState:
        return WarmState(self._make, self._sources, chain, self._step_rows_max, self._replays_ahead)

    def _checked_chain(self) -> QueueChain:
        chain = chain_at(self.folder)
        check_schema(self.folder, self._schema, chain.schema())
        refuse_log(self.scheme, chain)
        checked_input_queues(self.folder, self._sources)
        return chain

    def follow(self) -> int:
        """Take what is new, and return how much that was: frames of the log or rows of the input.

        Call it as often as is wanted, such as every 50 ms; schemes without a warm state have
        nothing to do here.

        Raises:
            RecoveryError: the primary has gone over to writing without checkpoints.
        """
        self._refuse_if_over()
        if self._shadow is not None:
            try:
                return self._shadow.follow(_STEPS_AT_ONCE)
            except HeldOutputLost as error:
                self._become_passive(error)
        return 0 if self._warm is None else self._warm.follow()

    def _become_passive(self, error: CecError) -> None:
        """Follow the log alone from here on: what was held back is lost, and can be made again."""
        _log.warning("%s: goes on as a passive standby: %s", self.folder.path, error)
        if self._shadow is not None:
            self._shadow.held.close()
        self._shadow, self.scheme = None, Scheme.PASSIVE
        self._warm = self._warm_state(chain_at(self.folder))

    def _refuse_if_over(self) -> None:
        if self._is_over:
            raise StandbyRefused(
                f"{self.folder.path}: this standby has taken over, or was closed; make a new one"
            )

    @property
    def is_over(self) -> bool:
        """True once it has taken over, or was closed."""
        return self._is_over

    @property
    def followed_offset(self) -> int | None:
        """Everything of the log below it was taken; ``None``: its scheme follows nothing."""
        follower = self._warm or self._shadow
        return None if follower is None else follower.followed_offset

    @property
    def log_end(self) -> int | None:
        """End of the log when it was last followed; ``None``: its scheme follows nothing."""
        follower = self._warm or self._shadow
        return None if follower is None else follower.log_end

    def take_over(self) -> Takeover:
        """Fence the primary, and go on in its place from what its log has.

        Raises:
            StandbyRefused: an input can no longer be read from where it is needed.
            QueueReplaced, RecoveryError: see above. With these three nothing has been fenced.
            Fenced: another standby took over at the same time.
            CorruptLog: the log is damaged.
        """
        began_s = time.perf_counter()
        self._check()
        return self._fence(began_s)

    def take_over_with(self, hold: Callable[[], Lease]) -> Takeover:
        """Take over under a lease, which ``hold`` takes once all is checked.

        The lease is kept (:attr:`Takeover.lease`), and given up where the takeover fails.

        Raises:
            LeaseHeld: another standby was quicker; this one can go on following.
            StandbyRefused, RecoveryError, CorruptLog, Fenced: as :meth:`take_over`.
        """
        self._refuse_if_over()
        began_s = time.perf_counter()
        self._check()
        lease = hold()
        try:
            return replace(self._fence(began_s, lease), lease=lease)
        except BaseException:
            lease.release()
            raise

    def _check(self) -> None:
        """Raise what can be refused while the primary is left alone."""
        self.follow()
        try:
            if self._shadow is not None:
                self._shadow.held.sync()
        except HeldOutputLost as error:
            self._become_passive(error)
            self.follow()
        chain = self._checked_chain()
        if self.scheme is not Scheme.AMNESIA:
            needed = needed_input(self.scheme, chain, self._sources, self._make)
            refuse_lost_input(self._sources, needed)

    def _opened(self) -> OutputQueue:
        return open_queue(
            self.folder, "a", schema=self._schema, options=self._options, takeover=True
        )

    def _fence(self, began_s: float, lease: Lease | None = None) -> Takeover:
        checked_s = time.perf_counter()
        if lease is not None:
            # Another standby may have taken the lease since, while this process was stopped.
            lease.check()
        queue = self._opened()
        fenced_s = time.perf_counter()
        self._is_over = True
        try:
            return self._complete(queue, (began_s, checked_s, fenced_s))
        except BaseException:
            queue.close()
            raise
        finally:
            self.close()

    def wait_and_take_over(
        self, leases: Leases, name: str = "primary", *, goes_on: Callable[[], bool] = lambda: True
    ) -> Takeover | None:
        """Follow for as long as the holder of the lease gives signs of life; then take over.

        The lease is this process' own from then on (:attr:`Takeover.lease`), before the primary is
        fenced: of several standbys one is first. ``goes_on`` is asked before each look; once it
        says no, ``None`` is returned, and the primary was left alone. A store that cannot be
        reached is asked again, unless the primary has been fenced already.

        Raises:
            StandbyRefused, RecoveryError, CorruptLog: as :meth:`take_over`.
            Fenced: another standby has taken the lease or the log from this one.
            StorageError: the lease cannot be kept. Unless the log was taken, nothing was fenced.
        """
        watch = leases.watch(name)
        try:
            while goes_on():
                try:
                    seen = watch.look()
                    if seen.sign in (Sign.SILENT, Sign.RELEASED):
                        return self._take_from(seen, leases, watch)
                    if self.follow():
                        continue
                except LeaseHeld:
                    watch.close()  # another standby was quicker, and is the primary now
                    continue
                except StoreUnreachable:  # a store that does not answer says nothing
                    if self._is_over:
                        raise
                time.sleep(watch.pause_s)
        finally:
            watch.close()
        return None

    def _take_from(self, seen: Sighting, leases: Leases, watch: Watch) -> Takeover:
        """Take over from the holder of the lease, who is silent or has let go of it."""
        _log.warning("%s: its primary %s is %s", self.folder.path, seen.holder, seen.sign.value)
        hold = partial(leases.hold, watch.name, keep_alive=watch.keep_alive, after=seen.tenure)
        return self.take_over_with(hold)

    def _complete(self, queue: OutputQueue, moments_s: tuple[float, float, float]) -> Takeover:
        began_s, checked_s, fenced_s = moments_s
        sources = [
            source.claimed() if isinstance(source, QueueInput) else source
            for source in self._sources
        ]
        try:
            try:
                runner = self._runner(queue, sources)
            except (HeldOutputLost, ShadowDiffers) as error:
                self._become_passive(error)
                with suppress(CecError):  # its writer was ended by a step that was left unfinished
                    queue.close()
                queue = self._opened()
                runner = self._runner(queue, sources)
            queue.sync()
        except BaseException:
            queue.close()
            for consumer in filter(None, consumers_of(sources)):
                consumer.close()
            raise
        report = report_of(
            self.scheme,
            runner.recovery,
            check_s=checked_s - began_s,
            fence_s=fenced_s - checked_s,
            complete_s=time.perf_counter() - fenced_s,
        )
        _log.warning(
            "%s: taken over by %s in %.3f s (%.3f s until the primary was fenced); "
            "%d rows replayed, %d appended",
            self.folder.path, self.scheme.value, report.takeover_s,
            report.check_s + report.fence_s, report.replayed_rows, report.appended_rows,
        )  # fmt: skip
        return Takeover(runner, queue, report)

    def _runner(self, queue: OutputQueue, sources: Sequence[Source]) -> Runner:
        """A runner that stands where the log ends."""
        warm, shadow = self._warm, self._shadow
        try:
            if warm is not None and warm.is_begun:
                return self._made(queue, sources, warm.operator, partial(recover, warm=warm))
            if shadow is not None and shadow.is_begun:
                return self._made(queue, sources, shadow.operator, partial(shadow.complete, queue))
        except OutOfRange as error:
            _log.warning(
                "the standby cannot go on from where it was, and reads the log: %s",
                error,
            )
        how = partial(skip, queue) if self.scheme is Scheme.AMNESIA else None
        return self._made(queue, sources, self._make(), how)

    def _made(
        self,
        queue: OutputQueue,
        sources: Sequence[Source],
        operator: Operator,
        recovering: Recovering | None,
    ) -> Runner:
        return Runner(
            operator,
            sources,
            queue,
            self._policy,
            checkpoints=self.scheme is not Scheme.UPSTREAM,
            recovering=recovering,
            step_rows_max=self._step_rows_max,
            acknowledge_interval_s=self._acknowledge_interval_s,
        )

    def close(self) -> None:
        """Drop the output that is held back; the primary is not affected."""
        self._is_over = True
        if self._shadow is not None:
            self._shadow.held.close()

    def __enter__(self) -> Standby:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
