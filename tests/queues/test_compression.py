"""Queues whose columns are compressed apart: written, read in part, and sound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cec_store import OutputQueue, QueueOptions, SchemaMismatch, open_queue, read_queue
from cec_store.format.bodies import COLUMNS_BYTES_MIN
from cec_store.format.frame import Codec
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.log.chain import Chain
from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.windows import CountWindow
from cec_store.operators.inputs.sources import ArrowSource
from cec_store.operators.runner import Runner, record_schema
from cec_store.storage.local import LocalFolder

SCHEMA = pa.schema(
    {**{f"n{i}": pa.int64() for i in range(8)}, "name": pa.string(), "code": pa.string()}
)
ROWS = 4_000
BY_COLUMNS = QueueOptions(compression="columns", sync="none")


def rows(seed: int) -> pa.RecordBatch:
    random = np.random.default_rng(seed)
    columns = [pa.array(random.integers(0, 1 << 40, ROWS)) for _ in range(8)]
    columns.append(pa.array([f"name {i % 30}" for i in range(ROWS)]))
    columns.append(pa.array([None if i % 9 == 0 else f"{i * seed % 7}" for i in range(ROWS)]))
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


BATCHES = [rows(seed) for seed in range(1, 5)]


def filled(path: Path, options: QueueOptions = BY_COLUMNS) -> Path:
    with open_queue(path, "x", schema=SCHEMA, options=options) as queue:
        for number, batch in enumerate(BATCHES):
            queue.append(batch, pa.array(range(number * ROWS, (number + 1) * ROWS)))
    return path


def codecs(path: Path) -> list[int]:
    return [frame.header.codec for frame in Chain(LocalFolder(path)).frames()]


def queue_at(path: Path) -> OutputQueue:
    queue = open_queue(path)
    assert isinstance(queue, OutputQueue)
    return queue


def test_what_is_appended_is_replayed_and_sound(tmp_path: Path) -> None:
    path = filled(tmp_path / "q")
    assert codecs(path) == [Codec.COLUMNS] * len(BATCHES)
    everything = pa.Table.from_batches(BATCHES)
    assert read_queue(path).read_all().equals(everything)
    verification = verify_place(place_at(path), records=True)
    assert verification.is_sound
    with queue_at(path) as queue:
        part = queue.replay(ROWS + 5, 2 * ROWS + 3, include_metadata=True).read_all()
        assert part.select(SCHEMA.names).equals(everything.slice(ROWS + 5, ROWS - 2))
        assert part.column("_offset").to_pylist() == [*range(ROWS + 5, 2 * ROWS + 3)]


def test_a_queue_may_change_from_one_to_the_other(tmp_path: Path) -> None:
    path = filled(tmp_path / "q", QueueOptions(sync="none"))
    with open_queue(path, "a", options=BY_COLUMNS) as queue:
        queue.append(BATCHES[0], pa.array(range(ROWS)))
    with open_queue(path, "a", options=QueueOptions(sync="none")) as queue:
        queue.append(BATCHES[1], pa.array(range(ROWS)))
    assert codecs(path) == [Codec.ZSTD] * 4 + [Codec.COLUMNS, Codec.ZSTD]
    found = read_queue(path, columns=["code", "n3"]).read_all()
    due = pa.Table.from_batches([*BATCHES, *BATCHES[:2]]).select(["code", "n3"])
    assert found.equals(due)


@pytest.mark.parametrize(
    "options", [BY_COLUMNS, QueueOptions(sync="none")], ids=["columns", "body"]
)
@pytest.mark.parametrize("names", [["n2"], ["name", "n0"], ["code", "name"], SCHEMA.names[::-1]])
def test_some_columns_are_those_of_all(
    tmp_path: Path, options: QueueOptions, names: list[str]
) -> None:
    path = filled(tmp_path / "q", options)
    everything = pa.Table.from_batches(BATCHES)
    found = read_queue(path, columns=names).read_all()
    assert found.schema.names == names
    assert found.num_rows == 4 * ROWS
    assert found.equals(everything.select(names))
    with queue_at(path) as queue:
        part = queue.replay(10, ROWS + 10, columns=names, include_metadata=True)
        assert part.schema.names == [*names, "_timestamp", "_kind", "_offset"]
        assert part.read_all().select(names).equals(everything.select(names).slice(10, ROWS))


def test_columns_that_are_not_there_are_refused(tmp_path: Path) -> None:
    path = filled(tmp_path / "q")
    for wrong in (["n9"], ["_kind"], ["n1", "n1"], []):
        with pytest.raises(SchemaMismatch, match=(wrong or ["name one"])[0]):
            read_queue(path, columns=wrong)
        with (
            queue_at(path) as queue,
            pytest.raises(SchemaMismatch, match=(wrong or ["name one"])[0]),
        ):
            queue.replay(columns=wrong)


def test_a_replay_of_two_of_ten_columns_inflates_two(tmp_path: Path) -> None:
    """Counted where Arrow keeps it: a frame of each replay."""

    def allocated(path: Path, columns: list[str] | None) -> int:
        with queue_at(path) as queue:
            replay = queue.replay(columns=columns)
            before = pa.total_allocated_bytes()
            batch = next(replay)
            assert batch.num_rows == ROWS
            return pa.total_allocated_bytes() - before

    path = filled(tmp_path / "q")
    two, all_ten = allocated(path, ["n1", "n2"]), allocated(path, None)
    assert two < 0.35 * all_ten


def test_who_can_use_dictionaries_gets_them(tmp_path: Path) -> None:
    chain = Chain(LocalFolder(filled(tmp_path / "q")))
    for frame, batch in zip(chain.frames(), BATCHES, strict=True):
        found = chain.records(frame, columns=["name", "n1"], keep_dictionaries=True)
        assert found.column("name").type == pa.dictionary(pa.int8(), pa.string())
        assert found.column("name").dictionary_decode().equals(batch.column("name"))
        assert found.column("n1").equals(batch.column("n1"))


def test_records_with_state_are_compressed_as_a_whole(tmp_path: Path) -> None:
    table = pa.table({"t": [*range(20_000)], "k": [i % 4_000 for i in range(20_000)]})
    operator = Aggregate(
        group_by=["k"],
        aggregates={"n": ("count", "t")},
        window=CountWindow(3),
        input_schema=table.schema,
    )
    with open_queue(tmp_path / "q", "x", schema=record_schema(operator), options=BY_COLUMNS) as q:
        Runner(operator, [ArrowSource(table, "t")], q).run()
    frames = Chain(LocalFolder(tmp_path / "q")).frames()
    assert max(frame.header.raw_bytes for frame in frames) > COLUMNS_BYTES_MIN
    found = codecs(tmp_path / "q")
    assert found
    assert Codec.COLUMNS not in found


@pytest.mark.parametrize("wrong", ["column", "", None, 3])
def test_other_compressions_are_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="body, columns"):
        QueueOptions(compression=wrong)  # type: ignore[arg-type]
