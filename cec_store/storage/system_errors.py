"""What the system says about a file, as the store's own errors."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from cec_store.errors import DiskFull, ReadOnly, StorageError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextmanager
def os_errors_of(path: str) -> Iterator[None]:
    """Turn what the system says about ``path`` into the store's own errors."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFull(
                f"{path}: no space left ({error.strerror}); free some and reopen"
            ) from error
        if error.errno in _DENIED:
            raise ReadOnly(f"{path}: cannot be written ({error.strerror})") from error
        raise StorageError(f"{path}: {error.strerror or error}") from error
