"""Which sources a Spark takes: by the classes in its jars, whatever its version says."""

import zipfile
from pathlib import Path

import pytest

from cec_store.connectors.spark.setup.compiler import SOURCES
from cec_store.connectors.spark.setup.sides import CHOICES, Mark, Side, sources_for

STATE = "org/apache/spark/sql/execution/streaming/state"
REUSABLE = f"{STATE}/ReusableIterator.class"


def constant(name: str) -> bytes:
    """As a class file keeps it, among others."""
    return b"\xca\xfe\xba\xbe" + b"\x01" + len(name).to_bytes(2, "big") + name.encode() + b"\x07"


def spark_with(folder: Path, classes: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(folder / "spark-sql_2.13-4.9.9.jar", "w") as archive:
        for name, data in classes.items():
            archive.writestr(name, data)
    return folder


def taken(jars: Path) -> set[str]:
    files = sources_for(jars, SOURCES, SOURCES.rglob("*.scala"))
    return {file.parent.relative_to(SOURCES).as_posix() for file in files}


def test_a_mark_is_a_class_and_all_letters_of_a_member() -> None:
    classes = {REUSABLE: constant("supportsDeleteRange")}
    mine = REUSABLE.removesuffix(".class")
    assert Mark(mine).is_in(classes)
    assert Mark(mine, "supportsDeleteRange").is_in(classes)
    assert not Mark(mine, "supportsDelete").is_in(classes)
    assert not Mark(mine, "supportsDeleteRanges").is_in(classes)
    assert not Mark(f"{STATE}/Reusable").is_in(classes)


def test_a_spark_with_none_of_the_marks_takes_the_sides_for_all_others(tmp_path: Path) -> None:
    found = taken(spark_with(tmp_path, {}))
    for sides in CHOICES:
        assert [s.folder for s in sides if s.folder in found] == [
            s.folder for s in sides if s.mark is None
        ]
    assert {"store", "source", "tables", "replicas", "standby"} <= found


def test_one_class_more_changes_one_side(tmp_path: Path) -> None:
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    more = taken(spark_with(tmp_path / "with", {REUSABLE: constant("hasNext")}))
    less = taken(spark_with(tmp_path / "without", {}))
    assert more - less == {"sparks/reusable_iterators/present"}
    assert less - more == {"sparks/reusable_iterators/absent"}


@pytest.mark.parametrize("sides", CHOICES, ids=lambda sides: sides[0].folder)
def test_sides_differ_in_what_they_are_for(sides: tuple[Side, ...]) -> None:
    marks = [side.mark for side in sides]
    assert len(set(marks)) == len(marks)
    assert None not in marks[:-1], "what stands behind it is never taken"


def test_no_version_of_spark_is_named_by_a_folder() -> None:
    assert not [s.folder for sides in CHOICES for s in sides if any(map(str.isdigit, s.folder))]
