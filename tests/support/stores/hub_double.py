"""A double of Hugging Face's hub: files of a folder as those of one dataset, for reading."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

REPOSITORY = "some/rows"
_COMMIT = "0" * 40
_API = f"/api/datasets/{REPOSITORY}"
_FILES = f"/datasets/{REPOSITORY}/resolve/"


class _Handler(BaseHTTPRequestHandler):
    """Answers what its client asks before and while it reads."""

    protocol_version = "HTTP/1.1"
    root: Path

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if path in (_API, f"{_API}/revision/main"):
            self._tell({"id": REPOSITORY, "sha": _COMMIT, "siblings": [], "tags": []})
        elif path.startswith(f"{_API}/tree/"):
            self._list(path.removeprefix(f"{_API}/tree/").partition("/")[2])
        elif path.startswith(_FILES):
            self._send(self.root / path.removeprefix(_FILES).partition("/")[2])
        else:
            self._missing("RepoNotFound")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        """Tell of single paths."""
        size = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(size).decode()
        if self.headers.get("Content-Type", "").startswith("application/json"):
            paths = json.loads(body)["paths"]
        else:
            paths = parse_qs(body)["paths"]
        places = [(name, self.root / name) for name in paths]
        self._tell([self._entry(name, place) for name, place in places if place.exists()])

    def _list(self, folder: str) -> None:
        place = self.root / folder
        if not place.is_dir():
            self._missing("EntryNotFound")
            return
        entries = sorted(place.iterdir())
        self._tell([self._entry(str(entry.relative_to(self.root)), entry) for entry in entries])

    def _entry(self, name: str, place: Path) -> dict[str, Any]:
        number = hashlib.sha1(name.encode()).hexdigest()
        if place.is_dir():
            return {"type": "directory", "oid": number, "size": 0, "path": name}
        return {"type": "file", "oid": number, "size": place.stat().st_size, "path": name}

    def _send(self, place: Path) -> None:
        if not place.is_file():
            self._missing("EntryNotFound")
            return
        data, status = place.read_bytes(), 200
        headers = {"ETag": '"1"', "X-Repo-Commit": _COMMIT, "Accept-Ranges": "bytes"}
        asked = self.headers.get("Range")
        if asked:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last or len(data) - 1) + 1, len(data))
            if start >= len(data):
                self._answer(416, b"", {"Content-Range": f"bytes */{len(data)}"})
                return
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
            data, status = data[start:end], 206
        self._answer(status, data, headers)

    def _missing(self, code: str) -> None:
        self._answer(404, b"{}", {"X-Error-Code": code})

    def _tell(self, document: object) -> None:
        self._answer(200, json.dumps(document).encode(), {"Content-Type": "application/json"})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *facts: object) -> None: ...


@contextmanager
def hub(root: Path) -> Iterator[str]:
    """The address of a hub whose one dataset, `REPOSITORY`, has the files of this folder."""
    handler = type("Handler", (_Handler,), {"root": root})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
