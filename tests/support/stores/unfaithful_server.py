"""Servers that speak a little of S3 and break its promise of exclusive creates."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from tempfile import TemporaryFile

LOOKS_FIRST, IGNORES = "looks, then puts", "passes over the condition"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    kind = LOOKS_FIRST
    puts = 0
    requests = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *facts: object) -> None: ...

    def do_PUT(self) -> None:
        self.server.requests += 1
        body = self.rfile.read(int(self.headers["content-length"]))
        is_there = self.path in self.server.objects
        if is_there and "if-none-match" in self.headers and self.server.kind == LOOKS_FIRST:
            code = "PreconditionFailed"
            self._say(412, f"<Error><Code>{code}</Code><Message>it is there</Message></Error>")
            return
        with TemporaryFile(buffering=0) as file:
            file.write(body)
            os.fsync(file.fileno())
        self.server.objects[self.path] = body
        self._say(200)

    def do_GET(self) -> None:
        self.server.requests += 1
        objects = sorted(self.server.objects)
        keys = "".join(f"<Contents><Key>{k}</Key><Size>1</Size></Contents>" for k in objects)
        if "list-type" in self.path:
            # Nothing is in any folder but probes, which are deleted.
            self._say(200, f"<ListBucketResult>{keys}</ListBucketResult>")
        else:
            self._say(404, "<Error><Code>NoSuchKey</Code></Error>")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self.server.requests += 1
        self.rfile.read(int(self.headers["content-length"]))
        self.server.objects.clear()
        self._say(200, "<DeleteResult></DeleteResult>")

    def _say(self, status: int, text: str = "") -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("content-type", "application/xml")
        self.send_header("content-length", str(len(data)))
        self.send_header("etag", '"0"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


@contextmanager
def unfaithful_server(kind: str) -> Iterator[_Server]:
    """A server that has every bucket; deleting any object deletes them all."""
    with _Server() as server:
        server.kind = kind
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
