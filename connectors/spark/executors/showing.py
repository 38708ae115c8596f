"""A cluster as people read it: who owns what, who could take over how fast, what moved."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from cec_store.connectors.spark.executors.snapshot import Executor, Move, Partition, Snapshot

_MIB = 1 << 20
_NUMBER = re.compile(r"[\d,]+(\.\d+)?")
MOVES_SHOWN = 10


def text_of(snapshot: Snapshot, names: Mapping[str, str], moves_shown: int = MOVES_SHOWN) -> str:
    """Three tables; ``names`` are those of the queries, by their run ids."""
    owned = [partition.owner for partition in snapshot.partitions]
    parts = [
        _table(
            ("executor", "host", "owns", "replicas", "MiB of replicas", "of at most"),
            [_executor_row(executor, owned, snapshot) for executor in snapshot.executors],
        ),
        _table(
            ("query", "operator", "partition", "version", "rows", "MiB", "owner", "takeover by"),
            [_partition_row(partition, names) for partition in snapshot.partitions],
        ),
    ]
    if snapshot.shortage:
        parts.insert(0, snapshot.shortage)
    if snapshot.moves:
        parts.append(
            _table(
                ("query", "operator", "partition", "from", "to", "protocol", "state", "cost"),
                [_move_row(move, names) for move in snapshot.moves[-moves_shown:]],
            )
        )
    return "\n\n".join(parts)


def _executor_row(executor: Executor, owned: Sequence[str | None], of: Snapshot) -> tuple[str, ...]:
    held = sum(
        partition.replica_on(executor.executor_id) is not None for partition in of.partitions
    )
    name = executor.executor_id + (" (leaves)" if executor.is_draining else "")
    return (
        name,
        executor.host,
        str(owned.count(executor.executor_id)),
        str(held),
        f"{executor.replica_bytes / _MIB:.1f}",
        f"{executor.replica_bytes_max / _MIB:.1f}",
    )


def _partition_row(partition: Partition, names: Mapping[str, str]) -> tuple[str, ...]:
    key = partition.id
    return (
        names.get(key.query, key.query[:8]),
        str(key.operator),
        str(key.partition),
        str(partition.version),
        f"{partition.windows:,}",
        f"{partition.state_bytes / _MIB:.1f}",
        partition.owner or "gone",
        takeover_of(partition),
    )


def takeover_of(partition: Partition) -> str:
    """Return the executor that could own the partition next and its lag, as a phrase for people."""
    best = partition.best_replica
    if best is None:
        trouble = [f"{replica.executor_id}: {replica.state}" for replica in partition.replicas]
        return "; ".join(["anybody, who loads all of it", *trouble])
    lag = best.lag_versions or 0
    what = "at once" if lag == 0 else f"after {lag} version{'s' if lag > 1 else ''}"
    return f"{best.executor_id}, {what}"


def _move_row(move: Move, names: Mapping[str, str]) -> tuple[str, ...]:
    key = move.id
    return (
        names.get(key.query, key.query[:8]),
        str(key.operator),
        str(key.partition),
        move.source or "gone",
        move.target,
        move.protocol,
        move.state,
        cost_of(move),
    )


def cost_of(move: Move) -> str:
    """Return the load and the duration of a finished move as a phrase; otherwise its reason."""
    if move.state != "done" or move.done_ms is None:
        return move.reason
    took_s = (move.done_ms - move.ordered_ms) / 1000
    how = "from a replica" if move.is_from_replica else "from the log"
    return f"{move.load_ms} ms for {move.records_read:,} records {how}; {took_s:.1f} s in all"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Numbers to the right, words to the left."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    is_number = [
        bool(rows) and all(_NUMBER.fullmatch(row[n]) for row in rows) for n in range(len(head))
    ]

    def line(row: Sequence[str]) -> str:
        put: list[Callable[[str, int], str]] = [
            str.rjust if number else str.ljust for number in is_number
        ]
        cells = zip(put, row, widths, strict=True)
        return "  ".join(place(cell, width) for place, cell, width in cells).rstrip()

    return "\n".join([line(head), "  ".join("-" * width for width in widths), *map(line, rows)])
