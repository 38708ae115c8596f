"""A tree of objects in a remote store, reached through fsspec."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from cec_store.errors import StorageError, StoreUnreachable
from cec_store.storage.forking import OwnProcess
from cec_store.storage.stores.failures import (
    Failure,
    chain_of,
    error_for,
    no_exclusive_create,
    reason_of,
)
from cec_store.storage.stores.file_system import FileSystem
from cec_store.storage.stores.retrying import Retries
from cec_store.storage.stores.store import (
    Entry,
    Racing,
    check_object_name,
    check_range,
    is_object_name,
)

_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)


class FsspecStore:
    """Objects below a URL of any file system that fsspec reaches.

    **Lost replies.** A create of which no reply came, or one that something below has sent twice,
    may be answered "taken" although it was this call's own. So where the name is taken the object
    is read back: equal bytes are this call's. A request of which no reply came may also arrive
    later: an object that was made and deleted meanwhile can be there again.

    **A single writer.** Where the store has no conditional create, each create is refused, unless
    ``single_writer`` is set: then a create looks first and puts what it has where nothing is. Two
    writers that look at the same time both put, the second replaces what the first was told it had
    made, and neither learns of it. That is for stores which only one process ever writes to, and
    never two, not even for the moment in which one takes over from another that hangs.
    """

    appends = False

    def __init__(
        self,
        url: str,
        connect: Callable[[], tuple[FileSystem, str]],
        *,
        single_writer: bool = False,
        retries: Retries | None = None,
    ) -> None:
        """``connect`` makes a file system of this process' own, and names the root's path in it."""
        self._url = url
        self._connect = connect
        self._retries = retries or Retries()
        self._process = OwnProcess()
        self._calls, self._root = connect()
        self.creates_exclusively = self._calls.creates_exclusively and not single_writer
        self._may_create = self._calls.creates_exclusively or single_writer

    @property
    def url(self) -> str:
        return self._url

    @property
    def racing(self) -> Racing | None:
        return self if self.creates_exclusively and self._calls.needs_proof else None

    def server(self) -> str:
        scheme, _, rest = self._url.partition("://")
        endpoint = self._asked(self._url, lambda calls: calls.endpoint())
        return f"{scheme}://{rest.partition('/')[0]} {endpoint}".rstrip()

    def race(self, name: str, bodies: Sequence[bytes]) -> int:
        path = self._path_of(name)
        errors = self._file_system().race(path, bodies)
        for error in filter(None, errors):
            failure = self._failure_of(error)
            # Where no answer came, or another write was in the way, it was told no success.
            if failure not in (Failure.TAKEN, Failure.PASSING, Failure.ABSENT):
                raise error_for(failure, self._place_of(name), error, reading=False) from error
        return errors.count(None)

    def create(self, name: str, parts: Sequence[bytes]) -> None:
        """Make an object as :meth:`Store.create` does, trying again where no reply came.

        Raises:
            NoExclusiveCreate: it has no conditional create, and ``single_writer`` is not set.
            StoreUnreachable: it is not known whether the object was made.
        """
        if not self._may_create:
            raise no_exclusive_create(self._url, "none is known of it")
        path, place = self._path_of(name), self._place_of(name)
        data = b"".join(parts)
        is_doubtful = False
        last = Exception()
        for number in self._retries.turns():
            if number > 1:
                _log.warning("%s: not made, attempt %d: %s", place, number, reason_of(last))
            try:
                self._create_once(path, data)
                return
            except Exception as error:
                last = error
            failure = self._failure_of(last)
            if failure is Failure.TAKEN:
                if self._holds(path, place, data):
                    return
                raise FileExistsError(f"{place}: is there already") from last
            # An upload of several requests ends in "absent" where one of them was made twice.
            if failure not in (Failure.PASSING, Failure.ABSENT):
                break
            is_doubtful = True
        if not is_doubtful:
            raise error_for(failure, place, last, reading=False) from last
        if not self._holds(path, place, data, after=last):
            raise self._unknown(place, last) from last

    def _create_once(self, path: str, data: bytes) -> None:
        calls = self._file_system()
        if self.creates_exclusively:
            calls.create(path, data)
            return
        if self._is_there(calls, path):
            raise FileExistsError(path)
        calls.put(path, data)

    def _is_there(self, calls: FileSystem, path: str) -> bool:
        try:
            calls.size(path)
        except Exception as error:
            if self._failure_of(error) is Failure.ABSENT:
                return False
            raise
        return True

    def _holds(
        self, path: str, place: str, data: bytes, after: BaseException | None = None
    ) -> bool:
        """Return True if there is an object of this name and it has exactly these bytes.

        ``after`` is the error of a create of which it is not known whether it had its effect.

        Raises:
            FileExistsError: with ``after``, other bytes are there.
            StorageError: the object cannot be read; with ``after`` a :class:`StoreUnreachable`.
        """
        try:
            # One byte more tells a longer object from an equal one.
            stored = self._asked(place, lambda calls: _read(calls, path, 0, len(data) + 1))
        except FileNotFoundError:
            return False
        except StorageError as error:
            if after is None:
                raise
            raise self._unknown(place, after) from error
        if after is not None and stored != data:
            raise FileExistsError(f"{place}: is there already") from after
        return stored == data

    def _unknown(self, place: str, error: BaseException) -> StoreUnreachable:
        what = "it is not known whether this object was made; look for it, or use another name"
        cause = error_for(Failure.PASSING, place, error, reading=False)
        return StoreUnreachable(f"{cause}; {what}")

    def read(self, name: str, byte: int = 0, size: int | None = None) -> bytes:
        check_range(byte, size)
        path = self._path_of(name)
        if size == 0:  # no range of a request can say so
            self.size(name)
            return b""
        end = None if size is None else byte + size
        data = self._asked(self._place_of(name), lambda calls: _read(calls, path, byte, end))
        if size is not None and len(data) > size:  # as HTTP allows: the part is not told apart
            raise StorageError(
                f"{self._place_of(name)}: {size} bytes were asked for and {len(data)} came; the "
                "server answers no requests for parts of files, so copy the folder from it"
            )
        return data

    def size(self, name: str) -> int:
        path = self._path_of(name)
        return self._asked(self._place_of(name), lambda calls: calls.size(path))

    def modified_us(self, name: str) -> int:
        path = self._path_of(name)
        return self._asked(self._place_of(name), lambda calls: calls.modified_us(path))

    def list(self, folder: str = "") -> list[Entry]:
        path = self._path_of(folder) if folder else self._root or "/"
        entries = self._asked(self._place_of(folder), lambda calls: calls.list(path))
        return sorted(
            (entry for entry in entries if is_object_name(entry.name)),
            key=lambda entry: (entry.name, entry.is_folder),
        )

    def delete(self, names: Iterable[str]) -> None:
        if paths := [self._path_of(name) for name in names]:
            self._asked(self._url, lambda calls: calls.delete(paths), reading=False)

    def _asked(
        self, place: str, call: Callable[[FileSystem], _Result], *, reading: bool = True
    ) -> _Result:
        """Return the result of ``call``, which is made again where its failure may pass.

        Raises:
            FileNotFoundError: there is no such object.
            StorageError: the call failed otherwise; its type says how.
        """
        last = Exception()
        for number in self._retries.turns():
            if number > 1:
                _log.warning("%s: asked again, attempt %d: %s", place, number, reason_of(last))
            try:
                return call(self._file_system())
            except Exception as error:
                last = error
            failure = self._failure_of(last)
            if failure is not Failure.PASSING:
                break
        if failure is Failure.UNCONDITIONAL:  # which no such call is
            failure = Failure.OTHER
        raise error_for(failure, place, last, reading=reading) from last

    def _file_system(self) -> FileSystem:
        # Connections and the thread that serves them stay with the parent of a fork.
        if self._process.is_other():
            self._calls, self._root = self._connect()
            self._process = OwnProcess()
        return self._calls

    def _failure_of(self, error: BaseException) -> Failure:
        failure = Failure.OTHER
        for cause in chain_of(error):
            failure = self._calls.failure_of(cause)
            if failure is not Failure.OTHER:
                break
        return failure

    def _path_of(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{check_object_name(name)}"

    def _place_of(self, name: str) -> str:
        return f"{self._url}/{name}".rstrip("/")


def _read(calls: FileSystem, path: str, byte: int, end: int | None) -> bytes:
    try:
        return calls.read(path, byte, end)
    except Exception as error:
        if any(calls.failure_of(cause) is Failure.PAST_END for cause in chain_of(error)):
            return b""
        raise
