"""The store on a real S3 server, over a network that fails any request in every way.

A call succeeds as if nothing had happened, or raises a typed error; of those who create one object
never two believe to have made it.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterator
from threading import Thread

import pytest

from cec_store.errors import StoreUnreachable
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.retrying import Retries
from cec_store.storage.stores.store import Entry, Store
from support.runs.counts import crash_cases
from support.stores.faulty_proxy import FAULTS, UNKNOWN, FaultyProxy, Request, proxy_to
from support.stores.s3_server import BUCKET, options_of

RETRIES = Retries(attempts=4, first_pause_s=0.01, pause_s_max=0.02)
READ_TIMEOUT_S = 0.5  # below faulty_proxy.LATE_S, far above what the server takes
DATA = secrets.token_bytes(3000)


@pytest.fixture(scope="module")
def proxy(s3_address: str) -> Iterator[FaultyProxy]:
    with proxy_to(s3_address) as proxy:
        yield proxy


def stores(s3_address: str, proxy: FaultyProxy, retries: Retries = RETRIES) -> tuple[Store, Store]:
    """One root, over the proxy and without it."""
    url = f"s3://{BUCKET}/faults/{secrets.token_hex(8)}"
    faulty = options_of(proxy.address, read_timeout=READ_TIMEOUT_S)
    return store_at(url, faulty, retries=retries), store_at(url, options_of(s3_address))


@pytest.fixture(scope="module")
def pair(s3_address: str, proxy: FaultyProxy) -> tuple[Store, Store]:
    """Made once: a client of S3 takes a good part of a second to make."""
    return stores(s3_address, proxy)


def prepare(sound: Store) -> None:
    sound.delete(f"there/{entry.name}" for entry in sound.list("there"))
    sound.create("there/object", [DATA])


def created(store: Store, sound: Store) -> None:
    store.create("there/new", [DATA[:1000], DATA[1000:]])
    assert sound.read("there/new") == DATA


def refused(store: Store, sound: Store) -> None:
    with pytest.raises(FileExistsError):
        store.create("there/object", [DATA[:-1]])
    assert sound.read("there/object") == DATA


def read(store: Store, sound: Store) -> None:
    assert store.read("there/object") == DATA
    assert store.read("there/object", 100, 50) == DATA[100:150]
    assert store.read("there/object", 3000, 50) == b""


def looked_at(store: Store, sound: Store) -> None:
    assert store.size("there/object") == 3000
    assert store.list("there") == [Entry("object", 3000)]
    with pytest.raises(FileNotFoundError):
        store.read("there/none")
    with pytest.raises(FileNotFoundError):
        store.size("there/none")


def deleted(store: Store, sound: Store) -> None:
    store.delete(["there/object", "there/none"])
    assert sound.list("there") == []


WORK = [created, refused, read, looked_at, deleted]


@pytest.mark.crash
@pytest.mark.parametrize("fault", crash_cases(FAULTS[::2], FAULTS))
@pytest.mark.parametrize("work", WORK)
def test_any_request_that_fails_once_changes_nothing(
    work: Callable[[Store, Store], None],
    fault: str,
    pair: tuple[Store, Store],
    proxy: FaultyProxy,
) -> None:
    store, sound = pair
    prepare(sound)
    proxy.expect()
    work(store, sound)
    count = len(proxy.requests)
    assert count
    for at in range(count):
        prepare(sound)
        proxy.expect(lambda number, request, at=at: fault if number == at else "")  # type: ignore[misc]
        work(store, sound)
        assert len(proxy.requests) > at, "the fault did not strike"


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in ("late", "twice")])
@pytest.mark.parametrize("at", [0, 1])
def test_what_goes_on_failing_is_a_typed_error_after_a_bounded_number_of_requests(
    fault: str, at: int, pair: tuple[Store, Store], proxy: FaultyProxy
) -> None:
    store, sound = pair
    prepare(sound)
    calls: list[Callable[[], object]] = [
        lambda: store.create("there/new", [DATA]),
        lambda: store.read("there/object"),
        lambda: store.size("there/object"),
        lambda: store.list("there"),
        lambda: store.delete(["there/object"]),
    ]
    for call in calls:
        proxy.expect(lambda number, request: fault if number >= at else "")
        if at:
            sound_list = store.list("there")  # this one passes, and makes the connection
            assert sound_list
        with pytest.raises(StoreUnreachable, match=r"s3://bucket/faults/"):
            call()
        # A connection that was kept open may be tried once more below; a create looks afterwards.
        assert at + 4 <= len(proxy.requests) <= at + 4 * RETRIES.attempts
    # What became of them is nothing, or all of it.
    for entry in sound.list("there"):
        assert entry.size == len(DATA)


@pytest.mark.parametrize("count", [1, 3])
def test_objects_are_deleted_one_by_one_where_a_server_deletes_no_several_at_once(
    count: int, s3_address: str, proxy: FaultyProxy
) -> None:
    """As Google's storage does, asked as S3."""
    store, sound = stores(s3_address, proxy)
    names = [f"there/{number}" for number in range(count)]

    def is_of_many(request: Request) -> bool:
        return request.kind == "delete" and request.path.strip("/") == BUCKET

    proxy.expect(lambda number, request: UNKNOWN if is_of_many(request) else "")
    for asked in (1, 0):  # for the second time it is known
        for name in names:
            sound.create(name, [DATA])
        proxy.expect(proxy.decide)
        store.delete([*names, "there/none"])
        assert sound.list("there") == []
        assert proxy.counts() == {"delete": asked + count + 1}


def test_it_is_said_that_a_create_may_have_been_made(s3_address: str, proxy: FaultyProxy) -> None:
    store, sound = stores(s3_address, proxy)
    proxy.expect(lambda number, request: "lost")
    with pytest.raises(StoreUnreachable, match="not known whether this object was made"):
        store.create("new", [DATA])
    assert sound.read("new") == DATA
    proxy.expect()
    store.create("new", [DATA])  # the same bytes are its own
    with pytest.raises(FileExistsError):
        store.create("new", [DATA[1:]])


def test_a_create_whose_replies_are_all_lost_finds_what_it_has_made(
    s3_address: str, proxy: FaultyProxy
) -> None:
    store, sound = stores(s3_address, proxy)
    proxy.expect(lambda number, request: "lost" if request.kind == "put" else "")
    store.create("new", [DATA])
    assert sound.read("new") == DATA
    proxy.expect(lambda number, request: "refused" if request.kind == "put" else "")
    with pytest.raises(StoreUnreachable, match="not known"):
        store.create("other", [DATA])
    with pytest.raises(FileExistsError):
        store.create("new", [DATA[1:]])
    assert [entry.name for entry in sound.list()] == ["new"]


def test_over_a_failing_network_no_two_make_one_object(s3_address: str, proxy: FaultyProxy) -> None:
    won = 0
    failed: list[StoreUnreachable] = []
    generator = random.Random(20)
    once = Retries(attempts=2, first_pause_s=0.001)
    store, sound = stores(s3_address, proxy, once)
    faults = [fault for fault in FAULTS if fault != "late"]
    proxy.expect(lambda n, request: generator.choice(faults) if generator.random() < 0.5 else "")
    for number in range(40):
        name = f"commits/{number}"
        winners: list[bytes] = []
        losers: list[bytes] = []

        def make(
            data: bytes,
            name: str = name,
            winners: list[bytes] = winners,
            losers: list[bytes] = losers,
        ) -> None:
            try:
                store.create(name, [data])
            except FileExistsError:
                losers.append(data)
            except StoreUnreachable as error:
                failed.append(error)
            else:
                winners.append(data)

        threads = [Thread(target=make, args=(secrets.token_bytes(200),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        there = [sound.read(name)] if has(sound, name) else []
        assert winners in ([], there), "two winners, or one whose object is another's"
        assert not (set(losers) & set(there)), "who made it was told that another had"
        won += len(winners)
    assert won > 10
    assert failed, "the faults were too mild to try anything"


def has(store: Store, name: str) -> bool:
    folder, _, last = name.rpartition("/")
    return last in [entry.name for entry in store.list(folder)]


def test_requests_are_counted_by_kind(s3_address: str, proxy: FaultyProxy) -> None:
    store, _ = stores(s3_address, proxy)
    proxy.expect()
    store.create("a/b", [DATA])
    assert proxy.counts() == {"put": 1}
    store.read("a/b")
    store.read("a/b", 10, 10)
    assert proxy.counts() == {"put": 1, "get": 2}
    store.size("a/b")
    store.list("a")
    store.list("none")
    store.delete(["a/b", "a/c"])
    assert proxy.counts() == {"put": 1, "get": 2, "head": 1, "list": 2, "delete": 1}
