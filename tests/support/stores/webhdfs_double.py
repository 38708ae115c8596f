"""What WebHDFS answers, by Hadoop's documentation of its REST calls; files are kept in memory.

A stand-in: no HDFS can be installed from Python alone. What it holds to are the answers that the
store relies on: a create goes to another address and is refused where there is a file, a rename
onto a file answers false, one onto a folder goes into it, a file that is being written is seen.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

ROOT = "/webhdfs/v1"


class WebHdfs(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.folders = {"/"}
        self.operations: list[str] = []
        self.guard = threading.RLock()
        self.fault: Callable[[str], str] = lambda operation: ""
        """By the operation: ``lost`` (done, and no answer), ``standby``, ``denied``, or nothing."""

    @property
    def port(self) -> int:
        return int(self.server_port)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two packets; the second need not wait
    server: WebHdfs

    def log_message(self, *facts: object) -> None: ...

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        parts = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path = unquote(parts.path).removeprefix(ROOT) or "/"
        operation = asked["op"]
        self.server.operations.append(operation)
        fault = self.server.fault(operation)
        if fault == "standby":
            self._refuse(403, "StandbyException", "Operation category WRITE is not supported")
            return
        if fault == "denied":
            self._refuse(403, "AccessControlException", "Permission denied: user=me")
            return
        with self.server.guard:
            answer = getattr(self, f"_{operation.lower()}")(path, asked, body)
        if fault == "lost":
            self.close_connection = True
            return
        answer()

    do_GET = do_PUT = do_DELETE = _serve  # noqa: N815

    def _say(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _json(self, facts: object, status: int = 200) -> None:
        self._say(status, json.dumps(facts).encode(), **{"Content-Type": "application/json"})

    def _refuse(self, status: int, exception: str, message: str) -> None:
        said = {"exception": exception, "javaClassName": exception, "message": message}
        self._json({"RemoteException": said}, status)

    def _absent(self, path: str) -> Callable[[], None]:
        return lambda: self._refuse(404, "FileNotFoundException", f"File does not exist: {path}")

    def _status_of(self, path: str, suffix: str) -> dict[str, object]:
        kind = "FILE" if path in self.server.files else "DIRECTORY"
        return {"pathSuffix": suffix, "type": kind, "length": len(self.server.files.get(path, b""))}

    def _getfilestatus(self, path: str, asked: dict[str, str], body: bytes) -> Callable[[], None]:
        if path not in self.server.files and path not in self.server.folders:
            return self._absent(path)
        found = self._status_of(path, "")
        return lambda: self._json({"FileStatus": found})

    def _liststatus(self, path: str, asked: dict[str, str], body: bytes) -> Callable[[], None]:
        inside = path.rstrip("/") + "/"
        if path in self.server.files:
            found = [self._status_of(path, "")]
        elif path in self.server.folders:
            every = [*self.server.files, *self.server.folders]
            names = [each.removeprefix(inside) for each in every if each.startswith(inside)]
            found = [self._status_of(inside + n, n) for n in sorted(names) if n and "/" not in n]
        else:
            return self._absent(path)
        return lambda: self._json({"FileStatuses": {"FileStatus": found}})

    def _create(self, path: str, asked: dict[str, str], body: bytes) -> Callable[[], None]:
        if "datanode" not in asked:
            to = f"http://127.0.0.1:{self.server.port}{self.path}&datanode=true"
            return lambda: self._say(307, b"", Location=to)
        taken = path in self.server.folders or path in self.server.files
        if taken and asked.get("overwrite") != "true":
            message = f"{path} for client 127.0.0.1 already exists"
            return lambda: self._refuse(403, "FileAlreadyExistsException", message)
        above = path.rpartition("/")[0]
        while above:
            if above in self.server.files:
                message = f"Parent path is not a directory: {above}"
                return lambda: self._refuse(403, "ParentNotDirectoryException", message)
            self.server.folders.add(above)
            above = above.rpartition("/")[0]
        self.server.files[path] = body
        return lambda: self._say(201, b"")

    def _rename(self, path: str, asked: dict[str, str], body: bytes) -> Callable[[], None]:
        target = asked["destination"]
        if target in self.server.folders:
            target = f"{target}/{path.rpartition('/')[2]}"
        is_done = path in self.server.files and target not in self.server.files
        if is_done:
            self.server.files[target] = self.server.files.pop(path)
        return lambda: self._json({"boolean": is_done})

    def _delete(self, path: str, asked: dict[str, str], body: bytes) -> Callable[[], None]:
        inside = path + "/"
        every = [*self.server.files, *self.server.folders]
        if path in self.server.folders and any(each.startswith(inside) for each in every):
            said = f"`{path} is non empty': Directory is not empty"
            return lambda: self._refuse(403, "PathIsNotEmptyDirectoryException", said)
        is_done = self.server.files.pop(path, None) is not None
        return lambda: self._json({"boolean": is_done})

    def _open(self, path: str, asked: dict[str, str], body: bytes) -> Callable[[], None]:
        if path not in self.server.files:
            return self._absent(path)
        start = int(asked["offset"])
        found = self.server.files[path][start : start + int(asked["length"])]
        return lambda: self._say(200, found)


@contextmanager
def webhdfs_double() -> Iterator[WebHdfs]:
    server = WebHdfs()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
