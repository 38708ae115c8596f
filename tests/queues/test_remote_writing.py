"""Appending to a queue in a store: an object a group, one writer, nothing lost whatever fails."""

from __future__ import annotations

import random
import secrets
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest

from cec_store import (
    CecError,
    CorruptLog,
    DurabilityLost,
    Fenced,
    NotAQueue,
    OutputQueue,
    Poisoned,
    QueueOptions,
    ReadOnly,
    SchemaMismatch,
    StoreUnreachable,
    follow,
    open_queue,
    read_queue,
)
from cec_store.format.frame import FrameType
from cec_store.format.scan import intact_headers
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.ledger.commit_chain import CommitChain, chain_at
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.storage.names import commit_object_name
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.fsspec_store import FsspecStore
from cec_store.storage.stores.retrying import Retries
from cec_store.storage.stores.store import Entry, Store
from cec_store.storage.stores.store_folder import StoreFolder
from support.stores.copies import contents, in_memory
from support.stores.counting import CountingStore
from support.stores.faulty_proxy import FAULTS, FaultyProxy, Request, proxy_to
from support.stores.needed import need
from support.stores.s3_server import BUCKET, options_of
from support.stores.webhdfs_double import webhdfs_double

need("fsspec")
SCHEMA = pa.schema([("n", pa.int64())])
FAST = Retries(attempts=2, first_pause_s=0.01, pause_s_max=0.02)


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": list(numbers)}, schema=SCHEMA)


def numbers(url: str | StoreFolder, **options: Any) -> list[int]:
    found: list[int] = read_queue(url, **options).read_all()["n"].to_pylist()
    return found


def opened(folder: str | StoreFolder, mode: str = "a", **more: Any) -> OutputQueue:
    queue = open_queue(folder, mode, schema=SCHEMA, **more)
    assert isinstance(queue, OutputQueue)
    return queue


def faults(url: str, options: Any = None) -> list[str]:
    found = verify_place(place_at(url, options), records=True)
    assert found.logs or found.faults
    return [str(fault) for fault in found.faults]


@pytest.fixture
def url() -> str:
    return in_memory()


# -- one after the other ----------------------------------------------------------------------


def test_what_was_appended_is_read_over_many_lives(url: str) -> None:
    expected: list[int] = []
    for life in range(5):
        with opened(url) as queue:
            assert queue.end_offset == len(expected)
            for number in range(10):
                queue.append(rows(10 * life + number), sync=number % 3 == 0)
                expected.append(10 * life + number)
        assert numbers(url) == expected
    assert faults(url) == []


def test_a_group_commit_is_one_object_and_one_request(url: str) -> None:
    store = CountingStore(store_at(url))
    queue = opened(StoreFolder(store), options=QueueOptions(group_max_wait_ms=60_000))
    store.calls.clear()
    for group in range(5):
        for number in range(10):
            queue.append(rows(10 * group + number))
        queue.sync()
    made = [name for kind, name in store.calls if kind == "create"]
    assert made == [commit_object_name(1 + n) for n in range(5)]
    assert store.counts().get("read", 0) == 5  # each proves the commit before it
    assert store.counts().get("list", 0) == 0
    queue.close()
    assert numbers(url) == list(range(50))


def test_groups_wait_a_tenth_of_a_second_there() -> None:
    options = QueueOptions()
    assert (options.group_wait_ms(in_store=True), options.group_wait_ms(in_store=False)) == (100, 2)
    assert QueueOptions(group_max_wait_ms=7).group_wait_ms(in_store=True) == 7


def test_who_follows_asks_one_thing_at_a_time(url: str) -> None:
    queue = opened(url)
    store = CountingStore(store_at(url))
    chain = chain_at(StoreFolder(store))
    store.calls.clear()
    for _ in range(7):
        assert chain.refresh().offset == 0
    assert store.counts() == {"read": 7}
    queue.append(rows(1, 2), sync=True)
    queue.append(rows(3), sync=True)
    store.calls.clear()
    assert chain.refresh().offset == 3
    assert store.counts() == {"read": 3}  # each commit holds its rows, and the next is not there
    queue.close()


def test_a_replay_follows_the_writer(url: str) -> None:
    writer = opened(url)
    reader = open_queue(url)
    assert isinstance(reader, OutputQueue)
    replay, seen = reader.replay(follow=True), []
    feeding = threading.Thread(
        target=lambda: [writer.append(rows(n), sync=n % 5 == 4) for n in range(50)]
    )
    feeding.start()
    for batch in replay:
        seen += batch["n"].to_pylist()
        if len(seen) == 50:
            break
    feeding.join()
    assert seen == list(range(50))
    replay.stop()
    writer.close()
    reader.close()


def test_a_queue_of_another_kind_is_not_appended_to(url: str, tmp_path: Path) -> None:
    with opened(url) as queue:
        queue.append(rows(1), sync=True)
    with pytest.raises(SchemaMismatch):
        open_queue(url, "a", schema=pa.schema([("other", pa.string())]))
    with pytest.raises(FileExistsError):
        opened(url, "x")
    with pytest.raises(NotAQueue, match="give a schema"):
        open_queue(in_memory(), "a")
    foreign = in_memory()
    store_at(foreign).create("notes.txt", [b"mine"])
    with pytest.raises(NotAQueue, match="not empty"):
        opened(foreign)
    assert contents(store_at(foreign)) == {"notes.txt": b"mine"}
    with opened(url) as queue, pytest.raises(ReadOnly, match="has no consumers"):
        queue.consumer("x")
    assert numbers(url) == [1]


def test_a_retention_is_kept_and_segments_go(url: str) -> None:
    with opened(url, retention="1B") as queue:
        assert str(queue.retention) == "1B"
        for number in range(10):
            queue.append(rows(number), sync=True)
        assert queue.trim() == 9
        queue.append(rows(10), sync=True)
    assert numbers(url) == [9, 10]
    with opened(url) as queue:
        queue.append(rows(11), sync=True)
        assert queue.trim(11) == 11
    assert numbers(url) == [11]
    assert faults(url) == []


def test_a_trim_goes_on_beside_a_reader(url: str) -> None:
    with opened(url) as queue:
        for number in range(10):
            queue.append(rows(number), sync=True)
        reader = open_queue(url)
        assert isinstance(reader, OutputQueue)
        chain = reader.chain()
        queue.trim(8)
        assert reader.replay().read_all()["n"].to_pylist() == [8, 9]
        assert chain.refresh().offset == 10
        reader.close()


def test_a_copy_on_local_files_goes_on_there(url: str, tmp_path: Path) -> None:
    with opened(url) as queue:
        for number in range(5):
            queue.append(rows(number), sync=True)
    path = tmp_path / "q"
    for name, data in contents(store_at(url)).items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    assert numbers(str(path)) == list(range(5))
    with open_queue(path, "a") as queue:
        queue.append(rows(5), sync=True)
    assert numbers(str(path)) == list(range(6))
    assert faults(str(path)) == []


def test_the_bytes_are_those_of_the_format(url: str) -> None:
    """Frames in commits have the numbers of the log, and name the frame before them."""
    with opened(url) as queue:
        queue.append(rows(7, 8), sync=True)
        queue.append(rows(9))
        queue.append(rows(10, 11), sync=True)
    store = store_at(url)
    states = ReferenceLog(store)
    for number, seqs, offsets in ((1, [0], [0]), (2, [1, 2], [2, 3])):
        commit = states.commit(number)
        (row,) = commit.segments.to_pylist()
        data = store.read(commit_object_name(number))
        assert row["byte"] + row["bytes"] == len(data)
        found = [header for _, header in intact_headers(data) if header.type == FrameType.BATCH]
        assert [header.seq for header in found] == seqs
        assert [header.first_offset for header in found] == offsets
        assert {header.salt for header in found} == {row["salt"]} != {commit.salt}
        assert all(header.schema_byte == header.durable_upto == 0 for header in found)
    before = states.commit(1).segments.to_pylist()[0]["byte"]
    assert [(h.prev_segment, h.prev_byte) for h in found] == [(1, before), (2, row["byte"])]
    assert states.commit(0).commit.settings["writer"]
    assert states.commit(3).commit.settings["writer"] == ""


def test_a_follower_is_told_of_damage_at_each_look(url: str) -> None:
    with opened(url) as queue, follow(url) as following:
        queue.append(rows(1), sync=True)
        assert next(following).column("n").to_pylist() == [1]
        queue.append(rows(2), sync=True)
        newest = ReferenceLog(store_at(url)).open().live.to_pylist()[-1]
        data = bytearray(store_at(url).read(newest["file"]))
        data[newest["byte"] + 8] ^= 1
        fsspec.filesystem("memory").pipe_file(f"{url}/{newest['file']}", bytes(data))
        for _ in range(2):
            with pytest.raises(CorruptLog, match=newest["file"]):
                next(following.available())


# -- one writer -------------------------------------------------------------------------------


def test_who_opens_takes_over_and_the_one_before_is_fenced(url: str) -> None:
    first = opened(url)
    first.append(rows(1), sync=True)
    second = opened(url)
    second.append(rows(2), sync=True)
    first.append(rows(3))
    with pytest.raises(Fenced, match="another writer has taken over"):
        first.sync()
    for call in (lambda: first.append(rows(4)), first.sync, first.roll, first.close):
        with pytest.raises(Fenced, match="another writer has taken over"):
            call()
    second.append(rows(5), sync=True)
    second.close()
    assert numbers(url) == [1, 2, 5]
    assert faults(url) == []


def test_an_opener_of_whom_another_has_taken_over_meanwhile_is_fenced(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer and another opener act behind its commit, before it has the queue."""
    writer = opened(url)
    writer.append(rows(1), sync=True)
    add = CommitChain.add
    later: list[OutputQueue] = []

    def added(chain: CommitChain, commit_after: Any) -> Any:
        monkeypatch.setattr(CommitChain, "add", add)
        end = add(chain, commit_after)
        with pytest.raises(Fenced):
            writer.append(rows(2), sync=True)
        later.append(opened(url))
        return end

    monkeypatch.setattr(CommitChain, "add", added)
    overtaken = opened(url)
    with pytest.raises(Fenced, match="another writer has taken over"):
        overtaken.append(rows(4), sync=True)
    later[0].append(rows(3), sync=True)
    later[0].close()
    assert numbers(url) == [1, 3]
    assert faults(url) == []


def test_a_writer_that_is_busy_is_stopped(url: str) -> None:
    first = opened(url, options=QueueOptions(sync="commit"))
    acknowledged: list[int] = []
    failed: list[BaseException] = []

    def append() -> None:
        number = 0
        try:
            while True:
                first.append(rows(number), sync=True)
                acknowledged.append(number)
                number += 1
        except CecError as error:
            failed.append(error)

    busy = threading.Thread(target=append)
    busy.start()
    while len(acknowledged) < 10:
        time.sleep(0.01)
    second = opened(url)
    busy.join()
    assert isinstance(failed[0], Fenced)
    second.append(rows(-1), sync=True)
    second.close()
    assert numbers(url) == [*acknowledged, -1]


def test_of_many_who_make_it_one_queue_is_made_and_nothing_is_lost(url: str) -> None:
    acknowledged: list[int] = []
    generator = random.Random(8)

    def work(number: int) -> None:
        for turn in range(10):
            time.sleep(generator.uniform(0, 0.4))
            try:
                with opened(url) as queue:
                    for n in range(3):
                        value = 1000 * number + 10 * turn + n
                        queue.append(rows(value), sync=True)
                        acknowledged.append(value)
            except (Fenced, DurabilityLost, Poisoned):
                continue

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = numbers(url)
    assert len(found) == len(set(found))
    assert set(acknowledged) <= set(found)
    assert len(acknowledged) > 10
    assert faults(url) == []


def test_who_died_while_making_it_is_followed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    create = FsspecStore.create

    def dying(self: FsspecStore, name: str, parts: Any) -> None:
        create(self, name, parts)
        if name.endswith(".commit"):
            raise StoreUnreachable("gone")

    monkeypatch.setattr(FsspecStore, "create", dying)
    with pytest.raises(StoreUnreachable):
        opened(url)
    monkeypatch.setattr(FsspecStore, "create", create)
    assert set(contents(store_at(url))) == {commit_object_name(0)}
    assert numbers(url) == []
    with opened(url) as queue:
        queue.append(rows(1), sync=True)
    assert numbers(url) == [1]
    assert faults(url) == []


def test_a_queue_of_one_writer_is_not_appended_to_by_others(url: str) -> None:
    with opened(url) as queue:
        queue.append(rows(1), sync=True)
    before = contents(store_at(url))
    with pytest.raises(NotAQueue, match="one writer"):
        open_queue(url, "a", schema=SCHEMA, partitions=1)
    assert contents(store_at(url)) == before


# -- damage -----------------------------------------------------------------------------------


def filled(url: str) -> Store:
    with opened(url) as queue:
        for number in range(6):
            queue.append(rows(number), sync=True)
    return store_at(url)


@pytest.mark.parametrize("segment", [0, 1, 3, 5, 6])
def test_a_segment_that_is_lost_is_damage(url: str, segment: int) -> None:
    """The newest as well, once its writer has been closed."""
    store = filled(url)
    store.delete([commit_object_name(segment)])
    before = contents(store)
    with pytest.raises(CorruptLog):
        numbers(url)
    if segment in (0, 5, 6):  # whoever opens it reads the newest commits, and what made it
        with pytest.raises(CorruptLog):
            opened(url)
    assert faults(url)
    assert contents(store) == before


@pytest.mark.parametrize("segment", [1, 6])
@pytest.mark.parametrize("byte", [3, 200, -1, -30, -150])
def test_a_bit_that_flips_is_damage(url: str, segment: int, byte: int) -> None:
    store = filled(url)
    name = commit_object_name(segment)
    data = bytearray(store.read(name))
    data[byte] ^= 1
    store.delete([name])
    store.create(name, [bytes(data)])
    assert any(name in fault for fault in faults(url))
    if segment == 6 and byte in (3, 200):
        with pytest.raises(CorruptLog, match=name):
            opened(url)


@pytest.mark.parametrize("byte", [3, 200, 600, -1, -30, -150])
def test_of_a_killed_writers_newest_object_readers_miss_each_bit(url: str, byte: int) -> None:
    """No commit behind it names it."""
    store = filled(url)
    name = commit_object_name(6)
    data = bytearray(store.read(name))
    data[byte] ^= 1
    store.delete([name, commit_object_name(7)])
    store.create(name, [bytes(data)])
    with pytest.raises(CorruptLog, match=name):
        numbers(url)


# -- stores that fail -------------------------------------------------------------------------


@pytest.fixture
def proxy(s3_address: str) -> Any:
    with proxy_to(s3_address) as proxy:
        yield proxy


def store_behind(proxy: FaultyProxy, name: str) -> StoreFolder:
    options = options_of(proxy.address, read_timeout=0.5, connect_timeout=0.5)
    return StoreFolder(store_at(f"s3://{BUCKET}/{name}", options, retries=FAST))


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_a_store_that_fails_loses_nothing_and_doubles_nothing(
    proxy: FaultyProxy, s3_address: str, share: float
) -> None:
    """Whoever is not told looks how far the log has come, as an operator does."""
    name, generator = f"faults/{secrets.token_hex(8)}", random.Random(int(100 * share))
    kinds = [fault for fault in FAULTS if fault != "late"]

    def decide(number: int, request: Request) -> str:
        return generator.choice(kinds) if generator.random() < share else ""

    due = failures = 0
    while due < 30:
        proxy.expect(decide)
        try:
            with opened(store_behind(proxy, name)) as queue:
                assert queue.end_offset >= due
                due = queue.end_offset
                for _ in range(10):
                    queue.append(rows(due), sync=True)
                    due += 1
        except (CecError, FileNotFoundError):
            failures += 1
            assert failures < 500
    url, options = f"s3://{BUCKET}/{name}", options_of(s3_address)
    assert numbers(url, storage_options=options)[:due] == list(range(due))
    assert failures or share < 0.5
    assert faults(url, options) == []


@pytest.mark.parametrize("fault", ["lost", "twice", "failed after", "busy", "refused"])
def test_one_failure_of_each_put_is_overcome(
    proxy: FaultyProxy, s3_address: str, fault: str
) -> None:
    name = f"faults/{secrets.token_hex(8)}"
    seen: set[str] = set()

    def decide(number: int, request: Request) -> str:
        if request.kind != "put" or request.path in seen:
            return ""
        seen.add(request.path)
        return fault

    proxy.expect(decide)
    with opened(store_behind(proxy, name)) as queue:
        for number in range(5):
            queue.append(rows(number), sync=True)
    assert len(seen) >= 7
    url = f"s3://{BUCKET}/{name}"
    assert numbers(url, storage_options=options_of(s3_address)) == list(range(5))


def test_a_store_that_is_gone_acknowledges_nothing(proxy: FaultyProxy, s3_address: str) -> None:
    name = f"faults/{secrets.token_hex(8)}"
    queue = opened(store_behind(proxy, name))
    queue.append(rows(1), sync=True)
    proxy.expect(lambda number, request: "refused")
    queue.append(rows(2))
    with pytest.raises(DurabilityLost):
        queue.sync()
    with pytest.raises(CecError):
        queue.close()
    proxy.expect()
    url = f"s3://{BUCKET}/{name}"
    assert numbers(url, storage_options=options_of(s3_address)) == [1]


def test_a_listing_that_lags_hides_nothing_from_a_writer(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a listing leaves out, of what was made last: numbers are given once."""
    generator = random.Random(3)
    plain = FsspecStore.list

    def lagging(self: FsspecStore, folder: str = "") -> list[Entry]:
        found = plain(self, folder)
        commits = [entry for entry in found if entry.name.endswith(".commit")]
        hidden = commits[len(commits) - generator.randrange(3) :] if len(commits) > 3 else []
        return [entry for entry in found if entry not in hidden]

    with opened(url) as queue:
        for number in range(5):
            queue.append(rows(number), sync=True)
    monkeypatch.setattr(FsspecStore, "list", lagging)
    for life in range(1, 8):
        queue = opened(url)
        assert queue.end_offset == 5 * life
        for number in range(5):
            queue.append(rows(5 * life + number), sync=True)
        if life % 2:
            queue.close()
    monkeypatch.setattr(FsspecStore, "list", plain)
    assert numbers(url) == list(range(40))
    assert faults(url) == []


@pytest.mark.parametrize("kind", ["s3", "webhdfs"])
def test_a_queue_lives_in_a_store_of_any_kind(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        name = secrets.token_hex(8)
        if kind == "s3":
            url = f"s3://{BUCKET}/kinds/{name}"
            options = options_of(request.getfixturevalue("s3_address"))
        else:
            need("requests")
            server = stack.enter_context(webhdfs_double())
            url, options = f"webhdfs://127.0.0.1:{server.port}/{name}", {"user": "me"}
        for life in range(3):
            with opened(url, storage_options=options, retention="consumers") as queue:
                for number in range(4):
                    queue.append(rows(4 * life + number), sync=True)
                assert queue.replay().read_all().num_rows == 4 * life + 4
        assert numbers(url, storage_options=options) == list(range(12))
        first = opened(url, storage_options=options)
        with opened(url, storage_options=options) as second:
            second.append(rows(12), sync=True)
            first.append(rows(-1))
            with pytest.raises(Fenced):
                first.sync()
            assert second.trim(6) == 6
        assert numbers(url, storage_options=options) == list(range(6, 13))
        assert faults(url, options) == []


def test_a_retention_is_applied_now_and_then_by_itself(url: str) -> None:
    with opened(url, retention="1B") as queue:
        for number in range(200):
            queue.append(rows(number), sync=True)
    found = numbers(url)
    assert found == list(range(found[0], 200))
    assert found[0] > 60
    assert faults(url) == []
