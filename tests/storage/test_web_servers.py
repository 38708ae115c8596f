"""Queues behind a web server are read, where it answers requests for parts of files."""

from __future__ import annotations

import io
import re
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest

from cec_store import open_queue, read_queue
from cec_store.errors import StorageError
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.retrying import Retries
from support.stores.needed import need


class Silent(SimpleHTTPRequestHandler):
    """Python's own server, which does not know parts of files."""

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


class PartsOfFiles(Silent):
    """A web server of one folder that answers requests for parts of files."""

    def send_head(self) -> Any:
        bounds = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        file = Path(self.translate_path(self.path))
        # What is not there is a 404 for parts of it, too.
        if bounds is None or not file.exists():
            return super().send_head()
        data = file.read_bytes()
        start, end = int(bounds[1]), int(bounds[2] or len(data) - 1)
        part = data[start : end + 1]
        self.send_response(206 if part else 416)
        self.send_header("Content-Range", f"bytes {start}-{start + len(part) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        return io.BytesIO(part)


def test_a_server_that_sends_whole_files_is_no_place_to_read_from(tmp_path: Path) -> None:
    need("aiohttp")
    (tmp_path / "q").mkdir()
    (tmp_path / "q" / "a").write_bytes(b"0123456789")
    handler = partial(Silent, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        store = store_at(f"http://127.0.0.1:{server.server_port}/q", retries=Retries(attempts=2))
        assert store.read("a") == b"0123456789"
        with pytest.raises(StorageError, match="2 bytes were asked for and 10 came"):
            store.read("a", 3, 2)
        server.shutdown()


def test_a_web_server_s_listings_have_no_sizes_and_are_read(tmp_path: Path) -> None:
    need("aiohttp")
    schema = pa.schema([("n", pa.int64())])
    for name, options in (("q", {}), ("p", {"partitions": 1})):
        with open_queue(tmp_path / name, "x", schema=schema, **options) as queue:  # type: ignore[call-overload]
            queue.append(pa.table({"n": [1, 2, 3]}, schema=schema))
    handler = partial(PartsOfFiles, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        for name in "qp":
            queue = read_queue(f"http://127.0.0.1:{server.server_port}/{name}")
            assert queue.read_all().column("n").to_pylist() == [1, 2, 3]
        server.shutdown()
