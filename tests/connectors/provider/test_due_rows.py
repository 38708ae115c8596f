"""Scans that a hint narrows give the rows that are due, and read few others."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from support.places.key_directories import verify_directories
from support.spark.jvm import CHECKED, run_jvm

KINDS = 6


@pytest.mark.crash
def test_narrowed_scan_gives_the_rows_that_are_due(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    """Times in keys and values, structs, sessions, timeouts, without any order; hints that are
    stale, of another operator or run, or wrong make a scan full."""
    seeds = crash_count(4 * KINDS, 100 * KINDS)
    found = run_jvm("dueRows", root=tmp_path, until=seeds, timeout_s=240 + seeds)
    assert found["seeds"] == seeds
    assert found["narrowed"] > 8 * seeds
    assert found["full"] > 4 * seeds
    assert found["due"] > 100 * seeds
    for what in ("aborts", "back", "loads", "early", "late"):
        assert found[what] > seeds, what
    assert found["withoutTime"] > seeds
    assert found["renewed"] > 100 * seeds


@pytest.mark.crash
def test_narrowed_scan_after_a_load_by_a_key_directory_gives_the_rows_that_are_due(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    """Times come with the directory, and rows out of the log when they are asked for."""
    seeds = crash_count(KINDS, 100 * KINDS)
    found = run_jvm(
        "dueRows", root=tmp_path, until=seeds, directories=True, timeout_s=240 + seeds,
        settings=CHECKED,
    )  # fmt: skip
    assert found["byDirectory"] > 2 * seeds
    assert verify_directories(tmp_path) > seeds / 3
    assert found["refused"] == 0
    assert found["narrowed"] > 8 * seeds
    assert found["due"] > 100 * seeds


def test_narrowed_scan_reads_a_zone_for_each_row_that_is_due_at_most(tmp_path: Path) -> None:
    """Rows come in no order of their times; what is read does not grow with what there is."""
    found = run_jvm("dueRowsCosts", root=tmp_path)
    read, due = found["all"]
    assert due > 20_000
    assert read <= 300 * due
    (third, due_of_third), (fourth, due_of_fourth) = found["third"], found["fourth"]
    assert fourth / due_of_fourth <= 1.1 * third / due_of_third


def test_scan_of_a_join_gives_the_keys_that_have_rows_which_are_due(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    """Spark scans the store that counts each key's rows; the times stand in the store beside it.
    Keys are of many types, rows without a time bring theirs again, and a row that nobody counts
    makes a scan full."""
    seeds = crash_count(12, 300)
    found = run_jvm("dueKeys", root=tmp_path, until=seeds, timeout_s=240 + seeds)
    assert found["seeds"] == seeds
    assert found["narrowed"] > 8 * seeds
    assert found["removed"] > 100 * seeds
    for what in ("leftOut", "again", "aborts", "uncounted"):
        assert found[what] > seeds, what
