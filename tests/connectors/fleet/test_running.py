"""A fleet on a real Spark: started, stopped, gone on with, gone back, forked."""

from pathlib import Path
from typing import Any

from support.fleets import diamond


def test_a_fleet_runs_as_one_and_goes_on(spark: Any, tmp_path: Path) -> None:
    diamond.make_input(tmp_path)
    diamond.add_rows(tmp_path, 0, 60)
    fleet = diamond.declared(tmp_path)
    with fleet.start(spark, period_s=0.1):
        diamond.await_all(tmp_path, 60)
    diamond.add_rows(tmp_path, 60, 60)
    with fleet.start(spark, period_s=0.1) as driver:
        diamond.await_all(tmp_path, 120)
    assert driver.failure is None
