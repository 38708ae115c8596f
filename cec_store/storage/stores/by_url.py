"""The store of a path or URL."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from cec_store.errors import StorageError, StoreNotInstalled
from cec_store.storage.paths import AnyPath
from cec_store.storage.stores.abfs import AbfsFileSystem
from cec_store.storage.stores.failures import Failure, error_for
from cec_store.storage.stores.file_system import FileSystem
from cec_store.storage.stores.fsspec_store import FsspecStore
from cec_store.storage.stores.local_store import LocalStore
from cec_store.storage.stores.memory import MemoryFileSystem
from cec_store.storage.stores.retrying import Retries
from cec_store.storage.stores.store import Store

_MISTYPED = re.compile(r"([A-Za-z][A-Za-z0-9]*)(?::/?|//)(?=[^/])(.*)", re.DOTALL)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.:-]*)://(.*)", re.DOTALL)


class _Kind(NamedTuple):
    """Package and file system that URLs of one scheme are reached by."""

    package: str
    extra: str
    load: Callable[[], type[FileSystem]]
    """Imports what the package is needed for."""


def _s3() -> type[FileSystem]:
    from cec_store.storage.stores.s3 import S3FileSystem

    return S3FileSystem


def _gcs() -> type[FileSystem]:
    from cec_store.storage.stores.gcs import GcsFileSystem

    return GcsFileSystem


def _webhdfs() -> type[FileSystem]:
    from cec_store.storage.stores.webhdfs import WebHdfsFileSystem

    return WebHdfsFileSystem


_S3 = _Kind("s3fs", "s3", _s3)
_GCS = _Kind("gcsfs", "gcs", _gcs)
_ABFS = _Kind("adlfs", "abfs", lambda: AbfsFileSystem)
_HDFS = _Kind("requests", "hdfs", _webhdfs)
_KINDS = {
    "s3": _S3,
    "s3a": _S3,
    "gs": _GCS,
    "gcs": _GCS,
    "abfs": _ABFS,
    "abfss": _ABFS,
    "az": _ABFS,
    "hdfs": _HDFS,
    "webhdfs": _HDFS,
    "memory": _Kind("fsspec", "", lambda: MemoryFileSystem),
}

PACKAGES = {kind.extra: kind.package for kind in _KINDS.values() if kind.extra}
"""Packages that reach stores, by the extra that installs them."""


def store_at(
    path_or_url: AnyPath,
    storage_options: Mapping[str, Any] | None = None,
    *,
    single_writer: bool = False,
    retries: Retries | None = None,
) -> Store:
    """The store of a local path, ``file://``, or a URL of one of the schemes below.

    ``s3://`` (``s3a://``), ``gs://``, ``abfs://`` (``abfss://``), ``webhdfs://``, ``hdfs://`` and
    ``memory://``. ``hdfs://`` is reached over WebHDFS as well: the port in the URL is that of
    another protocol and is not used; WebHDFS is asked at 9870 of that host, or where ``host`` and
    ``port`` in ``storage_options`` say. No request is made before the first call of the store.

    Args:
        path_or_url: Where the tree's root is; it need not be there yet, its bucket has to be.
        storage_options: Of the fsspec file system, as pandas takes them; ``single_writer`` among
            them is the one below.
        single_writer: Write to a store without conditional creates, of any scheme that fsspec
            knows; :class:`FsspecStore` says what that risks. Reading needs no such thing.
        retries: How often a remote store is asked before its failure is raised.

    Raises:
        ValueError: a scheme that is not known, a URL that names no bucket or host, or that holds a
            password; options for local files, which have none.
        StoreNotInstalled: the package that reaches it is missing or too old.
        CredentialsRefused: that package finds no credentials, and asks for them at once.
        StoreUnreachable: that package asks a server at once, and gets no answer.
    """
    given = os.fsdecode(path_or_url)
    location = _url_in(given)
    if isinstance(location, LocalStore):
        if storage_options:
            raise ValueError(f"{given}: local files have no storage_options")
        return location
    url, kind = location
    options = dict(storage_options or {})
    is_alone = options.pop("single_writer", False)
    if not isinstance(is_alone, bool):
        raise ValueError(f"{given}: single_writer={is_alone!r}: True or False")
    single_writer = single_writer or is_alone
    return FsspecStore(
        url, lambda: _connected(url, kind, options), single_writer=single_writer, retries=retries
    )


def name_of(path_or_url: AnyPath) -> str:
    """Return the absolute path or the URL by which :func:`store_at` would know it; none is opened.

    Raises:
        ValueError: as there.
    """
    location = _url_in(os.fsdecode(path_or_url))
    return location.url if isinstance(location, LocalStore) else location[0]


def _url_in(given: str) -> LocalStore | tuple[str, _Kind]:
    """Return the store of local files, or the URL and how it is reached."""
    match = _SCHEME.fullmatch(given)
    mistyped = None if match else _MISTYPED.fullmatch(given)
    if mistyped and mistyped[1].lower() in {*_KINDS, "file"}:
        slashes = ":///" if mistyped[1].lower() == "file" else "://"
        raise ValueError(
            f"{given}: neither a URL nor a plain path; write {mistyped[1]}{slashes}{mistyped[2]}, "
            f"or ./{given} for a local folder of that name"
        )
    if match is None or match[1].lower() == "file":
        return LocalStore(_path_in(match[2], given) if match else given)
    scheme = match[1].lower()
    _check(given, scheme, match[2])
    kind = _KINDS.get(scheme) or _unknown_kind(given, scheme)
    return f"{scheme}://{match[2].rstrip('/')}", kind


def _path_in(rest: str, url: str) -> str:
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost") or not slash:
        raise ValueError(f"{url}: file:// names a path of this machine, as in file:///data/queue")
    return slash + path


def _check(url: str, scheme: str, rest: str) -> None:
    bucket, *folders = rest.rstrip("/").split("/")
    if ":" in bucket.rpartition("@")[0] and scheme != "github":  # its are github://user:repo@ref/
        raise ValueError(f"{scheme}://: the URL holds a password; give it in storage_options")
    if not bucket and scheme in _KINDS and scheme != "memory":
        raise ValueError(f"{url}: names no bucket, container or host")
    if any(folder in ("", ".", "..") for folder in folders):
        raise ValueError(f"{url}: has an empty part, or one that is . or ..")


def _unknown_kind(url: str, scheme: str) -> _Kind:
    known = ", ".join(f"{name}://" for name in _KINDS)
    try:
        from fsspec.registry import known_implementations
    except ImportError:
        known_implementations = {}
    if scheme not in known_implementations:
        raise ValueError(f"{url}: {scheme}:// is not known; use a local path, {known}")
    return _Kind("fsspec", "", lambda: FileSystem)


def _forget_listings(calls: Any) -> None:
    """Let the store answer, and not what a file system has kept of its listings.

    Its constructor is not asked to: some hand all options on to a client that knows no such one.
    """
    listings = getattr(calls, "dircache", None)
    if listings is not None and hasattr(listings, "use_listings_cache"):
        listings.use_listings_cache = False
        listings.clear()


def _connected(url: str, kind: _Kind, options: dict[str, Any]) -> tuple[FileSystem, str]:
    try:
        import_module(kind.package)
        made = kind.load()
        where, own = made.address(url, options)
        # Of its own: no other user of the same options meets the settings made here.
        calls, root = import_module("fsspec.core").url_to_fs(where, **own, skip_instance_cache=True)
        if "use_listings_cache" not in own:
            _forget_listings(calls)
    except ImportError as error:
        if isinstance(error, StoreNotInstalled):
            raise
        extra = f"'cec-store[{kind.extra}]'" if kind.extra else "what that names"
        what = f"{kind.package} is needed for it and cannot be imported"
        raise StoreNotInstalled(f"{url}: {what} ({error}); pip install {extra}") from error
    except TypeError as error:  # of its constructor
        what = "what reaches it takes other storage_options"
        raise ValueError(f"{url}: {what} ({error}); give those that fsspec names") from error
    except Exception as error:
        # Some look for credentials here already, and have no error of their own for it.
        if "credential" in str(error).lower():
            raise error_for(Failure.NO_CREDENTIALS, url, error, reading=True) from error
        # Some ask their server here already, as for a repository's branches.
        if isinstance(error, OSError) and not isinstance(error, (FileNotFoundError, StorageError)):
            raise error_for(Failure.PASSING, url, error, reading=True) from error
        raise
    return made(calls), root
