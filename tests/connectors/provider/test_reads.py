"""How much of a state log is read: as much as is asked for, however long the log is."""

import pytest

pytest.importorskip("pyspark")

from support.spark.jvm import run_jvm


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    return run_jvm("reads", root=tmp_path_factory.mktemp("reads"), commits=5000)


def test_a_load_reads_the_extent_and_not_the_segment(found: dict[str, dict[str, int]]) -> None:
    load = found["load"]
    assert load["opens"] == 1
    assert load["size"] > 1 << 20
    assert load["bytes"] <= load["extentBytes"] + (80 << 10)


def test_maintenance_opens_no_segment_twice_and_few_at_once(found: dict[str, object]) -> None:
    segments, opens = found["segments"], found["maintenanceOpens"]
    assert isinstance(segments, int)
    assert isinstance(opens, list)
    assert segments > 20
    assert opens[0] <= segments + 4
    assert max(opens[1:]) <= 2
    assert isinstance(found["left"], int)
    assert found["left"] < segments
    assert isinstance(found["openAtOnce"], int)
    assert found["openAtOnce"] <= 5
