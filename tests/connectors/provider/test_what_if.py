"""`cec-store extent --what-if` on logs that the provider itself wrote, in a JVM."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cec_store.inspector.measuring.extent_history import WhatIf
from cec_store.inspector.measuring.extents import reader_at
from cec_store.inspector.measuring.what_if import simulate
from cec_store.state_logs.state_log import StateLog
from cec_store.storage.local import LocalFolder
from support.spark.jvm import STORE, run_jvm


@pytest.mark.parametrize(
    ("records", "maintenance"), [pytest.param(700, False, marks=pytest.mark.crash), (420, True)]
)
def test_at_its_own_target_a_log_of_spark_is_what_it_was(
    tmp_path: Path, crash_count: Callable[[int, int], int], records: int, maintenance: bool
) -> None:
    """With reloads, aborts, attempts given up, families, and segments merged and gone."""
    seeds = crash_count(2, 60)
    run_jvm(
        "model", root=tmp_path, families=True, maintenance=maintenance, until=seeds, batches=60,
        settings={f"{STORE}.cec.extentMaxRecords": records, f"{STORE}.cec.checkTimeMs": 60_000},
        timeout_s=60 + 10 * seeds,
    )  # fmt: skip
    renewed = other = commits = 0
    for seed in range(seeds):
        folder = LocalFolder(tmp_path / f"seed-{seed}" / "0" / "0")
        for version in StateLog(folder).versions()[-3:]:
            targets = [WhatIf(extent_records=records), WhatIf(extent_records=records - 100)]
            history = simulate(*reader_at(folder, version), targets)
            (_, same), (_, tighter) = history.targets
            assert same.checks.tolist() == history.recorded.checks.tolist(), (seed, version)
            assert same.extent_records.tolist() == history.recorded.extent_records.tolist()
            commits += len(history.others)
            renewed += int(same.checks.sum())
            other += int(tighter.checks.sum())
    assert commits > 50 * seeds
    assert renewed > 200 * seeds
    assert other > renewed
