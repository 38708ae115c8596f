"""`cec-store advise`: from numbers and from what a place's logs say."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from cec_store import open_queue
from cec_store.cli import app
from cec_store.operators import (
    Aggregate,
    ArrowSource,
    RandomFilter,
    Runner,
    TimeWindow,
    record_schema,
)
from support.command_line.json_schemas import check
from support.places import damaged_queues as made
from support.places.made_checkpoints import grown

AGGREGATE = ("--rate", "1000", "--window", "0.1", "--advance", "0.01", "--row-time", "1e-5")


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("advise") / "queue"
    made.make_operator_queue(path, 300)
    return path


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["advise", *map(str, arguments)])
    assert "Traceback" not in result.output
    return result.exit_code, result.output


def document(*arguments: object) -> Any:
    status, text = run(*arguments, "--json")
    assert status == 0, text
    found = json.loads(text)
    check("advise", found)
    return found


def test_a_short_recovery_time_asks_for_active_standby() -> None:
    assert document(*AGGREGATE, "--recovery-time", 0.2901)["cheapest"] == "active standby"
    assert document(*AGGREGATE, "--recovery-time", 0.293)["cheapest"] == "passive standby"
    assert document(*AGGREGATE, "--recovery-time", 5)["cheapest"] == "upstream backup"
    assert document(*AGGREGATE, "--recovery-time", 0.1)["cheapest"] is None
    assert document(*AGGREGATE, "--may-lose")["cheapest"] == "amnesia"


def test_whatever_fits_is_at_least_as_dear_as_what_is_named() -> None:
    found = document(*AGGREGATE, "--recovery-time", 0.3)
    dear = {each["scheme"]: each["bandwidth_share"] + each["processor_share"]
            for each in found["schemes"] if each["fits"]}  # fmt: skip
    assert len(dear) > 1
    assert min(dear, key=dear.__getitem__) == found["cheapest"]


def test_a_queue_says_how_many_windows_it_has_and_nothing_is_written(queue: Path) -> None:
    before = made.hash_of(queue)
    found = document(queue, "--rate", 500)
    assert found["system"]["tuples_per_s"] == 500
    extent = json.loads(CliRunner().invoke(app, ["extent", str(queue), "--json"]).stdout)
    assert found["query"]["open_windows"] == extent["totals"]["open_windows"] > 0
    assert made.hash_of(queue) == before


def by_scheme(found: Any, name: str) -> dict[str, str | None]:
    return {each["scheme"]: each[name] for each in found["schemes"]}


def test_what_a_standby_refuses_is_not_named(queue: Path) -> None:
    """The queue has checkpoints, so that upstream backup, the cheapest, cannot take it over."""
    found = document(queue, "--rate", 500, "--recovery-time", 100)
    refused, condition = by_scheme(found, "refused"), by_scheme(found, "condition")
    assert "with checkpoints" in refused.pop("upstream backup")
    assert set(refused.values()) == {None}
    # Its log does not say whether the operator can be followed.
    assert {name for name, text in condition.items() if text} == {
        "passive standby", "active standby",
    }  # fmt: skip
    assert found["cheapest"] == "eventual checkpoint"
    _, text = run(queue, "--rate", 500)
    assert "upstream backup is refused: " in text


def test_the_operator_is_asked_as_a_standby_asks_it(
    queue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "advised_operators.py").write_text(
        "import pyarrow as pa\n"
        "from cec_store.operators import Aggregate, BSort, CountWindow\n"
        "SCHEMA = pa.schema([('k', pa.int64())])\n"
        "def sort(): return BSort('k', 3, SCHEMA)\n"
        "def counts():\n"
        "    return Aggregate(group_by=['k'], aggregates={'n': ('count',)},\n"
        "                     window=CountWindow(3), input_schema=SCHEMA)\n"
    )
    monkeypatch.chdir(tmp_path)
    sort = document(queue, "--rate", 500, "--operator", "advised_operators:sort")
    for scheme in ("passive standby", "active standby"):
        assert "cannot be kept close" in by_scheme(sort, "refused")[scheme]
    assert set(by_scheme(sort, "condition").values()) == {None}
    counts = document(*AGGREGATE, "--operator", "advised_operators:counts", "--recovery-time", 5)
    assert "is deterministic" in by_scheme(counts, "refused")["upstream backup"]
    assert counts["cheapest"] == "eventual checkpoint"
    (tmp_path / "fails_later.py").write_text(
        "def late(): import found_late; return found_late.sort()\ndef asks(schema): return None\n"
    )
    (tmp_path / "fails_at_once.py").write_text("import os; os.environ['NOT_SET_ANYWHERE']\n")
    (tmp_path / "found_late.py").write_text("from advised_operators import sort\n")
    late = document(queue, "--rate", 500, "--operator", "fails_later:late")
    assert by_scheme(late, "refused") == by_scheme(sort, "refused")
    for wrong in ("advised_operators:nothing", "advised_operators", "nowhere:sort",
                  "fails_later:asks", "fails_at_once:any"):  # fmt: skip
        status, text = run(queue, "--operator", wrong)
        assert (status, "--operator" in text) == (2, True)


def test_a_trimmed_queue_does_not_say_how_much_input_there_is(tmp_path: Path) -> None:
    """It has taken rows since its first day, and has the results of the last ones."""
    path = tmp_path / "queue"
    made.make_operator_queue(path, 3_000)
    document(path)
    trimmed = CliRunner().invoke(app, ["trim", str(path), "--keep", "10kB", "--yes"])
    assert trimmed.exit_code == 0, trimmed.output
    status, text = run(path)
    assert (status, "--rate" in text) == (2, True), text
    document(path, "--rate", 5)


def test_a_queue_without_checkpoints_says_who_could_take_it_over(tmp_path: Path) -> None:
    rows = pa.table({"k": [1, 2] * 50, "t": pa.array(range(100)).cast(pa.timestamp("us"))})
    operator = Aggregate(
        group_by=["k"], aggregates={"n": ("count",)}, window=TimeWindow(10),
        input_schema=rows.schema,
    )  # fmt: skip
    with open_queue(tmp_path / "queue", "a", schema=record_schema(operator)) as queue:
        Runner(operator, [ArrowSource(rows, "t")], queue, checkpoints=False).run()
    status, text = run(tmp_path / "queue", "--rate", 10)
    assert status == 2
    assert "take over by 'upstream backup'" in " ".join(text.split())


def test_a_log_with_determinants_has_no_active_standby(tmp_path: Path) -> None:
    rows = pa.table({"k": range(100), "t": pa.array(range(100)).cast(pa.timestamp("ms"))})
    operator = RandomFilter(0.5, rows.schema)
    with open_queue(tmp_path / "queue", "a", schema=record_schema(operator)) as queue:
        Runner(operator, [ArrowSource(rows, "t")], queue).run()
    refused = by_scheme(document(tmp_path / "queue", "--rate", 10), "refused")
    assert "depends on chance" in refused["active standby"]


def test_output_waits_for_the_disk_in_every_scheme_and_is_never_there_twice() -> None:
    found = document(*AGGREGATE)
    for each in found["schemes"]:
        assert each["held_s"] > 0.025
        assert "repeated_tuples" not in each
        assert (each["paper"]["held_s"] > 0) is (each["scheme"] == "eventual checkpoint")
    _, text = run(*AGGREGATE)
    assert "the paper's protocols" in text


def test_a_checkpoint_does_not_say_how_much_input_there_is(tmp_path: Path) -> None:
    grown(tmp_path / "checkpoint")
    status, text = run(tmp_path / "checkpoint")
    assert status == 2
    assert "--rate" in text
    found = document(tmp_path / "checkpoint", "--rate", 100, "--recovery-time", 100)
    assert found["query"]["open_windows"] > 0
    # No driver of Spark's begins without the checkpoint.
    refused = by_scheme(found, "refused")
    assert {name for name, text in refused.items() if text} == {"amnesia", "upstream backup"}
    assert found["cheapest"] == "eventual checkpoint"


def test_a_damaged_queue_gives_no_advice(queue: Path, tmp_path: Path) -> None:
    made.copy(queue, tmp_path / "damaged")
    segment = made.segment(tmp_path / "damaged", 0)
    made.flip(segment, made.batches(segment)[3][0] + 140)
    status, text = run(tmp_path / "damaged")
    assert status == 1
    assert segment.name in text
    assert "cheapest" not in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--rate"),
        (("--rate", "0"), "tuples_per_s"),
        (("--rate", "10", "--window", "1", "--advance", "2"), "advance_s"),
        (("--rate", "10", "--window", "1", "--keys", "0"), "keys"),
        ((*AGGREGATE, "--extent-factor", "0.5"), "extent_factor"),
        (("--rate", "1e9", "--row-time", "1"), "processors"),
        (("nowhere", "--window", "1"), "PATH"),
        (("nowhere",), "nowhere"),
        ((*AGGREGATE, "--recovery-time", "-1"), "recovery-time"),
    ],
)
def test_wrong_use_says_what_to_give(arguments: tuple[str, ...], said: str) -> None:
    status, text = run(*arguments)
    assert status == 2
    assert said in text
