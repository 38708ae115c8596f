"""What tests of the sink in the JVM share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cec_store
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.storage.stores.local_store import LocalStore

JVM = "cec"


def queue_at(path: Path) -> ReferenceQueue:
    return ReferenceQueue(LocalStore(path))


def rows_of(path: Path) -> pa.Table:
    return cec_store.read_queue(path).read_all()


def numbers(path: Path) -> list[int]:
    return sorted(rows_of(path).column("n").to_pylist())


def frame(session: Any, first: int = 0, count: int = 1000, parts: int = 2) -> Any:
    return session.range(first, first + count, 1, parts).selectExpr(
        "id as n", "cast(id % 7 as string) as item", "timestamp_micros(id * 1000000) as at"
    )


def writer(rows: Any, **options: object) -> Any:
    return rows.write.format(JVM).options(**options).mode("append")


def refused(act: Callable[[], Any]) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        act()
    return str(caught.value)


def objects(path: Path) -> set[str]:
    return {f.relative_to(path).as_posix() for f in (path / "data").rglob("*") if f.is_file()}


def named(path: Path) -> set[str]:
    return set(queue_at(path).state.live.column("file").to_pylist())


def rubbish(path: Path) -> set[str]:
    """What writers have left that no commit names."""
    return objects(path) - named(path)
