"""Lists of a `transformWithState`, in one record or in chunks, as Python reads them."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from cec_store import CorruptLog, RecoveryError
from cec_store.connectors.spark.checkpoint.variable_rows import variable_rows
from cec_store.connectors.spark.checkpoint.variables import Variable
from cec_store.format.columns import Ints
from cec_store.format.schema import KEY, STATE
from cec_store.state_logs.state_log import StateLog
from support.disks.memory_folder import MemoryFolder
from support.models.huge_columns import huge_binaries
from support.places.state_folders import log_in
from support.places.state_logs import EMPTY, Key, Writer
from support.vectors import lists
from support.vectors.make import FOLDER

VARIABLE = Variable("schema", lists.FAMILY, lists.KEY, lists.VALUE, 0, is_list=True)
WHOLE = {
    **lists.names(chunks=True),
    lists.list_key("a"): lists.head(2),
    lists.chunk_key("a", 0): lists.chunk(0, 1, 2),
    lists.chunk_key("a", 1): lists.chunk(0, 3),
}


def lists_of(folder: MemoryFolder, at: int) -> dict[str, list[tuple[int, str | None]]]:
    found: dict[str, list[tuple[int, str | None]]] = {}
    for row in variable_rows(StateLog(folder), at, VARIABLE).to_pylist():
        element = row["list_element"]
        found.setdefault(row["key"]["k"], []).append((element["n"], element["text"]))
    return found


def test_python_reads_the_golden_lists() -> None:
    folder = log_in(FOLDER / lists.NAME)
    assert len(lists.LISTS) == 5
    for number, wanted in lists.LISTS.items():
        told = {key: [(n, lists.text_of(n)) for n in all_] for key, all_ in wanted.items()}
        assert lists_of(folder, number) == told, number


def test_a_whole_list_is_read() -> None:
    assert [n for n, _ in lists_of(written(WHOLE), 1)["a"]] == [1, 2, 3]


@pytest.mark.parametrize(
    "change",
    [
        {lists.chunk_key("a", 1): None},
        {lists.chunk_key("a", 0): None},
        {lists.chunk_key("a", 0): None, lists.chunk_key("a", 1): None},
        {lists.list_key("a"): lists.head(3)},
        {lists.list_key("a"): None},
        {lists.chunk_key("a", 1): None, lists.chunk_key("a", 2): lists.chunk(0, 3)},
        {lists.names(chunks=True).popitem()[0]: None},
        {lists.chunk_key("a", 1): b"\0\0"},
    ],
    ids=[
        "no last chunk", "no first chunk", "no chunks", "one chunk more is due", "no head",
        "a gap", "no family of chunks", "a chunk too short",
    ],
)  # fmt: skip
def test_a_list_that_is_not_whole_is_damage(change: dict[Key, bytes | None]) -> None:
    content = {key: value for key, value in (WHOLE | change).items() if value is not None}
    with pytest.raises(CorruptLog, match="list"):
        lists_of(written(content), 1)


def test_variable_beside_more_than_2_gib_of_others_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = StateLog(written(WHOLE))
    read = log.open_footprints

    def among_others(at: int | str | None) -> tuple[pa.Table, Ints]:
        table, opened = read(at)
        values = huge_binaries()
        rows = len(values)
        columns = {
            KEY: [pa.array(np.full(rows, 9, np.uint16)), pa.nulls(rows, pa.binary())],
            STATE: [values, pa.array(np.zeros(rows, np.bool_))],
        }
        others = pa.table(
            {
                name: pa.StructArray.from_arrays(fields, fields=list(table.schema.field(name).type))
                for name, fields in columns.items()
            }
        )
        return pa.concat_tables([table.select([KEY, STATE]), others, others]), opened

    monkeypatch.setattr(log, "open_footprints", among_others)
    elements = variable_rows(log, 1, VARIABLE)["list_element"].to_pylist()
    assert [element["n"] for element in elements] == [1, 2, 3]


def test_variable_of_more_than_2_gib_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(column: pa.ChunkedArray) -> pa.Array:
        raise RecoveryError("3 rows of state have more than 2 GiB")

    folder = written(WHOLE)
    monkeypatch.setattr("cec_store.connectors.spark.checkpoint.variable_rows.one_array", refuse)
    with pytest.raises(RecoveryError, match=f"^{folder.path}: variable {lists.FAMILY}: 3 rows"):
        variable_rows(StateLog(folder), 1, VARIABLE)


def written(content: dict[Key, bytes | None]) -> MemoryFolder:
    folder = MemoryFolder({})
    Writer(folder, Random(1)).commit(EMPTY, content)
    return folder
