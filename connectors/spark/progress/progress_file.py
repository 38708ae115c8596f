"""The progress file in a checkpoint: derived, of bounded size, and deletable at any time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cec_store.connectors.spark.progress.history import FILE_BYTES_MAX, Stretch, decode, encode
from cec_store.storage.folder import FolderTree
from cec_store.storage.paths import AnyPath
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.folders import StorageOptions, folder_at

PROGRESS_FOLDER = "progress"
_DIGITS = 20
_LOOKS = 4


def read_progress(checkpoint: FolderTree) -> list[Stretch]:
    """Return what the newest progress file of a checkpoint says; nothing where there is none.

    Raises:
        ValueError: it is damaged, or of a later release; deleting it mends that.
        StorageError: it cannot be read.
    """
    folder = checkpoint.folder(PROGRESS_FOLDER)
    for _ in range(_LOOKS):
        numbers = _numbers(folder.names()) if folder.exists() else []
        if not numbers:
            return []
        name = _name(numbers[-1])
        try:
            size = folder.size(name)
            if size > FILE_BYTES_MAX:
                raise ValueError("too large for a progress file")
            return decode(folder.read(name, 0, size))
        except FileNotFoundError:
            continue  # a newer one has come meanwhile
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{folder.path}/{name}: {error}; delete it") from None
    return []


class ProgressFile:
    """The file of a checkpoint's ``progress/`` with the highest number, for the driver that writes.

    Each write makes a file with all there is, under the next number, and deletes those before it.
    """

    def __init__(self, checkpoint: AnyPath, storage_options: StorageOptions | None = None) -> None:
        """Raises as :func:`.by_url.store_at`."""
        self._checkpoint = folder_at(checkpoint, storage_options)
        self._store = store_at(f"{self._checkpoint.path}/{PROGRESS_FOLDER}", storage_options)

    def read(self) -> list[Stretch]:
        """Return what is there, as :func:`read_progress`, which has what is raised."""
        return read_progress(self._checkpoint)

    def write(self, stretches: Sequence[Stretch]) -> None:
        """Put a file in place of what was there; nothing where the checkpoint is gone.

        Raises:
            StorageError, OSError: it cannot be written.
        """
        if self._checkpoint.appends:
            if not self._checkpoint.exists():
                return  # Spark deletes the checkpoint of a query that was given none
            self._checkpoint.folder(PROGRESS_FOLDER).make()
        data = encode(stretches)
        for _ in range(_LOOKS):
            numbers = _numbers(entry.name for entry in self._store.list())
            number = numbers[-1] + 1 if numbers else 0
            try:
                self._store.create(_name(number), [data])
            except FileExistsError:
                continue  # another driver of this query: the last word counts
            self._store.delete([_name(old) for old in numbers])
            return


def _numbers(names: Iterable[str]) -> list[int]:
    return sorted(int(name) for name in names if len(name) == _DIGITS and name.isdecimal())


def _name(number: int) -> str:
    return f"{number:0{_DIGITS}d}"
