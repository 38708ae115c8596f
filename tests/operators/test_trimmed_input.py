"""Upstream backup goes on where the input that its last output came of is gone already."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cec_store import Fenced, OutputQueue, QueueInput, QueueOptions, Standby, open_queue
from cec_store.operators import Filter, QueueSource, Runner, record_schema

SCHEMA = pa.schema([("n", pa.int64())])
OPTIONS = QueueOptions(segment_bytes=500)


def passes_few() -> Filter:
    return Filter(pc.field("n") < 17, SCHEMA)


def test_a_last_output_row_that_is_older_than_the_input_that_is_left(tmp_path: Path) -> None:
    with open_queue(tmp_path / "input", "x", schema=SCHEMA, options=OPTIONS) as upstream:
        for first in range(0, 40, 10):
            numbers = pa.array(range(first, first + 10))
            upstream.append(pa.record_batch([numbers], schema=SCHEMA), numbers)
        upstream.sync()
        with open_queue(tmp_path / "output", "x", schema=record_schema(passes_few())) as queue:
            taken = upstream.consumer("operator")
            runner = Runner(
                passes_few(), [QueueSource(upstream.chain, taken)], queue, checkpoints=False
            )
            runner.run()  # the last frame took rows 10 to 19, and its last record came of row 16
            assert taken.effects_saved == 40
            upstream.trim(taken.effects_saved)
            assert upstream.chain().first_offset() > 17
            taken.close()
        with open_queue(tmp_path / "output", "a") as queue:
            again = upstream.consumer("operator")
            # Before: "offset 17 is not in …", and no standby could take over any more.
            runner = Runner(
                passes_few(), [QueueSource(upstream.chain, again)], queue, checkpoints=False
            )
            upstream.append(pa.record_batch([pa.array([3])], schema=SCHEMA), pa.array([40]))
            upstream.sync()
            runner.run()
            assert queue.replay().read_all().column("n").to_pylist() == [*range(17), 3]
            again.close()


def test_a_fenced_runner_whose_input_is_gone_is_told_that_it_is_fenced(tmp_path: Path) -> None:
    """It slept, and whoever took over has acknowledged its input: nothing is to be registered."""
    with open_queue(tmp_path / "input", "x", schema=SCHEMA, options=OPTIONS) as upstream:
        add(upstream, 0)
        queue = open_queue(tmp_path / "output", "x", schema=record_schema(passes_few()))
        source = QueueSource(upstream.chain, upstream.consumer("operator"))
        asleep = Runner(passes_few(), [source], queue)
        asleep.run()
        for first in range(10, 60, 10):
            add(upstream, first)
        inputs = [QueueInput(upstream, "operator")]
        with Standby(tmp_path / "output", passes_few, inputs, "eventual") as standby:
            taken = standby.take_over()
        taken.runner.run()
        upstream.trim(upstream.end_offset)
        assert upstream.chain().first_offset() > 10
        for _ in range(2):
            with pytest.raises(Fenced, match="has taken over"):
                asleep.run()
        taken.queue.close()


def add(queue: OutputQueue, first: int) -> None:
    numbers = pa.array(range(first, first + 10))
    queue.append(pa.record_batch([numbers], schema=SCHEMA), numbers, sync=True)
    queue.roll()
