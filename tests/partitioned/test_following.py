"""Following a queue of any layout: all partitions in commit order, blocking and async."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cec_store import (
    CecError,
    Following,
    OutOfRange,
    PartitionedQueue,
    Position,
    QueueReplaced,
    follow,
    open_queue,
)
from cec_store.errors import StoreUnreachable
from support.contract.layouts import (
    MANY,
    MANY_IN_MEMORY,
    PLAIN,
    PLAIN_IN_STORE,
    Layout,
    Opened,
    every_layout,
    layout_at,
)

IN_PROCESS = (PLAIN, PLAIN_IN_STORE, MANY, MANY_IN_MEMORY)


def following_of(layout: Layout, **more: Any) -> Following:
    return follow(layout.url, storage_options=layout.options, **more)


def available(following: Following) -> list[int]:
    return [n for batch in following.available() for n in batch.column("n").to_pylist()]


@every_layout()
def test_rows_come_in_the_order_of_the_commits(layout: Layout) -> None:
    with layout.open() as queue:
        queue.fill(7, rows=3)
        with following_of(layout) as following:
            assert available(following) == [*range(21)]
            assert available(following) == []
            queue.fill(4, first=21)
            assert available(following) == [*range(21, 29)]


@every_layout()
@pytest.mark.parametrize("count", [0, 1, 4, 5, 20, 99])
def test_the_last_rows_come_first(count: int, layout: Layout) -> None:
    with layout.open() as queue:
        queue.fill(10, rows=2)
        with following_of(layout, last=count) as following:
            assert available(following) == [*range(20)][max(0, 20 - count) :]
            queue.append([20])
            assert available(following) == [20]


@every_layout()
def test_moments_select_rows(layout: Layout) -> None:
    with layout.open() as queue:
        for number in (5, 3, 9, 1, 8):
            queue.append([number])
        with following_of(layout, since=4000) as following:
            assert available(following) == [5, 9, 8]
            queue.append([2])
            queue.append([7])
            assert available(following) == [7]
        with following_of(layout, since=4000, until=9000, last=2) as following:
            assert available(following) == [8, 7]


@every_layout()
def test_a_cursor_goes_on_with_the_next_row(layout: Layout) -> None:
    with layout.open() as queue:
        queue.fill(5)
        with following_of(layout, columns=["n"]) as following:
            seen = [next(following)["n"].to_pylist() for _ in range(3)]
            cursor = following.cursor
        with following_of(layout, resume=cursor) as following:
            rest = available(following)
    assert [n for part in seen for n in part] + rest == [*range(10)]


@every_layout(among=IN_PROCESS)
def test_a_cursor_of_another_queue_is_refused(layout: Layout) -> None:
    layout.open().close()
    with following_of(layout) as following:
        cursor = following.cursor
    layout.remove()
    layout.open().close()
    with pytest.raises(QueueReplaced):
        following_of(layout, resume=cursor)
    with pytest.raises((CecError, ValueError)):
        following_of(layout, resume='"no cursor"')
    with pytest.raises(ValueError, match="last -1"):
        following_of(layout, last=-1)


@every_layout(among=IN_PROCESS)
def test_a_cursor_or_a_position_beyond_an_older_copy_is_refused(layout: Layout) -> None:
    """Once the copy has grown past it, rows in between would be passed over."""
    copy = layout.beside("copy")
    with layout.open() as queue:
        queue.append([0, 1, 2])
        layout.copy_to(copy)
        queue.append([3, 4])
        queue.append([5, 6, 7])
    with following_of(layout) as following:
        assert sorted(available(following)) == [*range(8)]
        cursor = following.cursor
        queue_id = following._queue.queue_id
    layout.remove()
    copy.copy_to(layout)
    with pytest.raises(QueueReplaced):
        following_of(layout, resume=cursor)
    if layout.is_plain:
        with pytest.raises(QueueReplaced, match="an older copy"):
            following_of(layout, since=Position(8, queue=queue_id))


@every_layout(among=(PLAIN, MANY))
def test_a_queue_that_is_replaced_is_told(layout: Layout) -> None:
    layout.open().close()
    with following_of(layout) as following:
        assert available(following) == []
        layout.remove()
        with pytest.raises(QueueReplaced, match=layout.url):
            available(following)
        layout.open().close()
        with pytest.raises(QueueReplaced, match=layout.url):
            available(following)


@every_layout(among=(PLAIN, MANY))
def test_rows_that_were_trimmed_before_are_told(layout: Layout) -> None:
    with layout.open() as queue:
        queue.fill(3)
        with following_of(layout) as following:
            queue.fill(6, first=6)
            ends = queue.ends()
            queue.trim(ends)
            if any(start > 0 for start in queue.starts().values()):
                with pytest.raises(OutOfRange):
                    available(following)


@every_layout(among=IN_PROCESS)
def test_it_waits_for_a_writer(layout: Layout) -> None:
    with layout.open() as queue, following_of(layout) as following:
        late = threading.Timer(0.1, lambda: queue.append([7]))
        late.start()
        assert next(following)["n"].to_pylist() == [7]
        late.join()
        assert layout.url.rpartition("/")[2] in following.waits_for
        threading.Timer(0.1, following.stop).start()
        assert list(following) == []


@every_layout(among=IN_PROCESS)
def test_it_is_followed_by_a_loop_of_events(layout: Layout) -> None:
    async def read(following: Following, count: int) -> list[int]:
        numbers: list[int] = []
        async for batch in following:
            numbers += batch.column("n").to_pylist()
            if len(numbers) >= count:
                return numbers
        return numbers

    async def both(queue: Opened, following: Following) -> list[int]:
        reading = asyncio.create_task(read(following, 6))
        await asyncio.sleep(0.05)
        queue.fill(3)
        numbers = await reading
        # A reader that gives up loses nothing.
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(read(following, 1), 0.05)
        queue.append([6])
        numbers += await read(following, 1)
        following.stop()
        return numbers + await read(following, 1)

    with layout.open() as queue, following_of(layout) as following:
        assert asyncio.run(both(queue, following)) == [*range(7)]


@every_layout(among=IN_PROCESS)
def test_a_cursor_is_behind_the_rows_that_the_caller_has(layout: Layout) -> None:
    """A thread may have read on for a caller that has given up."""

    async def give_up(following: Following) -> None:
        following_next = following._next

        def slowly() -> Any:
            time.sleep(0.1)
            return following_next()

        following._next = slowly  # type: ignore[method-assign]
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(following), 0.02)
        assert following._reading is not None
        await following._reading

    with layout.open() as queue, following_of(layout) as following:
        before = following.cursor
        queue.append([7])
        asyncio.run(give_up(following))
        assert following.cursor == before
        with following_of(layout, resume=following.cursor) as other:
            assert next(other).column("n").to_pylist() == [7]


@every_layout(among=IN_PROCESS)
def test_a_loop_of_events_goes_on_after_an_error(layout: Layout) -> None:
    async def read(following: Following) -> list[int]:
        refresh = following._queue.refresh
        following._queue.refresh = unreachable  # type: ignore[method-assign]
        with pytest.raises(StoreUnreachable):
            await anext(following)
        following._queue.refresh = refresh  # type: ignore[method-assign]
        numbers: list[int] = (await anext(following)).column("n").to_pylist()
        return numbers

    def unreachable() -> None:
        raise StoreUnreachable("it is away")

    with layout.open() as queue, following_of(layout) as following:
        queue.append([7])
        assert asyncio.run(read(following)) == [7]


STEPS = st.lists(
    st.lists(st.integers(0, 9), max_size=4) | st.sampled_from(["cut", "merge", "look"]), max_size=12
)


@pytest.mark.parametrize("name", IN_PROCESS)
@settings(max_examples=25)
@given(
    before=STEPS, after=STEPS,
    since=st.none() | st.integers(0, 9), last=st.none() | st.integers(0, 12),
)  # fmt: skip
def test_any_history_is_followed(
    name: str, before: Any, after: Any, since: int | None, last: int | None, tmp_path_factory: Any
) -> None:
    layout = layout_at(name, tmp_path_factory.mktemp("follow"), lambda: "")
    rows: list[int] = []
    with layout.open() as queue:
        for step in before:
            take(queue, step, rows)
        selected = [n for n in rows if since is None or n >= since]
        expected = selected if last is None else selected[len(selected) - last :] if last else []
        if last is not None and last > len(selected):
            expected = selected
        bound = None if since is None else 1000 * since
        with following_of(layout, since=bound, last=last) as following:
            seen, more = [], []
            for step in after:
                if step == "look":
                    seen += available(following)
                take(queue, step, more)
            seen += available(following)
    assert seen == expected + [n for n in more if since is None or n >= since]


def take(queue: Opened, step: list[int] | str, rows: list[int]) -> None:
    if isinstance(step, list):
        queue.append(step)
        rows += step
    elif step == "cut":
        queue.cut()
    elif step == "merge" and isinstance(queue.queue, PartitionedQueue):
        queue.queue.merge()


def test_two_hundred_partitions_come_commit_by_commit(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64()), ("commit", pa.int64())])
    with open_queue(tmp_path / "q", "a", schema=schema, partitions=200, key_columns=["n"]) as queue:
        for commit in range(5):
            queue.append(pa.table({"n": [*range(300)], "commit": [commit] * 300}, schema=schema))
    with follow(tmp_path / "q", last=900) as following:
        commits = [c for batch in following.available() for c in batch["commit"].to_pylist()]
    assert commits == [c for c in (2, 3, 4) for _ in range(300)]
