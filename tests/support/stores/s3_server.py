"""A real S3 server, moto's, in this process: the store's own client talks to it over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

from support.stores.needed import need

BUCKET = "bucket"


class _OneWriteAtATime:
    """S3 decides about two puts of one name one after the other.

    moto looks and then writes: of racing puts with If-None-Match, two may win. So writes come to
    it one after the other; what each is answered is moto's.
    """

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app = app
        self._writing = threading.Lock()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return self._app(environ, start)
        if environ.get("CONTENT_LENGTH"):
            # A client that is stopped while it sends holds up nobody else.
            body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
            environ["wsgi.input"] = BytesIO(body)
        with self._writing:
            return list(self._app(environ, start))


@contextmanager
def s3_server() -> Iterator[str]:
    """The address of a server with an empty bucket."""
    need("s3fs", "moto.server")
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        create_backend_app,
    )
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log_request(self, *facts: object) -> None: ...

    app = _OneWriteAtATime(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        make_bucket(address)
        yield address
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def make_bucket(address: str) -> None:
    from urllib.request import Request, urlopen

    for path in ("moto-api/reset", None):
        method, where = ("POST", path) if path else ("PUT", BUCKET)
        with urlopen(Request(f"{address}/{where}", method=method), timeout=30) as answer:
            assert answer.status == 200


def options_of(address: str, **config: Any) -> dict[str, Any]:
    """What the store is to be made with to talk to a server at this address."""
    settings = {"connect_timeout": 5, "read_timeout": 20, **config}
    return {
        "key": "id",
        "secret": "secret",
        "endpoint_url": address,
        "client_kwargs": {"region_name": "us-east-1"},
        "config_kwargs": settings,
    }
