"""The parts of the paper's evaluation that take no measuring: its input, baselines and tables."""

import json
import socket
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bench.papers import (
    cec_baselines,
    cec_beyond,
    cec_graph,
    cec_processes,
    cec_wires,
    migration_input,
)
from bench.papers.cec_graph import share_within
from bench.papers.cec_input import Bids
from bench.papers.cec_scaling import exponent
from bench.papers.cec_tables import TABLES
from bench.papers.report import results_file
from bench.papers.tables import cell, filled_in
from cec_store import Never, RecordSchema, open_queue
from cec_store.operators.aggregate.windows import CountWindow
from cec_store.operators.runner import Runner, record_schema
from support.paths import DOCS


def test_the_input_is_the_same_from_anywhere() -> None:
    source = Bids(50, 1000, skew=1.2, batch_rows=64)
    whole = pa.Table.from_batches([each.batch for each in source.read(0)])
    part = list(source.read(130, 777))
    assert whole.num_rows == 1000
    assert pa.Table.from_batches([each.batch for each in part]).equals(whole.slice(130, 647))
    offsets = np.concatenate([each.offsets for each in part])
    assert offsets.tolist() == list(range(130, 777))
    assert np.concatenate([each.timestamps_us for each in part]).tolist() == (
        whole.slice(130, 647)["time"].cast(pa.int64()).to_pylist()
    )


def test_skewed_items_follow_zipfs_law() -> None:
    even = pa.Table.from_batches([each.batch for each in Bids(100, 100_000).read(0)])
    skewed = pa.Table.from_batches([each.batch for each in Bids(100, 100_000, skew=1.0).read(0)])
    counts = np.bincount(skewed["item"].to_numpy(), minlength=100)
    assert 700 < np.bincount(even["item"].to_numpy()).min() < 1000
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.15)


def test_full_windows_are_those_of_a_block_that_is_read_over_and_over() -> None:
    work = cec_graph.Work(items=50, window=7, rows=5000, batch_rows=16)
    block = cec_processes.input_block(50, 16)
    items, times = (block.column(name).cast(pa.int64()).to_pylist() for name in ("item", "time"))
    counts, closed = [0] * 50, []
    for row in range(5000):
        item = items[row % len(items)]
        counts[item] += 1
        if counts[item] % 7 == 0:
            closed.append([item, times[row % len(items)]])
    assert cec_graph.full_windows(work).tolist() == sorted(closed)


def test_an_exponent_is_the_slope_of_the_logarithms() -> None:
    assert exponent([10, 100, 1000], [5, 50, 500]) == pytest.approx(1)
    assert exponent([1, 4, 16], [7, 14, 28]) == pytest.approx(0.5)


def test_a_share_within_q_counts_frames() -> None:
    assert share_within([(20, 10, 0), (21, 10, 0)], 2, 0) == 0.5
    assert share_within([(20, 10, 0), (21, 10, 0)], 2, 30) == 1.0


def results_queue(path: Path, items: list[int], times: list[int]) -> Path:
    """Make a queue with a result for each of these items and times, in one frame."""
    columns = {"item": items, "time": pa.array(times, pa.timestamp("us", "UTC"))}
    table = pa.table(columns)
    schema = RecordSchema(table.schema, timestamp_column="time")
    with open_queue(path, "x", schema=schema) as queue:
        queue.append(table)
    return path


@pytest.mark.parametrize(
    ("items", "times", "lost", "besides"),
    [
        ([1, 0, 1], [3, 1, 2], 0, 0),
        ([0, 1], [1, 2], 1, 0),
        ([0, 1, 1, 1], [1, 2, 3, 3], 0, 1),
        ([0, 1, 1], [1, 2, 2], 1, 1),
    ],
)
def test_results_after_a_crash_are_those_of_full_windows(
    items: list[int], times: list[int], lost: int, besides: int, tmp_path: Path
) -> None:
    path = results_queue(tmp_path / "queue", items, times)
    due = np.array([[0, 1], [1, 2], [1, 3]])
    if lost or besides:
        told = f"of 3 full windows {lost} results are lost, and {besides} are there besides"
        with pytest.raises(AssertionError, match=told):
            cec_graph.check_results(path, due)
    else:
        cec_graph.check_results(path, due)


def test_a_lost_result_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 300_000
    work = cec_graph.Work(
        items=1000, window=10, rows=rows, rows_per_s=rows, batch_rows=4096, policy={}
    )
    due = cec_graph.full_windows(work)
    monkeypatch.setattr(cec_graph, "full_windows", lambda work: np.vstack([due, due[-1:] + 1]))
    with pytest.raises(AssertionError, match="1 results are lost, and 0 are there besides"):
        cec_graph.run_with_crash(work, tmp_path / "run", kill_at=rows // 2)


def test_results_in_one_frame_have_no_rate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = cec_beyond.Case(Bids(1, 20), CountWindow(10), 0)
    operator = work.operator()
    with open_queue(tmp_path / "queue", "x", schema=record_schema(operator)) as queue:
        Runner(operator, [work.source], queue, Never()).run()
    cec_processes.sink({"in": None, "queue": str(tmp_path / "queue"), "results": 2})
    measured = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (measured["results"], measured["results_per_s"], measured["seconds"]) == (2, 0, 0)


@pytest.mark.parametrize("whole_every", [1, 4])
def test_periodic_checkpoints_come_back_to_the_same_state(whole_every, tmp_path) -> None:
    bids = Bids(300, 9_000, skew=0.5, batch_rows=500)
    work = cec_beyond.Case(bids, CountWindow(10), 0)
    operator = work.operator()
    with open_queue(tmp_path / "queue", "x", schema=record_schema(operator)) as queue:
        driver = cec_baselines.PeriodicCheckpoints(operator, bids, queue, 2_000, whole_every)
        driver.run()
        recovered = cec_baselines.recover(queue, work.operator(), bids, 9_000)
    assert len(driver.checkpoint_s) == 4
    assert recovered.replayed_rows == 1_000
    assert len(recovered.slots) == operator.open_windows
    expected = cec_baselines.states_of(operator, driver.open_slots())
    found = cec_baselines.states_of(recovered.operator, recovered.slots)
    assert cec_baselines.same_states(expected, found)
    if whole_every > 1:
        assert driver.checkpoint_windows[1] <= driver.checkpoint_windows[0]
    # It is no tautology: a state of another moment is another state.
    other = work.operator()
    with open_queue(tmp_path / "other", "x", schema=record_schema(other)) as queue:
        Runner(other, [replace(bids, rows=8_999)], queue, Never()).run()
        open_slots = np.flatnonzero(other._slots.rows)
    assert not cec_baselines.same_states(expected, cec_baselines.states_of(other, open_slots))


def test_batches_come_over_a_socket_as_they_were_sent() -> None:
    here, there = socket.socketpair()
    block = pa.record_batch(
        {"item": [1, 2, 3], "time": pa.array([5, 6, 7], pa.timestamp("us", "UTC"))}
    )
    with cec_wires.send_to(here, block.schema) as send:
        send(block)
        send(block.slice(1))
    source = cec_wires.SocketSource(there)
    reads = list(source.read(0))
    there.close()
    assert source.schema == block.schema
    assert [each.batch.num_rows for each in reads] == [3, 2]
    assert [each.offsets.tolist() for each in reads] == [[0, 1, 2], [3, 4]]
    assert reads[1].timestamps_us.tolist() == [6, 7]


def test_every_table_has_its_place_in_the_document() -> None:
    text = (DOCS / "evaluation.md").read_text(encoding="utf-8")
    for make in TABLES:
        assert text.count(f"<!-- {make.__name__} -->\n") == 1
    headline = {"headline": {"overhead_q2": 0.07}}
    once = filled_in(text, headline, TABLES)
    assert "| `overhead_q2` | 0.07 | at most 0.1 |" in once
    assert filled_in(once, headline, TABLES) == once
    with pytest.raises(ValueError, match="0 places for the table headline"):
        filled_in("nowhere", headline, TABLES)


@pytest.mark.parametrize(
    ("results", "module"),
    [
        ("cec", "cec_tables"),
        ("availability", "availability_tables"),
        ("migration", "migration_tables"),
        ("migration_spark", "migration_spark_tables"),
        ("recovery", "recovery_tables"),
    ],
)
def test_tables_of_the_document_are_those_of_the_results(results: str, module: str) -> None:
    pytest.importorskip("matplotlib")
    tables = import_module(f"bench.papers.{module}").TABLES
    figures = json.loads(results_file(results, quick=False).read_text(encoding="utf-8"))
    assert {make.__name__ for make in tables} <= figures.keys()
    text = (DOCS / "evaluation.md").read_text(encoding="utf-8")
    assert filled_in(text, figures, tables) == text


def test_the_longest_pause_is_that_of_all_rounds() -> None:
    pytest.importorskip("matplotlib")
    headline = import_module("bench.papers.cec").headline
    figures = json.loads(results_file("cec", quick=False).read_text(encoding="utf-8"))
    pauses = figures["pauses"]
    assert {name: outcome["pause_s"] for name, outcome in pauses.items()} == {
        "eventual": max(pauses["eventual"]["pauses_s"]),
        "whole": sorted(pauses["whole"]["pauses_s"])[1],
        "increments": sorted(pauses["increments"]["pauses_s"])[1],
    }
    assert headline(figures) == figures["headline"]
    assert cec_beyond.pause_s("eventual", [2.0, 5.0, 1.0]) == 5.0
    assert cec_beyond.pause_s("whole", [2.0, 5.0, 1.0]) == 2.0


def test_numbers_are_shown_with_three_digits() -> None:
    assert [cell(each) for each in (1234567, 1234567.0, 0.012345, 12.345, None, "x")] == [
        "1,234,567", "1,230,000", "0.0123", "12.3", "", "x",
    ]  # fmt: skip


def test_recorded_loads_are_those_of_all_flights() -> None:
    load = migration_input.Load()
    rows = migration_input.rows_per_s(48, load)
    first, late, third = rows.values()
    assert first.shape == late.shape == third.shape == (48, migration_input.STEPS)
    assert first.sum(axis=0).mean() == pytest.approx(load.rows_per_s)
    # The same flights, in other groups; the share that was late is that of 2013.
    assert third.sum(axis=0) == pytest.approx(first.sum(axis=0))
    assert not np.array_equal(first, third)
    assert late.sum() / first.sum() == pytest.approx(0.39, abs=0.01)


def test_a_job_fills_its_nodes_as_asked_for_and_seeds_deal_out_groups() -> None:
    jobs = [migration_input.airline_job(48, seed) for seed in range(2)]
    for job in jobs:
        at_node = job.layout.owned.T @ job.loads
        a_minute = at_node[:16].mean(axis=0).reshape(48, 6).mean(axis=1)
        assert a_minute.max() == pytest.approx(0.85)
        thirds = job.loads[:144].reshape(3, 48, -1).sum(axis=(1, 2))
        assert thirds == pytest.approx(thirds.mean())
        assert at_node[16:].mean() == pytest.approx(0.1)
        assert np.bincount(job.layout.owner).tolist() == [9] * 16 + [12] * 4
    assert np.array_equal(jobs[0].loads[:144], jobs[1].loads[:144]), "recorded once"
    assert not np.array_equal(jobs[0].layout.owner, jobs[1].layout.owner)


def test_queries_that_were_back_at_the_end_stay_so() -> None:
    pytest.importorskip("pyspark")
    from bench.fleet import fleet

    asked = fleet.Task(
        Path("nowhere"), windows=2, tweets_per_s=20, every_s=15.0, executors=5, cases=[],
        settle_s=1.0, horizon_s=500.0,
    )  # fmt: skip
    # Late batches count for 37.5 s: this one until 0.2 s before the end, between two points.
    lost_s, batches = 1_000.0, [(-10.0, 20.0), (62.8, 90.0), (80.0, 20.0), (95.0, 20.0)]
    seen = [(lost_s + done, late) for done, late in batches]
    names = asked.shape.outputs
    outcome = fleet.Outcome(
        "best case", 3, lost_s, ended_s=lost_s + 100.5, batches=dict.fromkeys(names, seen)
    )
    points = fleet.points_of(outcome, asked)
    assert points[100] == (100.0, 0), "the last point before the end"
    assert points[101] == (101.0, len(names))
    assert points[-1] == (499.0, len(names))
