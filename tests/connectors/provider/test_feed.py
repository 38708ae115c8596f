"""What the provider tells of changes, what it says to rows of another schema, its folders."""

from typing import Any

import pytest

pytest.importorskip("pyspark")

from support.spark.jvm import run_jvm


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_jvm("feed", root=tmp_path_factory.mktemp("feed"))


def test_a_family_is_not_told_what_was_put_into_one_that_is_gone(found: dict[str, Any]) -> None:
    assert found["families"] == [["put_record", 2, 2, 2]]


def test_all_values_of_a_key_are_told(found: dict[str, Any]) -> None:
    assert found["lists"] == [
        ["put_record", 1, 3, 0],
        ["merge_record", 1, 4, 0],
        ["put_record", 1, 3, 1],
        ["merge_record", 1, 4, 1],
        ["merge_record", 1, 5, 1],
        ["put_record", 2, 6, 1],
        ["delete_record", 1, -1, 2],
    ]


def test_rows_of_another_schema_are_refused_by_every_way_of_reading(found: dict[str, Any]) -> None:
    assert found["refusals"] == {"get": True, "iterator": True, "prefixScan": True}


def test_every_folder_that_is_made_has_its_name_synced(found: dict[str, Any]) -> None:
    assert found["folders"] == ["state/0/0", "state/0", "state", ""]
