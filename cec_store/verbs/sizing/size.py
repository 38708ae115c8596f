"""The verb `cec-store size`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from cec_store.inspector.measuring.kept_rates import known_rates
from cec_store.state_logs.sizing import SEGMENT_BYTES, StateShape, state_size
from cec_store.terminal.exit_status import wrong_use
from cec_store.terminal.extent_screens import seconds
from cec_store.terminal.screens import Screen
from cec_store.terminal.wording import size
from cec_store.verbs.arguments import AsJson, count_option, size_option


def size_verb(
    keys: Annotated[
        int,
        count_option("Keys that are live at the same time."),
    ],
    changes: Annotated[int, count_option("Keys that a batch puts or removes.")],
    key_bytes: Annotated[int, size_option("Of a key, as Spark stores it.")] = 16,
    value_bytes: Annotated[int, size_option("Of a value, as Spark stores it.")] = 24,
    partitions: Annotated[int, count_option("spark.sql.shuffle.partitions.")] = 200,
    stores: Annotated[int, count_option("Of each partition: 1; of a join 4.")] = 1,
    extent_factor: Annotated[float, typer.Option(help="As the query has it.")] = 2.0,
    versions_kept: Annotated[
        int,
        count_option("spark.sql.streaming.minBatchesToRetain."),
    ] = 100,
    compression: Annotated[
        float, typer.Option(help="How many times smaller records are on disk.")
    ] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Estimate what a Spark query's state takes: heap, disk, restarts, requests."""
    with wrong_use():
        shape = StateShape(
            keys, key_bytes, value_bytes, changes, partitions * stores, extent_factor,
            versions_kept, compression,
        )  # fmt: skip
    needs, rates = state_size(shape), known_rates()
    load_s = rates.load_s(
        needs.extent_bytes_most // partitions,
        needs.extent_raw_bytes_most // partitions,
        needs.extent_records_most // partitions,
    )
    screen = Screen()
    if as_json:
        screen.document({**asdict(shape), **asdict(needs), "partition_load_s": load_s,
                         "rates": rates.source})  # fmt: skip
        return
    screen.pairs(
        f"{keys:,} keys, {changes:,} changed by a batch, {shape.stores:,} stores",
        [
            ("heap, all executors", f"{size(needs.heap_bytes)} to {size(needs.heap_bytes_most)}"),
            ("with rows in local files", f"{size(needs.index_bytes)} of heap, and at most "
                                         f"{size(needs.local_bytes_most)} in files"),
            ("disk, at most", f"{size(needs.disk_bytes_most)}, of which "
                              f"{size(needs.unrolled_bytes_most)} are segments not yet rolled: "
                              f"one of {size(SEGMENT_BYTES)} for each store"),
            ("a batch writes, at most", size(needs.batch_bytes_most)),
            ("a restart reads, at most", f"{needs.extent_records_most:,} records, "
                                         f"{size(needs.extent_bytes_most)}"),
            ("a partition is back after", seconds(load_s)),
            ("where a commit is an object", f"{needs.puts_per_batch:,.0f} puts and "
                                            f"{needs.gets_per_batch:,.0f} gets a batch"),
        ],
    )  # fmt: skip
    if rates.source == "default":
        screen.line(
            "rates are a guess; `cec-store extent PATH --calibrate` measures this machine's"
        )
