"""Plan of a move, which checks that a checkpoint can be moved before anything is written."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.connectors.spark.checkpoint.state_schema import (
    PARTITIONS_KEYS,
    begun_repartition,
    state_partitions,
)
from cec_store.connectors.spark.setup.settings import BUILT_IN, PROVIDER, PROVIDER_KEY
from cec_store.connectors.spark.takeover.tenure import LEASE
from cec_store.errors import LeaseHeld, MoveRefused, StorageError
from cec_store.standby.leases import Sign, leases_of
from cec_store.storage.paths import AnyPath
from cec_store.storage.stores.folders import AnyFolder, StorageOptions
from cec_store.storage.stores.new_trees import check_new_folder

PARTITIONS_MAX = 100_000


@dataclass(frozen=True)
class Plan:
    """Plan of a move: the batch, the provider and the partitions of the new checkpoint."""

    old: Checkpoint
    batch: int
    """The last committed one: the state is what it left behind."""
    pending: int | None
    """A batch that was begun and not committed: it is run again, with the same input."""
    conf: Mapping[str, str]
    """Settings in the offset log at that batch."""
    provider: str
    """The class that the state is to be written by."""
    partitions: int | None
    """Number of partitions of the new checkpoint; None: as many as now."""
    seen: tuple[tuple[int, ...], tuple[int, ...]]
    """Batches with offsets and commits."""

    def changes(self, conf: Mapping[str, str]) -> dict[str, str]:
        """Return the settings to change in a file of the offset log that has ``conf``."""
        changed = {PROVIDER_KEY: self.provider}
        if self.partitions is not None:
            keys = [key for key in PARTITIONS_KEYS if key in conf]
            changed |= dict.fromkeys(keys, str(self.partitions))
        return changed

    @property
    def partitions_there(self) -> int | None:
        """Number of partitions of the new state; None where the offset log does not say."""
        return state_partitions(self.conf) if self.partitions is None else self.partitions

    def require_unchanged(self) -> None:
        """Raises :class:`MoveRefused` where the query has gone on meanwhile."""
        if _seen(self.old) != self.seen:
            raise MoveRefused(
                f"{self.old.path}: its query is running: it has gone on while it was read. Stop it "
                "first"
            )


def check_places(old: Checkpoint, target: AnyFolder) -> None:
    """Raises ``FileExistsError`` where something is, and :class:`StorageError` inside the old."""
    check_new_folder(target)
    if f"{target.path}/".startswith(f"{old.path}/"):
        raise StorageError(f"{target.path}: is inside the checkpoint; name a folder beside it")


def adopting(old: Checkpoint) -> Plan:
    """Plan a move to our provider; raises as :func:`cec_store.connectors.spark.adopt`."""
    plan = _plan(old, PROVIDER, None)
    provider = _provider_of(plan)
    if provider == PROVIDER:
        raise MoveRefused(f"{old.path}: its state is kept by cec-store already")
    if provider not in BUILT_IN.values():
        raise MoveRefused(
            f"{old.path}: its state is kept by {provider}, which is not known here; known are "
            f"{' and '.join(BUILT_IN.values())}"
        )
    return plan


def releasing(old: Checkpoint, provider: str) -> Plan:
    """Plan a move from our provider; raises as :func:`cec_store.connectors.spark.release`."""
    if provider not in BUILT_IN:
        raise ValueError(f"provider={provider!r}: one of {', '.join(BUILT_IN)}")
    plan = _plan(old, BUILT_IN[provider], None)
    _require_ours(plan)
    return plan


def repartitioning(old: Checkpoint, partitions: int) -> Plan:
    """Raises as :func:`cec_store.connectors.spark.repartition`."""
    if type(partitions) is not int or not 1 <= partitions <= PARTITIONS_MAX:
        raise ValueError(f"partitions={partitions!r}: a whole number, 1 to {PARTITIONS_MAX:,}")
    plan = _plan(old, PROVIDER, partitions)
    _require_ours(plan)
    key = PARTITIONS_KEYS[0]
    if key not in plan.conf:
        raise MoveRefused(f"{old.path}/offsets/{plan.batch}: does not say {key}")
    now = {
        plan.conf[partitions_key]
        for partitions_key in PARTITIONS_KEYS
        if partitions_key in plan.conf
    }
    if now == {str(partitions)}:
        raise MoveRefused(f"{old.path}: its state is in {partitions} partitions already")
    return plan


def _require_ours(plan: Plan) -> None:
    provider = _provider_of(plan)
    if provider != PROVIDER:
        raise MoveRefused(
            f"{plan.old.path}: its state is kept by {provider}, not by cec-store; adopt it first"
        )


def _provider_of(plan: Plan) -> str:
    if PROVIDER_KEY not in plan.conf:
        raise MoveRefused(
            f"{plan.old.path}/offsets/{plan.batch}: does not say which provider keeps the state"
        )
    return plan.conf[PROVIDER_KEY]


def _plan(old: Checkpoint, provider: str, partitions: int | None) -> Plan:
    # What it does after this look is found out before the new checkpoint is there.
    seen = _seen(old)
    logged, _ = seen
    batch = old.newest_batch()
    conf = old.offsets(batch).conf
    pending = logged[-1] if logged and logged[-1] > batch else None
    if (begun := begun_repartition(old)) is not None:
        way_out = (
            f"was asked to repartition this checkpoint, refuses to with cec-store, and starts no "
            f"query on it: `cec-store fork {old.path} NEW --batch {batch}` makes one that goes on"
            if conf.get(PROVIDER_KEY) == PROVIDER
            else "has begun to repartition this checkpoint and has not ended: let it end first"
        )
        raise MoveRefused(f"{old.path}/offsets/{begun.batch}: Spark {way_out}")
    return Plan(
        old=old,
        batch=batch,
        pending=pending,
        conf=conf,
        provider=provider,
        partitions=partitions,
        seen=seen,
    )


def _seen(old: Checkpoint) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(old.logged_batches()), tuple(old.committed_batches())


def require_no_driver(checkpoint: AnyPath, storage_options: StorageOptions | None) -> None:
    """Raises :class:`LeaseHeld` where a driver keeps a lease and gives signs of life."""
    leases = leases_of(checkpoint, storage_options)
    watch = leases.watch(LEASE)
    try:
        while (seen := watch.look()).sign is Sign.ALIVE:
            if seen.has_moved:
                raise LeaseHeld(
                    f"{leases.path}: its query is running ({seen.holder}): stop it first"
                )
            time.sleep(watch.pause_s)
    finally:
        watch.close()
