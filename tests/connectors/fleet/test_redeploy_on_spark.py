"""New code of one query on a real Spark: of its plan, and of what Python's workers run."""

import sys
from pathlib import Path
from typing import Any

import pytest

from cec_store import NotAQueue, read_queue
from cec_store.connectors.spark.fleet.fleet import Fleet
from support.fleets import diamond
from support.spark.standalone import wait_for

pytestmark = [
    pytest.mark.usefixtures("unfenced"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]
TEXT = """
from pyspark.sql.functions import udf

TIMES = {times}


def many(v):
    return v * TIMES


def multiplied(rows):
    return rows.select("k", udf(many, "bigint")("v").alias("v"), "at")
"""


def values(path: Path) -> list[int]:
    try:
        return sorted(read_queue(path).read_all()["v"].to_pylist())
    except NotAQueue:
        return []


def test_workers_that_had_the_old_code_run_the_new_one(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "cec_redeployed_on_spark.py").write_text(TEXT.format(times=10))
    monkeypatch.syspath_prepend(str(modules))
    # Workers import the module by themselves as long as it is not read anew.
    spark.sparkContext.addPyFile(str(modules / "cec_redeployed_on_spark.py"))
    diamond.make_input(tmp_path)
    diamond.add_rows(tmp_path, 1, 2)
    fleet = Fleet(tmp_path / "fleet", rules=diamond.RULES)
    output = tmp_path / "multiplied"
    fleet.query("multiplied", "cec_redeployed_on_spark:multiplied",
                reads=[str(tmp_path / "input")], writes=str(output))  # fmt: skip
    try:
        with fleet.start(spark, period_s=0.25) as driver:
            wait_for(lambda: values(output) == [10, 20], lambda: str(driver.notes),
                     diamond.DEADLINE_S)  # fmt: skip
            (modules / "cec_redeployed_on_spark.py").write_text(TEXT.format(times=11))
            fleet.redeploy("multiplied")
            wait_for(lambda: not fleet.folder.requests().names, lambda: str(driver.notes))
            diamond.add_rows(tmp_path, 3, 1)
            wait_for(lambda: values(output) == [10, 20, 33], lambda: str(driver.notes))
            assert driver.notes.of("multiplied").code_failure == ""
    finally:
        sys.modules.pop("cec_redeployed_on_spark", None)
