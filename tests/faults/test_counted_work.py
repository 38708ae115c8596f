"""What is done is counted, not timed: bytes, opens, reads and looks for a given amount of work."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cec_store import open_queue
from cec_store.indexes import files
from cec_store.log import reader
from cec_store.operators import Aggregate, ArrowSource, CountWindow, Runner, record_schema
from cec_store.storage.local import LocalFolder
from support.disks.memory_folder import MemoryFolder


def test_a_rebuild_decodes_no_column_that_it_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = Aggregate(
        group_by=["k"], aggregates={"rows": ("count",)}, window=CountWindow(3),
        input_schema=pa.schema([("k", pa.int64()), ("t", pa.int64())]),
    )  # fmt: skip
    queue = open_queue(MemoryFolder({}), "a", schema=record_schema(operator))
    at = np.arange(2_000)
    table = pa.table({"k": at % 50, "t": at})
    Runner(operator, [ArrowSource(table, "t")], queue, step_rows_max=100).run()
    decoded: list[list[str]] = []
    decode_body = reader.decode_body

    def count(*given: Any) -> pa.RecordBatch:
        records = decode_body(*given)
        decoded.append(records.schema.names)
        return records

    monkeypatch.setattr(reader, "decode_body", count)
    assert queue.rebuild().open_windows
    assert decoded
    assert {name for names in decoded for name in names} == {"_kind", "_input_0", "_key", "_state"}
    assert len(queue.schema.arrow.names) == 7, "nothing to drop"
    queue.close()


def test_an_index_is_checksummed_once_and_not_at_every_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "queue"
    with open_queue(path, "x", schema=pa.schema([("n", pa.int64())])) as queue:
        for number in range(300):
            queue.append(pa.record_batch({"n": [number]}), pa.array([number]))
        queue.sync()
        queue.position_at(0)
    monkeypatch.setattr(files, "_SETTLED_NS", 0)
    read, bytes_read = LocalFolder.read, 0

    def counted(self: LocalFolder, name: str, byte: int, size: int) -> bytes:
        nonlocal bytes_read
        data = read(self, name, byte, size)
        bytes_read += len(data) if name.endswith(".mdb") else 0
        return data

    monkeypatch.setattr(LocalFolder, "read", counted)
    (index,) = (path / "index").glob("*.mdb")
    for _ in range(5):
        with open_queue(path) as reader:
            assert reader.position_at(7).offset == 7
    assert bytes_read == index.stat().st_size, "before, five times as much"
    data = bytearray(index.read_bytes())
    data[len(data) // 2] ^= 1
    index.write_bytes(data)
    with open_queue(path) as reader:
        assert reader.position_at(7).offset == 7
        assert reader._timestamp_index().problem, "believed an index that was changed"
