"""Queries with files and functions among their sources and sinks, as members on a real Spark."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from cec_store import NotAQueue, read_queue
from cec_store.cli import app
from cec_store.connectors.spark.fleet import Fleet, FleetDriver, Sink, Source
from cec_store.connectors.spark.fleet.going_back import fork_fleet, roll_back
from cec_store.errors import OutputNotTakenBack
from support.command_line.json_schemas import check
from support.fleets import diamond
from support.spark.standalone import wait_for

pytestmark = pytest.mark.usefixtures("unfenced")


def same(rows: Any) -> Any:
    return rows


def values(path: Path) -> list[int]:
    try:
        return sorted(read_queue(path).read_all()["v"].to_pylist())
    except NotAQueue:
        return []


class Members:
    """Files, landed in a queue, saved as files by one query and told to a function by another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.batches: list[tuple[int, list[int]]] = []
        """Number and rows of each call of the function."""
        (folder / "in").mkdir()
        source = Source("parquet", {"path": str(folder / "in")}, "v bigint")
        queue = str(folder / "landed")
        saved = Sink("parquet", {"path": str(folder / "saved")})
        self.fleet = Fleet(folder / "fleet", rules=diamond.RULES)
        self.fleet.query("landed", same, sources=[source], writes=queue)
        self.fleet.query("saved", same, reads=[queue], sink=saved)
        self.fleet.query("told", same, reads=[queue], sink=Sink(foreach_batch=self.tell))

    def tell(self, rows: Any, batch: int) -> None:
        self.batches.append((batch, sorted(row["v"] for row in rows.collect())))

    def write(self, *rows: int) -> None:
        table = pa.table({"v": pa.array(rows, pa.int64())})
        pq.write_table(table, self.folder / f"{rows[0]}.new")
        (self.folder / f"{rows[0]}.new").rename(self.folder / "in" / f"{rows[0]}.parquet")

    @property
    def told(self) -> list[int]:
        return sorted(v for _, rows in self.batches for v in rows)

    def saved(self, spark: Any) -> list[int]:
        """Rows as Spark reads them: those of batches that its sink has taken as written."""
        if not (self.folder / "saved" / "_spark_metadata").exists():
            return []
        rows = spark.read.schema("v bigint").parquet(str(self.folder / "saved")).collect()
        return sorted(row["v"] for row in rows)

    def outputs(self, spark: Any) -> dict[str, list[int]]:
        return {"landed": values(self.folder / "landed"), "saved": self.saved(spark),
                "told": self.told}  # fmt: skip

    def await_all(self, spark: Any, driver: FleetDriver, rows: list[int]) -> None:
        wanted = {"landed": rows, "saved": rows, "told": rows}

        def said() -> str:
            return f"{self.outputs(spark)}, {driver.notes.queries}"

        wait_for(lambda: self.outputs(spark) == wanted, said, diamond.DEADLINE_S)

    def await_checkpoint(self) -> Any:
        """A global checkpoint in which each query has done all that it was given."""
        folder = self.fleet.folder

        def is_there() -> bool:
            newest = folder.newest_checkpoint()
            return newest is not None and newest.batches["told"] == self.batches[-1][0]

        wait_for(is_there, lambda: str(folder.newest_checkpoint()), diamond.DEADLINE_S)
        return folder.newest_checkpoint()


def cli(verb: str, *words: object, status: int = 0) -> str:
    result = CliRunner().invoke(app, ["fleet", verb, *map(str, words)])
    assert result.exit_code == status, result.output
    return result.output


def lag_of(path: Path, name: str) -> Any:
    document = json.loads(cli("status", path, "--json"))
    check("fleet-status", document)
    [query] = (query for query in document["queries"] if query["name"] == name)
    return query


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(OutputNotTakenBack) as caught:
        act()
    return str(caught.value)


def test_members_go_on_are_paused_and_go_back_once_it_is_consented_to(
    spark: Any, tmp_path: Path
) -> None:
    members = Members(tmp_path)
    fleet, place = members.fleet, tmp_path / "fleet"
    members.write(1, 2)
    with fleet.start(spark) as driver:
        members.await_all(spark, driver, [1, 2])
        early = members.await_checkpoint()
        landed = lag_of(place, "landed")
        assert landed["records_waiting"] is None
        assert "Spark does not say it of FileStreamSource[" in landed["lag_problem"]
        assert lag_of(place, "told")["records_waiting"] == 0
        fleet.pause("told")
        wait_for(lambda: not driver.notes.of("told").is_active, lambda: str(driver.notes))
        members.write(3)
        wait_for(lambda: values(tmp_path / "landed") == [1, 2, 3], lambda: str(driver.notes))
        assert members.told == [1, 2]
        fleet.resume("told")
        members.await_all(spark, driver, [1, 2, 3])

    # Nothing is changed by a rollback that is not consented to, and all effects are named.
    said = refused(lambda: roll_back(fleet.folder, fleet.folder.read(), early, lambda: None))
    first, last = early.batches["told"] + 1, members.batches[-1][0]
    assert f"told: foreachBatch has had batch {first}" in said
    assert f"saved: parquet {tmp_path}/saved has had batch " in said
    assert "--again saved --again told" in said
    assert refused(lambda: roll_back(fleet.folder, fleet.folder.read(), early, lambda: None,
                                     ["saved"])).count("has had") == 1  # fmt: skip
    document = json.loads(cli("rollback", place, "--checkpoint", early.number, "--json"))
    check("fleet-rollback", document)
    effects = {effect["query"]: effect for effect in document["not_taken_back"]}
    assert effects.keys() == {"saved", "told"}
    assert (effects["told"]["first_batch"], effects["told"]["last_batch"]) == (first, last)
    assert document["read_again"] == {"landed": [f"parquet {tmp_path}/in"]}
    words = ("rollback", place, "--checkpoint", early.number, "--yes")
    assert "this cannot be taken back" in cli(*words, status=2)
    assert "no query 'landed' with a sink" in cli(*words, "--again", "landed", status=2)
    fork = tmp_path / "fork"
    assert "the fork writes there as well" in refused(lambda: fork_fleet(fleet.folder, fork, early))
    assert not fork.exists()
    assert fleet.folder.read().generation == 0
    assert values(tmp_path / "landed") == [1, 2, 3]

    shown = cli(*words, "--again", "saved", "--again", "told")
    assert "not taken back: told: foreachBatch has had" in shown
    assert values(tmp_path / "landed") == [1, 2]
    with fleet.start(spark) as driver:
        wait_for(lambda: members.told == [1, 2, 3, 3], lambda: f"{members.batches}",
                 diamond.DEADLINE_S)  # fmt: skip
        members.write(4)
        # Spark's file sink has had a batch of that number, so it keeps row 3 and takes it no more.
        wait_for(lambda: members.saved(spark) == [1, 2, 3, 4],
                 lambda: f"{members.outputs(spark)}", diamond.DEADLINE_S)  # fmt: skip
    assert members.batches[last + 1] == (first, [3])
    assert values(tmp_path / "landed") == [1, 2, 3, 4]
    assert driver.failure is None
