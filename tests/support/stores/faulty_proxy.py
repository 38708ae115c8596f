"""An HTTP proxy that counts what passes, and does to any request what networks and stores do."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

FAULTS = ("busy", "conflict", "refused", "failed after", "lost", "late", "torn", "twice")
"""What becomes of a request:

``busy``, ``conflict``: answered 503 SlowDown, or 409, and not passed on. ``refused``: the
connection is closed instead. ``failed after``: passed on, and then answered 500. ``lost``: passed
on, and no answer. ``late``: no answer before the client gives up. ``torn``: half of the answer.
``twice``: passed on two times; the answer is the second one.
"""
UNKNOWN = "unknown"
"""Answered 501, and not passed on: this server has no such request."""
LATE_S = 1.0
_SAID = {
    "busy": (503, "SlowDown"),
    "conflict": (409, "ConditionalRequestConflict"),
    "failed after": (500, "InternalError"),
    UNKNOWN: (501, "NotImplemented"),
}
_HOP = {"connection", "transfer-encoding", "keep-alive", "content-length"}


class Request(NamedTuple):
    kind: str
    """put, get, head, list or delete."""
    path: str


class Answer(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    body: bytes


Decide = Callable[[int, Request], str]
"""The fault of a request, by its number and what it is; empty: none."""


class FaultyProxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = urlsplit(target).netloc
        self.requests: list[Request] = []
        self.decide: Decide = lambda number, request: ""
        self._guard = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def counts(self) -> dict[str, int]:
        """Requests by kind since the last :meth:`expect`."""
        return dict(Counter(request.kind for request in self.requests))

    def expect(self, decide: Decide = lambda number, request: "") -> None:
        """Count from 0 again, and decide so from now on."""
        with self._guard:
            self.requests, self.decide = [], decide

    def fault_of(self, request: Request) -> str:
        with self._guard:
            self.requests.append(request)
            return self.decide(len(self.requests) - 1, request)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone away is what some faults are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two packets; the second need not wait
    server: FaultyProxy

    def log_message(self, *facts: object) -> None: ...

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        fault = self.server.fault_of(self._request())
        if fault in ("", "failed after", "lost", "torn", "late", "twice"):
            answer = self._pass_on(body)
        if fault == "twice":
            answer = self._pass_on(body)
        if fault == "late":
            time.sleep(LATE_S)
        if fault in ("refused", "lost", "late"):
            self.close_connection = True
            return
        if fault in _SAID:
            status, code = _SAID[fault]
            said = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
            answer = Answer(status, [("content-type", "application/xml")], said)
        self._say(answer, torn=fault == "torn")

    def __getattr__(self, name: str) -> Callable[[], None]:
        """`do_GET` and its like are all one."""
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)

    def _request(self) -> Request:
        parts = urlsplit(self.path)
        asked = parse_qs(parts.query, keep_blank_values=True)
        kind = {"POST": "delete"}.get(self.command, self.command.lower())
        return Request("list" if "list-type" in asked else kind, parts.path)

    def _pass_on(self, body: bytes) -> Answer:
        to = http.client.HTTPConnection(self.server.target, timeout=30)
        try:
            headers = {k: v for k, v in self.headers.items() if k.lower() != "expect"}
            to.request(self.command, self.path, body, headers)
            answer = to.getresponse()
            facts = [(k, v) for k, v in answer.getheaders() if k.lower() not in _HOP]
            length = answer.getheader("content-length")
            if self.command == "HEAD" and length:
                facts.append(("content-length", length))
            return Answer(answer.status, facts, answer.read())
        finally:
            to.close()

    def _say(self, answer: Answer, torn: bool) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("content-length", str(len(answer.body)))
        if torn and len(answer.body) < 2:  # in the middle of its headers, then
            self.close_connection = True
            self._headers_buffer.pop()  # type: ignore[attr-defined]
            self.flush_headers()
            return
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body[: len(answer.body) // 2] if torn else answer.body)
        self.close_connection = self.close_connection or torn


@contextmanager
def proxy_to(target: str) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(target)
    thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        thread.join()
        proxy.server_close()
