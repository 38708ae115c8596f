"""Lists of a `transformWithState`, in one record or in chunks, as Python reads them."""

from random import Random

import pytest

from cec_store import CorruptLog
from cec_store.connectors.spark.checkpoint.variable_rows import variable_rows
from cec_store.connectors.spark.checkpoint.variables import Variable
from cec_store.state_logs.state_log import StateLog
from support.disks.memory_folder import MemoryFolder
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


def written(content: dict[Key, bytes | None]) -> MemoryFolder:
    folder = MemoryFolder({})
    Writer(folder, Random(1)).commit(EMPTY, content)
    return folder
