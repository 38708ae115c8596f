"""Check from files alone, without Spark, that a store of one of Spark's own providers can be read.

Every version that Spark has committed and keeps must have all files that a load reads. Each file is
compared with the checksums beside it, a zip also with its own checksums, a file of changes with its
frame, and the files that a zip names with their sizes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from cec_store.connectors.spark.checkpoint.parsing import damaged, json_object, parsed
from cec_store.errors import CorruptLog
from cec_store.format.checksum import crc32c
from cec_store.inspector.built_in.changed_rows import check_whole
from cec_store.inspector.built_in.loads import chain_of
from cec_store.inspector.built_in.snapshots import read_snapshot
from cec_store.inspector.built_in.store_files import MISSING, StoreFile, StoreFiles
from cec_store.inspector.damage.faults import Fault, Note
from cec_store.inspector.damage.hadoop_checksums import hadoop_mismatch
from cec_store.storage.folder import Folder

_READ_BYTES = 1 << 20
_CHECKSUM_BYTES_MAX = 1 << 16


class StoreCheck:
    """One store; what is found stands in :attr:`faults` and :attr:`notes`."""

    def __init__(
        self,
        files: StoreFiles,
        committed: Sequence[tuple[int, str | None]],
        done: Callable[[int], None],
    ) -> None:
        """``committed``: versions with their unique ids, ascending; ``done`` is called with bytes
        as they are read."""
        self._files = files
        self._committed = committed
        self._done = done
        self._shared: dict[str, int] = {}
        self.faults: list[Fault] = []
        self.notes: list[Note] = []
        self.loadable: list[int] = []
        """Versions of which every file is there."""

    def run(self) -> None:
        """Look at all of it; what Spark deletes meanwhile is passed over."""
        for file in self._files.files:
            self._try(file.name, lambda file=file: self._check_content(file))  # type: ignore[misc]
        self._check_shared()
        self._check_chains()

    # -- files ----------------------------------------------------------------------------------

    def _try(self, name: str, check: Callable[[], None]) -> bool:
        folder = self._files.folder
        try:
            if not self._fits_checksums(folder, name):
                return False
            check()
        except FileNotFoundError:
            return False
        except CorruptLog as error:
            self._add(Fault("state-file-damaged", error.path, error.byte, error.reason, True))
            return False
        return True

    def _add(self, fault: Fault) -> None:
        if fault not in self.faults:
            self.faults.append(fault)

    def _fits_checksums(self, folder: Folder, name: str) -> bool:
        problem = hadoop_mismatch(folder, name) or spark_mismatch(folder, name)
        if problem is not None:
            self._add(Fault("spark-checksum", f"{folder.path}/{name}", *problem, True))
        return problem is None

    def _check_content(self, file: StoreFile) -> None:
        folder = self._files.folder
        if file.suffix == "zip":
            self._done(self._files.size(file.name))
            self._shared |= read_snapshot(folder, file.name).shared
        elif check_whole(folder, file.name, self._done) is None:
            what = "compressed in a way that is not read here; only its checksums were looked at"
            self.notes.append(Note(self._files.path(file.name), 0, what))

    def _check_shared(self) -> None:
        """Check the files that the zips name, and note each shared file that no zip names."""
        present = self._files.shared
        folders = self._files.folder.folders()
        for name, size in self._shared.items():
            path = self._files.path(name)
            if name not in present:
                self._add(Fault("state-file-missing", path, 0, "a zip names this file", True))
            elif present[name] != size:
                what = f"it has {present[name]:,} bytes, where a zip says {size:,}"
                self._add(Fault("state-file-damaged", path, min(size, present[name]), what, True))
            else:
                inside, _, own = name.partition("/")
                self._done(size)
                self._fits_checksums(folders[inside], own)
        for name in sorted(present.keys() - self._shared.keys()):
            what = "no zip names it: of an attempt that was given up, or of a version since deleted"
            self.notes.append(Note(self._files.path(name), 0, what))

    # -- versions -------------------------------------------------------------------------------

    def _check_chains(self) -> None:
        broken: dict[tuple[str, int, str], list[int]] = {}
        for version, unique_id in self._committed:
            try:
                chain_of(self._files, version, unique_id)
            except CorruptLog as error:
                broken.setdefault((error.path, error.byte, error.reason), []).append(version)
            except FileNotFoundError:
                continue
            else:
                self.loadable.append(version)
        own = {file.version for file in self._files.files}
        for (path, byte, what), versions in broken.items():
            # Spark deletes a version with all files of it, from the oldest on.
            forgotten = [v for v in versions if self._is_old(v) and v not in own]
            if forgotten:
                note = f"versions {forgotten[0]} to {forgotten[-1]} are not here any more"
                self.notes.append(Note(self._files.folder.path, 0, note))
            lost = [v for v in versions if v not in forgotten]
            if lost:
                kind = "state-file-missing" if what == MISSING else "state-file-damaged"
                fault = Fault(kind, path, byte, what, True)
                self._replace(replace(fault, first_version=lost[0], last_version=lost[-1]))

    def _is_old(self, version: int) -> bool:
        return bool(self.loadable) and version < self.loadable[0]

    def _replace(self, fault: Fault) -> None:
        """One that says versions stands for one of the same file that does not."""
        self.faults = [f for f in self.faults if (f.path, f.byte) != (fault.path, fault.byte)]
        self.faults.append(fault)


def spark_mismatch(folder: Folder, name: str) -> tuple[int, str] | None:
    """Return why a file does not fit the checksum that Spark keeps beside it; ``None`` if it does.

    Raises:
        CorruptLog: the checksum is none of Spark's.
        FileNotFoundError: the file is gone.
    """
    beside = f"{name}.crc"
    path = f"{folder.path}/{beside}"
    try:
        data = folder.read(beside, 0, min(folder.size(beside), _CHECKSUM_BYTES_MAX))
    except FileNotFoundError:
        return None

    def parse() -> tuple[int, int]:
        document = json_object(json.loads(data))
        if document["algorithm"] != "CRC32C":
            raise damaged(path, 0, f"a checksum by {document['algorithm']!r}; known is CRC32C")
        return int(document["value"]) & 0xFFFFFFFF, int(document["mainFileSize"])

    due, due_size = parsed(path, data, parse)
    size, crc = folder.size(name), 0
    if size != due_size:
        return min(
            size, due_size
        ), f"it has {size:,} bytes, where Spark's checksum says {due_size:,}"
    for at in range(0, size, _READ_BYTES):
        crc = crc32c(folder.read(name, at, min(_READ_BYTES, size - at)), crc)
    return None if crc == due else (0, "it does not fit Spark's checksum beside it")
