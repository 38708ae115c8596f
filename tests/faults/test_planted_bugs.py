"""The suites can fail: each bug that is planted in the code is caught by the tests named here."""

import os
import subprocess
import sys

import pytest

from cec_store.connectors.spark.setup import compiler
from support.paths import TESTS
from support.runs.counts import crash_cases
from support.runs.planted_bugs import (
    BUGS,
    BUGS_OF_SCALA,
    OF_DIRECTORIES,
    OF_DUE_ROWS,
    OF_HINTS,
    OF_KEY_RUNS,
    OF_LOCAL_ROWS,
    VARIABLE,
)

pytestmark = pytest.mark.crash

SESSIONS = "operators/aggregate/test_sessions.py"
IN_THE_LOG = "test_a_window_that_went_into_another_one_is_closed_in_the_log_without_output"
CRASHES = "faults/test_crash_states.py::test_crash_keeps_what_was_acknowledged"
TAKEOVERS = "faults/test_fencing.py::test_takeover_loses_nothing_and_reads_no_zombie"
REGISTERING = (
    "queues/test_consumers.py::test_of_a_trim_and_a_registration_the_later_one_sees_the_earlier"
)
LATE = "connectors/provider/test_rules.py::test_rule[a late put reaches no other task's commit]"
RULE = "connectors/provider/test_rules.py::test_rule"
TRANSFORM_BUGS = {
    "loses_a_timer_that_is_moved_while_timers_expire": "a scan shows what was there when it began",
    "tells_a_chunk_of_a_list_twice": "changes of a long list are told once",
    "reads_the_chunk_of_a_list_twice": "a long list is read whole and once",
}
STANDBYS = "standby/test_takeovers.py::test_what_a_primary_does_up_to_the_fence_counts"
INLINE = "partitioned/by_reference/test_inline_commits.py"
RACE = "test_writers_that_race_append_each_once"
REPLICAS = "connectors/provider/test_replicas.py"
DUE_ROWS = "connectors/provider/test_due_rows.py::test_narrowed_scan_gives_the_rows_that_are_due"
WATERMARKS = "faults/test_watermarks.py"
MERGED = "a frame of another lineage in a merged segment is not its place"
JOINT_BUGS = {
    "goes_on_with_a_version_whose_write_failed": (
        "the last of a join's stores raises what the write of another has raised"
    ),
    "gives_a_joins_state_back_while_it_is_written": (
        "a task that ends between a join's commits waits for their writes"
    ),
}
LOCAL_BUGS = {
    "lets_go_of_an_extent_that_others_hold": (
        "rows that went to a local file together stay until the last of them is gone"
    ),
    "leaves_the_last_end_out": (
        "rows that went to a local file together stay until the last of them is gone"
    ),
    "gives_out_room_that_is_taken": (
        "what an address in a local file has is what was written there"
    ),
    "loses_an_interrupt": "an interrupt neither fails local files nor gets lost",
    "keeps_the_room_of_a_state_that_another_one_has_replaced": (
        "a state that another one takes the place of gives back its local room and its share of "
        "the heap"
    ),
    "keeps_the_room_of_a_provider_that_is_closed": (
        "a provider that is closed gives back its local room"
    ),
    "keeps_the_ends_of_large_versions_in_the_heap": (
        "rows of a large version leave nothing in the heap that a local file may have"
    ),
}
NEWEST_FIRST = "of rows that come newest first an index has the first one of each key"
OF_HASHES = "an index that is made of hashes has each key"
IN_ORDER = "keys that are put in order at once are in the order of their bytes"
OF_MANY_BEGINNINGS = (
    "keys in order are found whatever bytes they begin with, and in whatever order they come and go"
)
WHILE_IT_CHANGES = (
    "keys in order are what a map has, and a scan of them what was there when it began"
)
RUN_BUGS = {
    "keeps_the_entry_of_a_key_that_has_a_newer_row": (
        "an index of a table over a run has what a map has"
    ),
    "merges_keys_that_were_deleted": "an index of a table over a run has what a map has",
    "takes_a_key_of_the_same_hash_for_another": "an index of a table over a run has what a map has",
    "frees_a_run_that_a_scan_reads": (
        "a scan of an index gives each key once, whatever is put and merged meanwhile"
    ),
    "scans_a_key_in_the_run_and_above_it": (
        "a scan of an index gives each key once, whatever is put and merged meanwhile"
    ),
    "loads_an_older_row_of_a_key_as_well": NEWEST_FIRST,
    "loads_keys_that_are_closed": NEWEST_FIRST,
    "takes_keys_of_one_hash_for_one_at_a_load": NEWEST_FIRST,
    "loses_entries_that_found_no_slot_of_their_part": OF_HASHES,
    "overwrites_the_next_slot": OF_HASHES,
    "orders_keys_by_four_bytes_alone": IN_ORDER,
    "takes_bytes_for_numbers_with_a_sign": IN_ORDER,
    "compares_local_keys_by_their_length": IN_ORDER,
    "goes_on_where_the_last_key_was": WHILE_IT_CHANGES,
    "finds_no_key_that_begins_a_leaf": WHILE_IT_CHANGES,
    "leaves_moved_rows_where_they_were": WHILE_IT_CHANGES,
    "keeps_words_behind_bytes_that_a_leaf_has_no_more_in_common": OF_MANY_BEGINNINGS,
    "takes_a_look_alike_for_the_key_that_is_known_to_be_there": OF_MANY_BEGINNINGS,
    "takes_words_of_two_leaves_for_those_of_one": OF_MANY_BEGINNINGS,
}
OF_RUNS = "keys in order come out of sorted runs, and no row is read"
OF_FRAMES = "frames have the live rows of their part of a version, and no later times"
DIRECTORY_BUGS = {
    "uses_a_directory_of_another_attempt": "a key directory of another attempt is not used",
    "believes_damaged_hashes": "no damaged byte of a key directory is believed",
    "believes_any_file_of_keys": "keys of another log are not believed",
    "goes_on_from_a_damaged_directory": "no key directory goes on from one that is damaged",
    "has_the_hashes_of_other_frames": "rows of any lengths come out of the log as they were put",
    "has_sorted_keys_of_the_rows_of_another_frame": OF_RUNS,
    "has_dead_rows_in_order": OF_RUNS,
    "has_a_family_that_is_in_order_in_part": (
        "a family that is in order later has its keys read from the rows"
    ),
    "has_the_live_rows_of_another_frame": OF_FRAMES,
    "has_the_time_of_one_of_two_zones": OF_FRAMES,
    "takes_one_of_the_keys_that_look_alike": (
        "rows of any lengths come out of the log as they were put"
    ),
    "takes_the_times_of_another_column": "a key directory says which rows can be due",
    "goes_on_with_a_state_of_which_a_row_was_not_read": (
        "a row that cannot be read fails its batch by name, and the state is loaded anew"
    ),
    "leaves_segments_open_that_could_not_be_read": (
        "no segment stays open once the rows of a state were brought, nor where they could not be"
    ),
    "reads_all_keys_again_for_each_family": (
        "a load passes over the keys once for all families that the heap has room for"
    ),
    "brings_a_block_to_the_place_of_another": (
        "a load by a key directory reads no row before it is asked for"
    ),
}
REPLICA_BUGS = (
    "uses_a_replica_of_another_lineage",
    "keeps_the_rows_of_a_version_that_a_replica_goes_back_from",
    "uses_a_torn_replica",
)
ARRIVING = (
    "a partition that has just moved here keeps the replicas that its task has not come to yet"
)
ARRIVING_BUG = "drops_replicas_before_their_task_has_come_to_them"
MERGED_BUG = "takes_any_merged_frame_for_the_one_that_was_copied"
NEED_SPARK = {
    "takes_handles_of_a_task_that_has_ended",
    ARRIVING_BUG,
    MERGED_BUG,
    *REPLICA_BUGS,
    *TRANSFORM_BUGS,
    *JOINT_BUGS,
    *OF_DUE_ROWS,
    *OF_HINTS,
    *OF_LOCAL_ROWS,
    *OF_KEY_RUNS,
    *OF_DIRECTORIES,
}
CAUGHT_BY = {
    **{bug: f"{RULE}[{fact}]" for bug, fact in (TRANSFORM_BUGS | JOINT_BUGS).items()},
    **{bug: f"{RULE}[{fact}]" for bug, fact in (LOCAL_BUGS | RUN_BUGS | DIRECTORY_BUGS).items()},
    **dict.fromkeys(REPLICA_BUGS, REPLICAS),
    **dict.fromkeys(OF_DUE_ROWS, DUE_ROWS),
    **dict.fromkeys(OF_HINTS, f"{WATERMARKS}::test_scans_read_what_may_be_due_and_no_more"),
    "tells_of_due_rows_in_complete_mode": (
        f"{WATERMARKS}::test_random_stream_is_evicted_as_on_sparks_stores[complete-0]"
    ),
    MERGED_BUG: f"{REPLICAS}::test_rule[{MERGED}]",
    ARRIVING_BUG: f"{REPLICAS}::test_rule[{ARRIVING}]",
    "takes_handles_of_a_task_that_has_ended": LATE,
    "acknowledges_before_the_sync": f"{CRASHES}[groups]",
    "vouches_before_the_sync": f"{CRASHES}[groups]",
    "notes_the_durable_end_before_the_sync": f"{CRASHES}[groups]",
    "takes_the_segments_word_for_its_end": (
        "log/test_noted_end.py::test_a_fault_at_the_end_is_damage"
    ),
    "removes_segments_that_an_older_manifest_does_not_know": (
        "log/test_older_manifest.py::test_an_older_manifest_deletes_nothing"
    ),
    "leaves_a_takeover_unlocked": (
        "queues/test_takeover_locks.py::test_after_a_takeover_the_queue_is_locked"
    ),
    "acknowledges_before_the_note": f"{CRASHES}[groups]",
    "never_syncs_the_directory": f"{CRASHES}[rolls]",
    "tries_a_failed_sync_again": f"{CRASHES}[failed_syncs]",
    "trusts_whole_frames_that_nobody_vouched_for": f"{CRASHES}[failed_syncs]",
    "publishes_a_segment_that_is_not_on_disk": f"{CRASHES}[rolls]",
    "takes_a_part_of_a_step_for_the_step": f"{CRASHES}[steps]",
    "trims_by_frames_that_a_crash_can_hide": f"{CRASHES}[trims]",
    "reads_the_manifest_before_its_claim": f"{TAKEOVERS}[rolls]",
    "looks_for_a_successor_before_the_write": f"{TAKEOVERS}[appends]",
    "ignores_a_short_write": "storage/test_files.py::test_a_short_write_is_finished",
    "does_not_check_the_headers_sum": "faults/test_bit_flips.py",
    "believes_any_length": "format/test_frame.py",
    "does_not_check_the_bodys_sum": "faults/test_bit_flips.py",
    "skips_a_bad_frame": "log/test_tail.py",
    "trims_what_a_rebuild_needs": "queues/test_trimming.py::test_the_programs_above_do_trim",
    "trusts_the_index": "indexes/test_timestamp_index.py",
    "registers_while_a_trim_decides": f"{REGISTERING}[trim]",
    "trims_by_acknowledgements_that_a_crash_can_take_back": (
        "queues/test_trimming.py::test_after_a_power_cut_every_consumer_finds_what_it_needs"
    ),
    "acknowledges_input_before_its_output_is_on_disk": (
        "operators/test_acknowledging.py::test_nothing_is_acknowledged_before_the_output_it_stands_for_is_on_disk"
    ),
    "makes_folders_whose_names_are_not_on_disk": (
        "storage/test_files.py::test_a_power_cut_takes_no_folder_above_one_that_was_made"
    ),
    "leaves_merged_windows_open": f"{SESSIONS}::{IN_THE_LOG}",
    "writes_no_footprint_of_what_was_merged": f"{SESSIONS}::{IN_THE_LOG}",
    "tells_late_rows_by_the_newest_watermark": (
        f"{SESSIONS}::test_a_row_taken_again_is_late_by_the_watermark_that_it_met"
    ),
    "loses_a_determinant": "operators/test_determinants.py",
    "takes_input_again_in_another_order": "operators/test_determinants.py",
    "goes_on_after_an_unfinished_step": (
        "operators/test_runner.py::test_a_runner_that_failed_in_a_step_takes_no_more_and_a_new_one_goes_on"
    ),
    "lets_a_consumer_acknowledge_that_was_taken_over": (
        "queues/test_takeovers.py::test_a_consumer_that_was_taken_over_acknowledges_nothing_more"
    ),
    "deletes_commits_whose_rows_count": "partitioned/by_reference/test_old_inline_commits.py",
    "takes_inline_rows_from_one_frame_further": f"{INLINE}::{RACE}",
    "takes_its_own_commit_for_another_writers": (
        f"{INLINE}::test_a_commit_whose_reply_is_lost_counts_once[inline-lost]"
    ),
    "lets_a_fenced_writer_of_commits_go_on": (
        "queues/test_remote_writing.py::test_who_opens_takes_over_and_the_one_before_is_fenced"
    ),
    "trims_commits_that_a_rebuild_needs": (
        "queues/test_one_writer.py::test_a_trim_keeps_what_a_rebuild_needs"
    ),
    "takes_over_before_it_fences": STANDBYS,
    "trims_held_output_by_what_was_taken": STANDBYS,
    "acknowledges_what_a_join_reads_again": (
        "operators/test_acknowledging.py::test_a_join_asks_for_no_input_that_it_has_let_go"
    ),
}


def run_tests(which: list[str], bug: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n", "0"]
    environment = {**os.environ, VARIABLE: bug, "CEC_CRASH": "quick"}
    return subprocess.run(
        [*command, *which], cwd=TESTS, env=environment, capture_output=True, text=True
    )


def test_every_bug_is_planted_and_they_are_more_than_six():
    assert set(CAUGHT_BY) == set(BUGS)
    assert len(BUGS) > 6


OF_SCALA = {name: texts for bugs in BUGS_OF_SCALA for name, texts in bugs.items()}


@pytest.mark.parametrize("bug", sorted(OF_SCALA))
def test_a_bug_in_scala_fits_the_source_once(bug):
    file, right, wrong = OF_SCALA[bug]
    assert (compiler.SOURCES / file).read_text("utf-8").count(right) == 1
    assert right != wrong


# In the quick tier a few that need no Scala compiled anew, to show that planting works; `make
# crash` has them all.
TRIED = crash_cases(sorted(CAUGHT_BY.keys() - NEED_SPARK)[::6], sorted(CAUGHT_BY))


@pytest.mark.parametrize("bug", TRIED)
def test_a_planted_bug_is_caught(bug, tally):
    if bug in NEED_SPARK:
        pytest.importorskip("pyspark")
    run = run_tests([CAUGHT_BY[bug]], bug)
    # 1 means that tests ran and failed; anything else, that they did not run.
    assert run.returncode == 1, f"{bug}: not caught\n{run.stdout[-2000:]}{run.stderr[-2000:]}"
    assert "1 failed" in run.stdout
    tally(1)
