"""Choice of the Scala sources that go with a Spark.

What Sparks differ in stands below `scala/` in folders beside each other, one for each side, with
the same names inside. Which one a Spark takes is read from its classes, not from its version.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_STREAMING = "org/apache/spark/sql/execution/streaming"
_STATE = f"{_STREAMING}/state"
_TRANSFORMS = f"{_STREAMING}/operators/stateful/transformwithstate"


@dataclass(frozen=True)
class Mark:
    """A class that a Spark may have, by its path in a jar, and a member that this may name."""

    path: str
    member: str = ""

    def is_in(self, classes: Mapping[str, bytes]) -> bool:
        """Return True if it is in ``classes``, the bytes of class files by their paths."""
        name = self.member.encode()
        # As a class file keeps a name: a tag, the length in bytes, and the letters.
        kept = b"\x01" + len(name).to_bytes(2, "big") + name if name else b""
        return self.file in classes and kept in classes[self.file]

    @property
    def file(self) -> str:
        """Path of the class file inside a jar."""
        return f"{self.path}.class"


@dataclass(frozen=True)
class Side:
    """A folder of sources for Sparks with this mark; without one it is for all others."""

    folder: str
    mark: Mark | None = None


_BY_NAME = Mark(f"{_TRANSFORMS}/TransformWithStateExecBase", "validateStateStoreProvider")
CHOICES: tuple[tuple[Side, ...], ...] = (
    (
        Side("sparks/reusable_iterators/present", Mark(f"{_STATE}/ReusableIterator")),
        Side("sparks/reusable_iterators/absent"),
    ),
    (
        Side(
            "sparks/value_encoders/numbered_formats",
            Mark(f"{_STATE}/RocksDBKeyStateEncoder", "supportsDeleteRange"),
        ),
        Side("sparks/value_encoders/one_format"),
    ),
    (
        Side(
            "sparks/checkpoint_files/read_only_logs",
            Mark(f"{_STREAMING}/checkpointing/OffsetSeqLog", "readOnly"),
        ),
        Side(
            "sparks/checkpoint_files/own_package", Mark(f"{_STREAMING}/checkpointing/OffsetSeqLog")
        ),
        Side("sparks/checkpoint_files/streaming_package"),
    ),
    (
        Side(
            "sparks/store_settings/with_validation",
            Mark(f"{_STATE}/StateStoreConf", "commitValidationEnabled"),
        ),
        Side("sparks/store_settings/without_validation"),
    ),
    (
        Side("sparks/store_errors/with_stamps", Mark(f"{_STATE}/StateStoreErrors", "invalidStamp")),
        Side("sparks/store_errors/without_stamps"),
    ),
    (
        Side(
            "sparks/snapshot_reports/present",
            Mark(f"{_STATE}/StateStoreCoordinatorRef", "snapshotUploaded"),
        ),
        Side("sparks/snapshot_reports/absent"),
    ),
    (
        Side("sparks/instance_metrics/present", Mark(f"{_STATE}/StateStoreInstanceMetric")),
        Side("sparks/instance_metrics/absent"),
    ),
    (
        Side("sparks/times_of_day/present", Mark("org/apache/spark/sql/types/TimeType")),
        Side("sparks/times_of_day/absent"),
    ),
    (
        Side(
            "sparks/nano_timestamps/present",
            Mark("org/apache/spark/sql/types/TimestampNTZNanosType"),
        ),
        Side("sparks/nano_timestamps/absent"),
    ),
    (Side("transforms/names_compared", _BY_NAME), Side("transforms/any_name")),
    (
        Side(
            "transforms/operators/own_package",
            Mark(f"{_STREAMING}/operators/stateful/StateStoreSaveExec"),
        ),
        Side("transforms/operators/streaming_package"),
    ),
    (
        Side(
            "transforms/scala_node/real_time",
            Mark(f"{_TRANSFORMS}/TransformWithStateExec", "isRealTimeMode"),
        ),
        Side("transforms/scala_node/plain", _BY_NAME),
    ),
    # It hashes keys as Spark's own tool does, which says how for each operator.
    (Side("moving", Mark(f"{_STATE}/StatePartitionKeyExtractor")),),
)
"""Alternatives: the first whose mark a Spark has is compiled; none where it has no mark."""


def taken(spark_jars: Path) -> set[str]:
    """The folders of the sides that go with the Spark in this folder of jars."""
    classes = _marked_classes(spark_jars)
    firsts = (
        next((s for s in sides if s.mark is None or s.mark.is_in(classes)), None)
        for sides in CHOICES
    )
    return {side.folder for side in firsts if side is not None}


def sources_for(spark_jars: Path, sources: Path, files: Iterable[Path]) -> list[Path]:
    """Return the files below `sources` that go with the Spark in this folder of jars."""
    all_sides = {side.folder for sides in CHOICES for side in sides}
    left_out = {sources / folder for folder in all_sides - taken(spark_jars)}
    return [file for file in files if left_out.isdisjoint(file.parents)]


def _marked_classes(spark_jars: Path) -> dict[str, bytes]:
    """Return the bytes of this Spark's class files that marks name, by path in the jar."""
    class_files = {s.mark.file for sides in CHOICES for s in sides if s.mark is not None}
    classes: dict[str, bytes] = {}
    for path in sorted(spark_jars.glob("spark-*.jar")):
        with zipfile.ZipFile(path) as archive:
            classes |= {
                name: archive.read(name) for name in class_files.intersection(archive.namelist())
            }
    return classes
