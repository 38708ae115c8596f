"""HDFS over WebHDFS: written under a hidden name and renamed, which HDFS refuses onto a file.

A file that is closed is on as many nodes as HDFS asks for (``dfs.namenode.replication.min``), in
their memory at least; ``dfs.datanode.synconclose`` puts it on their disks. WebHDFS has no call that
does.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from functools import partial
from typing import Any

from requests.exceptions import HTTPError, RequestException

from cec_store.storage.stores.failures import Failure, failure_of, failure_of_status
from cec_store.storage.stores.file_system import FileSystem, Options

_PORT = 9870  # of Hadoop 3; fsspec's is that of Hadoop 2
_TIMEOUTS_S = (10.0, 60.0)  # to connect, and between two answers; there are none otherwise


class WebHdfsFileSystem(FileSystem):
    """Some calls are made below those of fsspec, which drop HDFS' own answer to a rename.

    A writer that dies, or whose answer is lost, may leave ``.<name>.<random>.tmp``, which no call
    lists, is nobody's and can be deleted.
    """

    creates_exclusively = True

    def __init__(self, calls: Any) -> None:
        super().__init__(calls)
        session = calls.session
        session.request = partial(session.request, timeout=_TIMEOUTS_S)

    @classmethod
    def address(cls, url: str, given: Options) -> tuple[str, Options]:
        # fsspec does not take a host or port in both places. The port of hdfs:// is another.
        scheme, _, rest = url.partition("://")
        node, slash, path = rest.partition("/")
        user, at, node = node.rpartition("@")
        host, _, port = node.partition(":")
        port = port if scheme == "webhdfs" else ""
        options = dict(given)
        host, port = options.pop("host", host), options.pop("port", port or _PORT)
        return f"webhdfs://{user}{at}{host}:{port}{slash}{path}", options

    def endpoint(self) -> str:
        return str(self.calls.url)

    def modified_us(self, path: str) -> int:
        return int(self.calls.info(path)["modificationTime"]) * 1000

    def create(self, path: str, data: bytes) -> None:
        # A rename onto a folder would go into it, and most losers learn it here.
        with suppress(FileNotFoundError):
            self.calls.info(path)
            raise FileExistsError(path)
        folder, _, last = path.rpartition("/")
        hidden = f"{folder}/.{last}.{secrets.token_hex(8)}.tmp"
        try:
            self._write(hidden, data)
            answer = self.calls._call("RENAME", method="put", path=hidden, destination=path)
            if not answer.json()["boolean"]:
                raise FileExistsError(path)
        except BaseException:
            with suppress(Exception):
                self.calls.rm(hidden)
            raise

    def put(self, path: str, data: bytes) -> None:
        self._write(path, data, overwrite="true")

    def _write(self, path: str, data: bytes, overwrite: str = "false") -> None:
        first = self.calls._call("CREATE", "put", path, redirect=False, overwrite=overwrite)
        target = self.calls._apply_proxy(first.headers["Location"])
        kind = {"content-type": "application/octet-stream"}
        _check(self.calls.session.put(target, data=data, headers=kind))

    def read(self, path: str, byte: int, end: int | None) -> bytes:
        # HDFS refuses to begin behind the end, and does not say so by a name of its own.
        size = self.size(path)
        end = size if end is None else min(end, size)
        if byte >= end:
            return b""
        answer = self.calls._call("OPEN", path=path, offset=byte, length=end - byte)
        if len(answer.content) != end - byte:
            raise ConnectionError(f"{path}: {len(answer.content)} of {end - byte} bytes came")
        return bytes(answer.content)

    def failure_of(self, error: BaseException) -> Failure:
        if isinstance(error, HTTPError) and error.response is not None:
            status = error.response.status_code
            return Failure.BAD_CREDENTIALS if status == 401 else failure_of_status(status)
        if isinstance(error, RequestException):
            return Failure.PASSING
        # What a node says of itself: in standby, in safe mode, no nodes to write to.
        if type(error) is RuntimeError:
            return Failure.OTHER if "quota" in str(error).lower() else Failure.PASSING
        return failure_of(error)


def _check(answer: Any) -> None:
    """Raise what fsspec raises for such an answer, which it reads for calls of its own only."""
    try:
        fault = answer.json()["RemoteException"]
    except (ValueError, KeyError, TypeError):
        answer.raise_for_status()
        return
    if fault["exception"] in ("SecurityException", "AccessControlException"):
        raise PermissionError(fault["message"])
    raise RuntimeError(fault["message"])
