"""A writer that took over from one that hangs is protected as any other."""

from pathlib import Path

import pyarrow as pa
import pytest

from cec_store import open_queue
from cec_store.errors import Fenced, QueueLocked
from cec_store.log.notes import refuse_if_held
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import WRITER_LOCK

SCHEMA = pa.schema([("n", pa.int64())])
ROW = pa.record_batch([[1]], names=["n"])


def test_after_a_takeover_the_queue_is_locked(tmp_path: Path) -> None:
    """A hangs, B takes over, A dies: C is told so, and B goes on."""
    path = str(tmp_path / "queue")
    open_queue(path, "a", schema=SCHEMA).close()
    hung = LocalFolder(path).lock(WRITER_LOCK)
    with open_queue(path, "a", takeover=True) as successor:
        hung.close()
        before = sorted(LocalFolder(path).names())
        for _ in range(2):
            with pytest.raises(QueueLocked, match="by a takeover"):
                open_queue(path, "a")
        assert sorted(LocalFolder(path).names()) == before
        successor.append(ROW, sync=True)
    with open_queue(path, "a") as later:
        assert later.durable_offset == 1


def test_a_second_takeover_passes_the_first(tmp_path: Path) -> None:
    path = str(tmp_path / "queue")
    open_queue(path, "a", schema=SCHEMA).close()
    hung = LocalFolder(path).lock(WRITER_LOCK)
    first = open_queue(path, "a", takeover=True)
    with open_queue(path, "a", takeover=True) as second:
        second.append(ROW, sync=True)
        first.append(ROW)
        with pytest.raises(Fenced):
            first.close()
        hung.close()
        with pytest.raises(QueueLocked, match="by a takeover"):
            open_queue(path, "a")


def test_who_is_making_a_queue_is_not_taken_over_from(tmp_path: Path) -> None:
    (tmp_path / "queue").mkdir()
    maker = LocalFolder(tmp_path / "queue").lock(WRITER_LOCK)
    for _ in range(2):
        with pytest.raises(QueueLocked, match=r"is making this queue; .* end it and open again"):
            open_queue(tmp_path / "queue", "a", schema=SCHEMA, takeover=True)
    maker.close()
    open_queue(tmp_path / "queue", "a", schema=SCHEMA, takeover=True).close()


def test_looking_whether_it_is_held_takes_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "queue")
    open_queue(path, "a", schema=SCHEMA).close()
    folder = LocalFolder(path)
    for _ in range(3):
        refuse_if_held(folder)
    open_queue(path, "a").close()
