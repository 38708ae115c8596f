"""Which store a path or URL has, and what is refused by name before anything is asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cec_store.errors import StoreNotInstalled
from cec_store.storage.stores import by_url
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.local_store import LocalStore
from support.stores.s3_server import options_of


@pytest.mark.parametrize("given", ["{}", "file://{}", "file://localhost{}", "FILE://{}"])
def test_a_local_path_has_the_local_store(given: str, tmp_path: Path) -> None:
    store = store_at(given.format(tmp_path))
    assert isinstance(store, LocalStore)
    assert store.url == str(tmp_path)
    assert store_at(tmp_path).url == store_at(str(tmp_path).encode()).url == str(tmp_path)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "empty"),
        ("ftps+x://host/q", r"ftps\+x:// is not known; use a local path, s3://"),
        ("simplecache::s3://bucket/q", "simplecache::s3:// is not known"),
        ("s3:/bucket/q", "write s3://bucket/q"),
        ("file://host/q", "this machine"),
        ("s3://", "names no bucket"),
        ("s3:///q", "names no bucket"),
        ("webhdfs://", "names no bucket, container or host"),
        ("s3://bucket/../q", "empty part"),
        ("s3://bucket//q", "empty part"),
        ("webhdfs://me:secret@host/q", "password"),
    ],
)
def test_other_places_are_refused_by_name(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        store_at(url)
    assert "secret" not in str(caught.value)


def test_local_files_have_no_options(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no storage_options"):
        store_at(tmp_path, {"key": "x"})


def test_urls_are_those_that_were_given(s3_address: str) -> None:
    store_at("s3://bucket/same/q", options_of(s3_address)).create("a", [b"x"])
    hadoop = store_at("s3a://bucket/same/q/", options_of(s3_address))
    assert hadoop.url == "s3a://bucket/same/q"
    assert hadoop.read("a") == b"x"
    assert store_at("S3://bucket/same", options_of(s3_address)).list("q") == [("a", 1)]
    root = store_at("s3://bucket", options_of(s3_address))
    assert ("same", None) in root.list()
    assert root.read("same/q/a") == b"x"


@pytest.mark.parametrize(
    ("url", "extra"),
    [("s3://b/q", "s3"), ("gs://b/q", "gcs"), ("abfss://c@a/q", "abfs"), ("hdfs://h/q", "hdfs")],
)
def test_the_extra_to_install_is_named(
    url: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(by_url, "import_module", missing)
    with pytest.raises(StoreNotInstalled, match=rf"pip install 'cec-store\[{extra}\]'"):
        store_at(url)


def test_local_stores_need_no_fsspec(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from cec_store.storage.stores.by_url import store_at\n"
        "store_at(sys.argv[1]).create('a', [b'x'])\n"
        "assert not {'fsspec', 's3fs', 'botocore', 'requests'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path / "q"], check=True)
    assert (tmp_path / "q" / "a").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("s3://bucket/q/", "s3://bucket/q"),
        ("S3A://bucket/q", "s3a://bucket/q"),
        ("file:///data/q", "/data/q"),
        ("/data/q/", "/data/q"),
    ],
)
def test_a_place_is_named_as_its_store_names_it(given: str, name: str) -> None:
    assert by_url.name_of(given) == name
