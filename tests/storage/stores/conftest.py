"""The stores that the contract is tried on."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.store import Store
from support.stores.needed import need
from support.stores.s3_server import BUCKET, options_of, s3_server
from support.stores.webhdfs_double import webhdfs_double


@pytest.fixture(scope="session")
def s3_address() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture(scope="session")
def hdfs_port() -> Iterator[int]:
    with webhdfs_double() as server:
        yield server.port


@pytest.fixture(params=["local", "memory", "s3", "webhdfs"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store, whose root is not there yet."""
    if request.param == "local":
        return store_at(tmp_path / "above" / "root")
    root = f"tests/{secrets.token_hex(8)}"
    need("fsspec")
    if request.param == "memory":
        return store_at(f"memory://{root}")
    if request.param == "webhdfs":
        need("requests")
        port = request.getfixturevalue("hdfs_port")
        return store_at(f"webhdfs://127.0.0.1:{port}/{root}", {"user": "me"})
    address = request.getfixturevalue("s3_address")
    return store_at(f"s3://{BUCKET}/{root}", options_of(address))
