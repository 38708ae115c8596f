"""The stores that the contract is tried on."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.store import Store
from support.stores.s3_server import BUCKET, options_of, s3_server


@pytest.fixture(scope="session")
def s3_address() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture(params=["local", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store, whose root is not there yet."""
    if request.param == "local":
        return store_at(tmp_path / "above" / "root")
    root = f"tests/{secrets.token_hex(8)}"
    if request.param == "memory":
        return store_at(f"memory://{root}")
    address = request.getfixturevalue("s3_address")
    return store_at(f"s3://{BUCKET}/{root}", options_of(address))
