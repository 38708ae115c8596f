"""One migration, from the order to the batch that ran on the new owner: the paper's section 4."""

from __future__ import annotations

import time

from cec_store.connectors.spark.executors.driver_side import PROTOCOLS, DriverSide
from cec_store.connectors.spark.executors.snapshot import Move, PartitionId
from cec_store.errors import MigrationFailed, MigrationRunning

LOOK_S = 0.02


def order(driver: DriverSide, of: PartitionId, to: str, protocol: str) -> Move:
    """Order it; at most one migration of a partition runs.

    Raises:
        ValueError: no such protocol.
        NoSuchPartition, NoSuchExecutor, MigrationRunning, MigrationRefused: nothing is ordered.
    """
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol must be one of {', '.join(PROTOCOLS)}, not {protocol!r}")
    return driver.move(of, to, protocol)


def await_all(driver: DriverSide, moves: list[Move], wait_s: float) -> list[Move]:
    """Wait until all of them are over; return them as they are then.

    Raises:
        MigrationFailed: one of them has failed, or is not over within ``wait_s``: what is not over
            is cancelled.
    """
    end_s = time.monotonic() + wait_s
    while True:
        snapshot = driver.snapshot()
        now = [snapshot.move(move.number) or move for move in moves]
        if all(move.is_over for move in now):
            break
        if time.monotonic() >= end_s:
            now = [move if move.is_over else driver.cancel(move.number) for move in now]
            break
        time.sleep(LOOK_S)
    failed = [move for move in now if move.state != "done"]
    if failed:
        first = failed[0]
        why = first.reason or (
            f"it is not over after {wait_s:g} s, and was cancelled: does the query run batches?"
        )
        others = f", and {len(failed) - 1} more migrations" if len(failed) > 1 else ""
        raise MigrationFailed(
            f"{first.id} has not moved from executor {first.source} to {first.target}{others}: "
            f"{why}"
        )
    return now


def order_all(
    driver: DriverSide, orders: list[tuple[PartitionId, str]], protocol: str
) -> list[Move]:
    """Order these; a partition that moves already is left alone."""
    ordered = []
    for of, to in orders:
        try:
            ordered.append(order(driver, of, to, protocol))
        except MigrationRunning:
            continue
    return ordered
