"""The calls that a store makes of an fsspec file system, and how each kind answers them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from inspect import signature
from typing import Any

from cec_store.errors import StoreNotInstalled
from cec_store.storage.stores.failures import Failure, failure_of
from cec_store.storage.stores.store import Entry

Options = dict[str, Any]


class FileSystem:
    """Any fsspec file system. It makes each call once; its errors are what fsspec raises.

    Kinds whose conditional create is known are sub-classes; of this one it is not.
    """

    creates_exclusively = False
    needs_proof = True
    """True of a server: its creates are proven before they are relied on."""

    def __init__(self, calls: Any) -> None:
        """``calls`` is the file system of fsspec."""
        self.calls = calls

    @classmethod
    def address(cls, url: str, given: Options) -> tuple[str, Options]:
        """Return the file system's URL and the options to make it with, from the user's own."""
        return url, given

    def create(self, path: str, data: bytes) -> None:
        """Make the object unless the name is taken; ``TAKEN`` where it is."""
        raise NotImplementedError(f"{type(self).__name__} has no conditional create")

    def endpoint(self) -> str:
        """Return the server's address where the URL does not say it; it makes no request."""
        return ""

    def race(self, path: str, bodies: Sequence[bytes]) -> list[BaseException | None]:
        """Create one object with each body at the same moment; ``None`` for each that made it."""
        together = threading.Barrier(len(bodies))

        def create(data: bytes) -> BaseException | None:
            together.wait()
            try:
                self.create(path, data)
            except Exception as error:
                return error
            return None

        with ThreadPoolExecutor(len(bodies), "cec-race") as pool:
            return list(pool.map(create, bodies))

    def put(self, path: str, data: bytes) -> None:
        """Make the object, over one that may be there."""
        self.calls.pipe_file(path, data)

    def read(self, path: str, byte: int, end: int | None) -> bytes:
        """The bytes from ``byte`` to ``end``."""
        return bytes(self.calls.cat_file(path, start=byte, end=end))

    def size(self, path: str) -> int:
        info = self.calls.info(path)
        if info["type"] != "file":
            raise FileNotFoundError(path)
        return self._size_in(info)

    def modified_us(self, path: str) -> int:
        """Return when an object was made, by the server's clock: microseconds since 1970.

        Raises:
            OSError: this kind of store does not say it.
        """
        info = self.calls.info(path)
        for name in ("LastModified", "last_modified", "mtime"):
            if info.get(name) is not None:
                return _microseconds(info[name])
        raise OSError(f"{path}: this kind of store does not say when an object was made")

    def list(self, path: str) -> list[Entry]:
        """Return the entries of a folder; none if it is missing, an error if its bucket is."""
        self.calls.invalidate_cache()
        try:
            infos = self.calls.ls(path, detail=True)
        except FileNotFoundError as error:
            if self.failure_of(error) is Failure.NO_BUCKET:
                raise
            return []
        inside = path.rstrip("/") + "/"
        return [
            Entry(name, self._size_in(info) if info["type"] == "file" else None)
            for info in infos
            if (name := _name_in(inside, info["name"]))
        ]

    def _size_in(self, info: Mapping[str, Any]) -> int:
        """Return an object's size; it is asked for where a listing does not say it, as over HTTP.

        Raises:
            OSError: the server does not say it either.
        """
        size = info["size"]
        if size is None:
            size = self.calls.info(info["name"])["size"]
        if size is None:
            raise OSError(f"{info['name']}: the server does not say how large it is")
        return int(size)

    def delete(self, paths: Iterable[str]) -> None:
        """Objects that are not there are no error."""
        for path in paths:
            with suppress(FileNotFoundError):
                self.calls.rm_file(path)

    def failure_of(self, error: BaseException) -> Failure:
        """Return the kind of failure that an error of a call stands for."""
        return failure_of(error)


def _microseconds(moment: Any) -> int:
    """Return microseconds since 1970 from a time with its zone, its text, or seconds since 1970."""
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    seconds = moment.timestamp() if isinstance(moment, datetime) else float(moment)
    return round(seconds * 1_000_000)


def _name_in(inside: str, path: str) -> str:
    """The last part of a path in this folder; nothing for the folder itself."""
    inside, path = inside.strip("/"), path.strip("/")
    if not inside:  # the root of an archive
        return path
    return path.removeprefix(f"{inside}/") if path.startswith(f"{inside}/") else ""


class CreatingFileSystem(FileSystem):
    """One with ``pipe_file(..., mode="create")``."""

    creates_exclusively = True
    extra = ""
    """Extra of this package, ``cec-store[…]``, that installs a release which is new enough."""

    def __init__(self, calls: Any) -> None:
        """Raises :class:`StoreNotInstalled` where it is too old for conditional creates.

        It would take the mode for one more header, and replace what is there.
        """
        super().__init__(calls)
        method = getattr(calls, "_pipe_file", None) or calls.pipe_file
        if "mode" not in signature(method).parameters:
            raise too_old(type(calls).__module__.partition(".")[0], self.extra)

    def create(self, path: str, data: bytes) -> None:
        self.calls.pipe_file(path, data, mode="create")


def too_old(package: str, extra: str) -> StoreNotInstalled:
    """The error for a release without conditional creates."""
    what = "is too old to make an object only where there is none"
    return StoreNotInstalled(f"{package} {what}: pip install --upgrade 'cec-store[{extra}]'")
