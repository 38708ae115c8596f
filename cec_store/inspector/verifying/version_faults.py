"""Versions of a state log that cannot be read, and the damage that each of them comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from cec_store.checkpoints.rebuild import EventualCheckpoint, extent_frames, rebuild
from cec_store.connectors.spark.checkpoint.variable_rows import rows_by_name
from cec_store.errors import CecError, CorruptLog
from cec_store.format.columns import Ints
from cec_store.inspector.damage.faults import EFFECTS, Fault, Note, kind_of
from cec_store.inspector.verifying.kept_versions import KeptVersions
from cec_store.log.frames import Frame
from cec_store.state_logs.tree import StateTree
from cec_store.state_logs.versions import VersionReader

_REBUILT_BYTES_MAX = 96 << 20
"""A rebuild holds its extent in memory, decompressed, and more than once."""
FaultPosition = tuple[str, int]


class VersionFaults:
    """Goes over all versions once segments have been looked at; adds to their faults."""

    def __init__(
        self,
        tree: StateTree,
        kept: KeptVersions,
        lost: dict[FaultPosition, tuple[int, int]],
        faults: list[Fault],
        notes: list[Note],
    ) -> None:
        """``lost``: versions that stood beyond a gap, of which headers alone are left."""
        self._tree = tree
        self._kept = kept
        self._faults = faults
        self._notes = notes
        self._ranges: dict[FaultPosition, tuple[int, int]] = dict(lost)
        self._broken: set[int] = set()

    def _widen(self, position: FaultPosition, versions: Iterable[int]) -> None:
        every = [*self._ranges.get(position, ()), *versions]
        if every:
            self._ranges[position] = (min(every), max(every))

    def _fault_positions(self) -> set[FaultPosition]:
        return {(fault.path, fault.byte) for fault in self._faults}

    def check(self) -> None:
        """Report the versions that are here and cannot be rebuilt.

        What is missing below a version that is there may have been forgotten, and not in the order
        of the versions: a segment stays while a later one builds on it.
        """
        kept, known, gone = self._kept, self._fault_positions(), 0
        fresh: dict[FaultPosition, tuple[str, str, list[int]]] = {}
        for version in kept.numbers[~kept.is_whole].tolist():
            error = kept.problem(version)
            assert error is not None
            kind, position, reason = _cause(self._tree, error)
            if position in known:
                self._widen(position, [version])
            elif len(kept.whole) and (
                version < kept.whole[0] or (kind == "segment-missing" and version < kept.whole[-1])
            ):
                gone += 1
            else:
                fresh.setdefault(position, (kind, reason, []))[2].append(version)
        for (path, byte), (kind, reason, versions) in fresh.items():
            what = f"{_versions(versions[0], versions[-1])} cannot be rebuilt: {reason}"
            self._faults.append(Fault(kind, path, byte, what, True))
            self._widen((path, byte), versions)
        if gone:
            what = f"{gone} older versions can no longer be rebuilt, as segments that they need "
            what += "are gone"
            self._notes.append(Note(self._tree.folder.path, 0, what))

    def check_committed(self, committed: Sequence[tuple[int, int | str]]) -> None:
        """Report committed versions that are missing, except for the oldest ones, which may be
        deleted.
        """
        missing: list[tuple[int, CecError]] = []
        is_found = False
        problem: CecError | None = None
        gone = 0
        for version, at in committed:
            if (
                isinstance(at, int)
                and missing
                and missing[-1][0] == version - 1
                and (version > (self._kept.numbers[-1] if len(self._kept.numbers) else -1))
            ):
                missing.append((version, missing[-1][1]))  # for the same reason as the one before
                continue
            try:
                problem = self._kept.problem(at)
            except ValueError as wrong:
                problem = CorruptLog(self._tree.folder.path, 0, str(wrong))
            if problem is None:
                gone += 0 if is_found else len(missing)
                missing = missing if is_found else []
                is_found = True
            else:
                missing.append((version, problem))
        known = self._fault_positions()
        fresh: dict[tuple[FaultPosition, str], list[int]] = {}
        for version, error in missing:
            _, position, reason = _cause(self._tree, error)
            if position in known:
                self._widen(position, [version])
            else:
                fresh.setdefault((position, reason), []).append(version)
        for (position, reason), versions in fresh.items():
            what = f"{_versions(versions[0], versions[-1])}, which Spark has committed, "
            what += f"cannot be read: {reason}"
            self._faults.append(Fault("version-missing", *position, what, True))
            self._widen(position, versions)
        if gone:
            what = f"{gone} of the oldest versions that Spark has committed are not here any more"
            self._notes.append(Note(self._tree.folder.path, 0, what))

    def rebuild(self, versions: Ints, *, has_variables: bool = False) -> None:
        """Rebuild these with the code that Spark's users will run, where nothing is wrong yet.

        With ``has_variables`` each list must have the chunks that it counts.
        """
        if self._faults:
            return
        too_large = 0
        for version in versions.tolist():
            frame = self._kept.frame(version)
            lineage = VersionReader(self._tree, frame)
            size = sum(item.header.raw_bytes for item in extent_frames(lineage, frame))
            if size > _REBUILT_BYTES_MAX:
                too_large += 1
                continue
            try:
                state = rebuild(lineage)
                if has_variables and not self._has_whole_lists(version, frame, state):
                    return
            except CorruptLog as error:
                what = f"version {version} cannot be rebuilt: {error.reason}"
                self._faults.append(Fault("open-windows", error.path, error.byte, what, True))
                self._widen((error.path, error.byte), [version])
        if too_large:
            what = f"{too_large} versions are larger than this rebuilds "
            what += f"({_REBUILT_BYTES_MAX >> 20} MiB): their windows were counted, not gathered"
            self._notes.append(Note(self._tree.folder.path, 0, what))

    def _has_whole_lists(self, version: int, frame: Frame, state: EventualCheckpoint) -> bool:
        """Report a fault unless the chunks of all lists are there; one version is enough."""
        path = self._tree.segment(frame.address.segment_id).path
        (family, key), (value, _) = state.keys.flatten(), state.states.flatten()
        try:
            rows_by_name(pa.table({"family": family, "key": key, "value": value}), path)
        except CorruptLog as error:
            what = f"version {version}: {error.reason}"
            self._faults.append(Fault("rows", path, frame.address.byte, what, True))
            self._widen((path, frame.address.byte), [version])
            return False
        return True

    def whole(self) -> Ints:
        """The versions that can be rebuilt; to be asked once effects are known."""
        kept = self._kept.whole
        return kept[~np.isin(kept, list(self._broken))] if self._broken else kept

    # -- effects ------------------------------------------------------------------------------

    def with_effects(self) -> Iterator[Fault]:
        """The faults, each with the versions that it keeps from being read."""
        paths = {self._tree.segment(number).path: number for number in self._tree.ids}
        for fault in self._faults:
            position = (fault.path, fault.byte)
            if fault.kind in _OF_BODIES and fault.path in paths:
                # Only a body is damaged: versions that do not need its records can still be read.
                end = np.iinfo(np.int64).max if fault.end_offset is None else fault.end_offset
                needing = self._kept.needing(paths[fault.path], fault.byte, end).tolist()
                self._widen(position, needing)
                self._broken.update(needing)
            first, last = self._ranges.get(position, (None, None))
            ranged = replace(fault, first_version=first, last_version=last)
            yield replace(ranged, effect=self._effect(ranged))

    def _effect(self, fault: Fault) -> str:
        first, last = fault.first_version, fault.last_version
        if first is None or last is None:
            if fault.kind in _OF_BODIES:
                return "no version that is kept needs it"
            return EFFECTS[fault.kind]
        text = f"{_versions(first, last)} cannot be read"
        kept = self._kept
        if len(kept.numbers) and last < kept.numbers[-1]:
            return f"{text}; a restart at version {kept.numbers[-1]}, the newest, does not need it"
        if len(kept.numbers) and last == kept.numbers[-1]:
            lost = "it" if first == last else "them"
            text += f", and with {lost} the {int(kept.windows[-1]):,} windows open at the end"
        return f"{text}; a restart at the newest version fails"


_OF_BODIES = ("body-checksum", "body-structure")


def _cause(tree: StateTree, error: CecError) -> tuple[str, FaultPosition, str]:
    if isinstance(error, CorruptLog):
        kind = "segment-missing" if "missing" in error.reason else "chain"
        return kind, (error.path, error.byte), error.reason
    return kind_of(error), (tree.folder.path, 0), str(error)


def _versions(first: int, last: int) -> str:
    return f"version {first}" if first == last else f"versions {first} to {last}"
