"""Stores that let two writers make one object are found by a race, once for each user."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cec_store import leases_of, open_queue
from cec_store.errors import NoExclusiveCreate, StoreUnreachable
from cec_store.storage.stores import proving
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.proving import (
    RACERS,
    ROUNDS,
    forget_proofs,
    prove_exclusive_creates,
)
from cec_store.storage.stores.retrying import Retries
from cec_store.storage.stores.store import Racing
from support.runs.counts import crash_count
from support.stores.counting import CountingStore
from support.stores.faulty_proxy import Request, proxy_to
from support.stores.needed import need
from support.stores.s3_server import BUCKET, options_of
from support.stores.unfaithful_server import IGNORES, LOOKS_FIRST, unfaithful_server

SCHEMA = pa.schema([("n", pa.int64())])
MAKINGS = crash_count(20, 1_000)


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    need("s3fs")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    forget_proofs()


def test_a_server_that_looks_and_then_puts_is_found_by_the_race() -> None:
    with unfaithful_server(LOOKS_FIRST) as server:
        store = store_at("s3://bucket/q", options_of(server.address))
        missed = 0
        for _ in range(MAKINGS):
            try:
                prove_exclusive_creates(store)
            except NoExclusiveCreate:
                continue
            else:
                forget_proofs()
                proofs = proving._proofs_store()
                proofs.delete([entry.name for entry in proofs.list()])
                missed += 1
    assert missed <= MAKINGS // 1000


@pytest.mark.parametrize("partitions", [None, 2])
@pytest.mark.parametrize("kind", [LOOKS_FIRST, IGNORES])
def test_no_queue_is_made_on_a_server_that_lets_two_writers_win(
    kind: str, partitions: int | None
) -> None:
    with unfaithful_server(kind) as server:
        options = options_of(server.address)
        for mode in ("a", "x"):
            with pytest.raises(NoExclusiveCreate, match=f"{server.address} let . of 8 writers"):
                open_queue(
                    "s3://bucket/q", mode, schema=SCHEMA, partitions=partitions,
                    storage_options=options,
                )  # fmt: skip
        with pytest.raises(NoExclusiveCreate):
            leases_of("s3://bucket/q", options).hold("primary", holder="me")
        assert server.objects == {}


def rows(count: int = 3) -> pa.Table:
    return pa.table({"n": range(count)}, SCHEMA)


@pytest.mark.parametrize("partitions", [None, 2])
def test_whoever_opens_a_queue_to_append_proves_the_store_once(
    s3_address: str, partitions: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"s3://{BUCKET}/{uuid.uuid4()}"
    with proxy_to(s3_address) as proxy:
        options = options_of(proxy.address)

        def opened() -> tuple[int, int]:
            """Requests of an opening to append: creates of the proof, and others."""
            proxy.expect()
            open_queue(
                url, "a", schema=SCHEMA, partitions=partitions, storage_options=options
            ).close()
            probes = sum("probe-" in request.path for request in proxy.requests)
            return probes, len(proxy.requests) - probes

        assert opened()[0] == ROUNDS * RACERS
        forget_proofs()  # another process of this user
        probes, known = opened()
        assert probes == 0
        monkeypatch.setattr(proving, "_VALID_S", 0)
        forget_proofs()
        # An opening of a queue of one writer is a commit; the next one reads up to four of them.
        more = 3 if partitions is None else 0
        probes, others = opened()
        assert probes == ROUNDS * RACERS
        # One request deletes what the proof has made.
        assert others <= known + 1 + more
        probes, others = opened()
        assert probes == 0
        assert others <= known + more


def test_reading_asks_for_no_proof(s3_address: str) -> None:
    url = f"s3://{BUCKET}/{uuid.uuid4()}"
    with open_queue(
        url, "a", schema=SCHEMA, partitions=2, storage_options=options_of(s3_address)
    ) as queue:
        queue.append(rows())  # type: ignore[union-attr]
    forget_proofs()
    with proxy_to(s3_address) as proxy:
        open_queue(url, storage_options=options_of(proxy.address)).close()
        assert set(proxy.counts()) <= {"get", "head", "list"}


class Named(CountingStore):
    """A store on a server of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(store_at(f"memory://{name}"))
        self.name = name

    @property
    def racing(self) -> Racing:
        return self

    def server(self) -> str:
        return self.name

    def race(self, name: str, bodies: Sequence[bytes]) -> int:
        self.calls.append(("race", name))
        return 1


def test_proofs_are_bound_to_a_server_and_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_raced(server: str, now_s: float) -> bool:
        monkeypatch.setattr("time.time", lambda: now_s)
        forget_proofs()
        store = Named(server)
        prove_exclusive_creates(store)
        return store.counts().get("race") == ROUNDS

    assert [is_raced(name, 1e9) for name in ("one", "one", "two")] == [True, False, True]
    assert not is_raced("one", 1e9 + 7 * 86_400 - 1)
    assert is_raced("one", 1e9 - 10), "proven in the future"
    assert is_raced("one", 1e9 + 8 * 86_400)
    assert [entry.name[32:] for entry in proving._proofs_store().list()] == ["-1000691200"]


def test_a_server_is_known_by_its_address_and_bucket(s3_address: str) -> None:
    found = store_at(f"s3://{BUCKET}/a/b", options_of(s3_address)).racing
    assert found is not None
    assert found.server() == f"s3://{BUCKET} {s3_address}"


def test_a_cache_that_cannot_be_written_costs_a_proof_for_each_process(
    s3_address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: Any
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    store = store_at(f"s3://{BUCKET}/x", options_of(s3_address))
    prove_exclusive_creates(store)
    assert "is proven again by each process" in caplog.text
    assert store.list() == []


def test_lost_answers_and_conflicts_are_no_winners(s3_address: str) -> None:
    with proxy_to(s3_address) as proxy:
        store = store_at(f"s3://{BUCKET}/faulty", options_of(proxy.address))

        def decide(number: int, request: Request) -> str:
            return ("", "lost", "conflict", "busy", "failed after")[number % 5]

        proxy.expect(decide)
        store.racing.race("a", [b"%d" % n for n in range(8)])  # type: ignore[union-attr]
        proxy.expect()
        assert store.read("a") in [b"%d" % n for n in range(8)]
        proxy.expect(lambda number, request: "lost")
        few = store_at(
            f"s3://{BUCKET}/faulty", options_of(proxy.address),
            retries=Retries(attempts=2, first_pause_s=0.01),
        )  # fmt: skip
        with pytest.raises(StoreUnreachable):
            prove_exclusive_creates(few)
