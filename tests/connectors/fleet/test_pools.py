"""Which of a fleet's queries get a core first: on a Spark with one, which is shared out fairly."""

from typing import Any

import pytest

from support.spark.jobs import run_job

pytest.importorskip("pyspark")
JOB_S_MAX = 300.0


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("pools")
    [found] = run_job("pools_job", folder, JOB_S_MAX)
    return found


def test_queries_in_time_come_first_and_then_those_behind_by_the_plan(
    said: dict[str, Any],
) -> None:
    assert said["served"] == ["third", "first, behind", "second, behind"]


def test_a_query_that_is_started_anew_keeps_its_place_in_the_plan(said: dict[str, Any]) -> None:
    assert said["first anew"] == ["third", "first, behind", "second, behind"]


def test_a_new_plan_moves_queries_that_run_already(said: dict[str, Any]) -> None:
    assert said["arranged anew"] == ["third", "second, behind", "first, behind"]


def test_batches_that_leave_rows_behind_are_in_the_pool_for_those(said: dict[str, Any]) -> None:
    assert said["True"] == ["copied", "copied, behind"]


def test_not_in_turn_all_batches_are_in_the_same_pool(said: dict[str, Any]) -> None:
    assert said["False"] == ["copied"]


def test_a_query_that_is_behind_does_not_wait_for_its_trigger(said: dict[str, Any]) -> None:
    assert said["days True"] == said["days, first come"] == 6


def test_nor_does_it_after_a_batch_that_an_earlier_run_has_begun(said: dict[str, Any]) -> None:
    assert said["days, failed once"] == 6


def test_not_in_turn_it_waits_for_its_trigger(said: dict[str, Any]) -> None:
    assert said["days False"] == 2
