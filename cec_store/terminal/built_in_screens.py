"""Screens for stores of Spark's own providers, and for two checkpoints beside each other."""

from __future__ import annotations

from collections.abc import Sequence

from cec_store.inspector.measuring.place_extents import Overview, RestartReads
from cec_store.inspector.verifying.results import VerifiedLog
from cec_store.terminal.screens import Cell, Screen
from cec_store.terminal.wording import moment, size


def show_built_in(screen: Screen, overview: Overview) -> None:
    """Show the files and bytes that a restart reads of each store, and of all."""
    rows: list[list[Cell]] = []
    for entry in overview.logs:
        store = entry.store
        if store is None:
            rows.append([entry.log.name, *[None] * 8])
            continue
        load = store.restart
        row: list[Cell] = [entry.log.name, store.files, size(store.bytes)]
        if load is None:
            rows.append([*row, *[None] * 6])
            continue
        begins = "none" if load.snapshot_version is None else f"{load.snapshot_version:,}"
        rows.append(
            [*row, begins, size(load.snapshot_bytes), load.change_files, size(load.change_bytes),
             load.files, size(load.bytes)]
        )  # fmt: skip
    reads = overview.restart_reads
    rows.append(["all", reads.files_there, size(reads.bytes_there), *[None] * 4, reads.files,
                 size(reads.bytes)])  # fmt: skip
    title = (
        f"{overview.place.path}: {overview.place.kind.value} of {short(overview.place.provider)}"
    )
    if overview.version is not None:
        title += f", version {overview.version:,}"
    if overview.timestamp_us is not None:
        title += f" (batch {(overview.version or 0) - 1:,} of {moment(overview.timestamp_us)})"
    names = ["store", "files", "size", "snapshot", "its size", "changes since", "their size",
             "restart reads", "of size"]  # fmt: skip
    screen.table(title, names, rows)
    for fault in overview.faults:
        screen.line(f"damaged: {fault}", "bold red")
    for entry in overview.logs:
        if entry.damage:
            screen.line(f"damaged: {entry.log.named(entry.damage)}", "bold red")


def show_beside(screen: Screen, both: Sequence[Overview]) -> None:
    """Two places in a table, a line each."""
    rows: list[list[Cell]] = []
    for overview in both:
        reads: RestartReads = overview.restart_reads
        rows.append(
            [overview.place.path, short(overview.place.provider), overview.version, reads.keys,
             reads.files_there, size(reads.bytes_there), reads.files, size(reads.bytes)]
        )  # fmt: skip
    names = ["checkpoint", "provider", "version", "keys", "files", "size", "restart reads",
             "of size"]  # fmt: skip
    screen.table("beside each other", names, rows)


def show_verified_stores(screen: Screen, title: str, logs: Sequence[VerifiedLog]) -> None:
    """Show the files of each store, and the versions that have every file they need."""
    rows: list[list[Cell]] = []
    for entry in logs:
        store, kept = entry.store, entry.loadable
        if store is None:
            rows.append([entry.log.name, *[None] * 4, entry.faults])
            continue
        reach = None if kept is None else f"{kept[0]:,} to {kept[1]:,}"
        rows.append(
            [entry.log.name, store.snapshots, store.change_files, size(store.bytes), reach,
             entry.faults]
        )  # fmt: skip
    names = ["store", "snapshots", "changes", "size", "versions that are whole", "faults"]
    screen.table(title, names, rows)


def short(provider: str | None) -> str:
    """A provider's class without its package."""
    return (provider or "–").rpartition(".")[2]
