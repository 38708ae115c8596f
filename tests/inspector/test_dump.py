"""`cec-store dump`: filters against plain Python, Spark's keys decoded, and logs that grow."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from cec_store import QueueOptions, QueueReplaced, open_queue
from cec_store.cli import app
from cec_store.format.frame import FRAME_HEADER_BYTES
from cec_store.inspector.decoding.records import RecordRow
from cec_store.inspector.places.places import place_at
from cec_store.inspector.showing.dump_filter import DumpFilter
from cec_store.inspector.showing.dump_rows import DamageRow, NoteRow
from cec_store.inspector.showing.dumping import dump
from cec_store.inspector.showing.place_dump import PlaceDump
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import segment_name
from support.places import damaged_queues as made
from support.places.made_checkpoints import KEY, VALUE, MadeCheckpoint, grown
from support.places.state_logs import EMPTY, Writer, merge, random_changes

Line = dict[str, Any]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def lines_of(*arguments: object, status: int = 0) -> list[Line]:
    result = run("dump", *arguments, "--json")
    assert result.exit_code == status, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def records_of(*arguments: object, status: int = 0) -> list[Line]:
    return [row for row in lines_of(*arguments, status=status) if row["row"] == "record"]


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.make_operator_queue(tmp_path_factory.mktemp("made") / "queue", 900)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """Two partitions; the state that each batch left."""
    path = tmp_path_factory.mktemp("made") / "checkpoint"
    _, states, _ = grown(path, beside={(2, b"\1\2"): b"nobody's"})
    return path, states


# -- filters ----------------------------------------------------------------------------------


def test_key_is_json_or_a_value_in_it(queue: Path) -> None:
    every = records_of(queue)
    due = [row for row in every if row["key"] == {"plane": "N2"}]
    assert 0 < len(due) < len(every)
    assert records_of(queue, "--key", '{"plane": "N2"}') == due
    assert records_of(queue, "--key", "N2") == due
    assert records_of(queue, "--key", "N") == records_of(queue, "--key", '{"plane": 2}') == []


def test_filters_together_are_those_one_after_the_other(queue: Path) -> None:
    every = records_of(queue)
    low, high = every[50]["timestamp_us"], every[-50]["timestamp_us"]
    checks = [row["key"] for row in every[60:300] if row["kind"] == "CHECK"]
    key = checks[len(checks) // 2]
    due = [
        row for row in every
        if row["key"] == key and row["kind"] == "CHECK"
        and low <= row["timestamp_us"] < high and 20 <= row["offset"] < 400
    ]  # fmt: skip
    assert due
    assert due == records_of(
        queue, "--key", json.dumps(key), "--kinds", "check", "--since", low, "--until", high,
        "--since-offset", 20, "--until-offset", 400,
    )  # fmt: skip


@pytest.mark.parametrize("key", [(), ("--key", "N1")])
@pytest.mark.parametrize("last", [0, 1, 7, 100, 10**6])
def test_last_are_the_last_of_the_same_dump(queue: Path, last: int, key: tuple[str, ...]) -> None:
    every = records_of(queue, *key)
    assert records_of(queue, *key, "--last", last) == (every[-last:] if last else [])
    frames = [row for row in lines_of(queue, "--frames-only") if row["row"] == "frame"]
    found = [row for row in lines_of(queue, "--frames-only", "-n", last) if row["row"] == "frame"]
    assert found == (frames[-last:] if last else [])


def test_last_records_of_a_log_are_found_without_reading_the_others(
    queue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cec_store.inspector.damage.segment_scan import SegmentScan

    read: list[int] = []
    real = SegmentScan.records

    def records(self: SegmentScan, found: Any) -> pa.RecordBatch:
        read.append(found.byte)
        return real(self, found)

    monkeypatch.setattr(SegmentScan, "records", records)
    rows = list(dump(made.folder_of(queue), DumpFilter(last=1)))
    assert sum(isinstance(row, RecordRow) for row in rows) == 1
    assert len(read) == 1


def test_no_more_bytes_are_looked_at_than_asked_for(queue: Path) -> None:
    frames = [row for row in lines_of(queue, "--frames-only") if row["row"] == "frame"]
    sizes = [row["frame_bytes"] for row in frames]
    for count in (0, 1, 5):
        found = lines_of(queue, "--frames-only", "--max-bytes", sum(sizes[: count + 1]) - 1)
        assert [row for row in found if row["row"] == "frame"] == frames[:count]


def test_bare_records_say_key_state_and_payload_only(queue: Path) -> None:
    lines = run("dump", queue, "--skip-record-metadata").stdout.splitlines()
    records = [line for line in lines if line.startswith("|")]
    assert records
    assert {line.split()[1] for line in records} == {"key:"}
    assert "offset" not in records[0]


# -- Spark's state ----------------------------------------------------------------------------


def applied(rows: list[Line]) -> list[dict[tuple[Any, ...], tuple[Any, ...]]]:
    """The state that records leave, by partition; JSON has told what they are."""
    found: list[dict[tuple[Any, ...], tuple[Any, ...]]] = []
    for row in rows:
        if row["row"] == "log":
            found.append({})
        if row["row"] != "record" or "family" in row["key"]:
            continue
        key = tuple(row["key"].values())
        if row["state"] is None:
            found[-1].pop(key, None)
        else:
            found[-1][key] = tuple(row["state"].values())
    return found


def test_decoded_records_of_a_checkpoint_add_up_to_its_state(checkpoint: Any) -> None:
    path, states = checkpoint
    rows = lines_of(path)
    assert [row["partition"] for row in rows if row["row"] == "log"] == [0, 1]
    assert applied(rows) == [states[-1][0], states[-1][1]]
    for version in (1, 3):
        assert applied(lines_of(path, "--at", version)) == [*states[version - 1].values()]
        found = lines_of(path, "--until-version", version + 1)
        assert applied(found) == [*states[version - 1].values()]
    alone = [row for row in lines_of(path / "state" / "0" / "1") if row["row"] == "record"]
    assert alone == records_of(path, "--partition", 1)


def test_versions_since_are_the_rest_of_versions_until(checkpoint: Any) -> None:
    path, _ = checkpoint
    of = [records_of(path, *options) for options in (
        ("--partition", 0),
        ("--partition", 0, "--until-version", 4),
        ("--partition", 0, "--since-version", 4),
    )]  # fmt: skip
    assert of[0] == of[1] + of[2]
    assert of[1]
    assert of[2]


def test_key_of_spark_is_found_by_its_columns(checkpoint: Any) -> None:
    path, _ = checkpoint
    every = records_of(path)
    one = next(row["key"] for row in every if row["key"].get("user"))
    for key, wanted in (
        ('{"user": "ann"}', lambda k: k.get("user") == "ann"),
        (json.dumps(one), lambda k: k == one),
        ('{"user": null}', lambda k: k.get("user", 0) is None),
        ("ann", lambda k: k.get("user") == "ann"),
        ("2", lambda k: k.get("page") == 2),
        ("0102", lambda k: k.get("key") == "0102"),
    ):
        due = [row for row in every if wanted(row["key"])]
        assert due, key
        assert records_of(path, "--key", key) == due, key


def test_column_that_no_key_has_is_told(checkpoint: Any) -> None:
    path, _ = checkpoint
    notes = [row["what"] for row in lines_of(path, "--key", '{"usr": "ann"}', "--partition", 0)
             if row["row"] == "note"]  # fmt: skip
    assert any("no column 'usr'; they have user, page" in what for what in notes)


def test_raw_is_what_stands_in_the_log(checkpoint: Any) -> None:
    path, _ = checkpoint
    rows = records_of(path, "--raw")
    assert {tuple(row["key"]) for row in rows} == {("family", "key")}
    assert len(rows) == len(records_of(path))
    assert {row["renewed"] for row in rows if row["kind"] == "CHECK"} == {True, False}


def test_rows_that_are_not_of_the_schema_are_in_hex_and_that_is_told(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    grown(path)
    other = MadeCheckpoint(tmp_path / "other", KEY, pa.struct([(f"c{n}", VALUE) for n in "abc"]))
    schema = Path("state/0/0/_metadata/schema")
    (path / schema).write_bytes((other.path / schema).read_bytes())
    rows = lines_of(path)
    assert all(
        isinstance(row["state"], str) for row in rows if row["row"] == "record" and row["state"]
    )
    assert any("states are shown in hex" in row["what"] for row in rows if row["row"] == "note")


def test_damaged_schema_is_told_and_the_rest_is_in_hex(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    grown(path)
    schema = path / "state" / "0" / "0" / "_metadata" / "schema"
    schema.write_bytes(schema.read_bytes()[:9])
    rows = lines_of(path, status=1)
    assert str(schema) in {row["path"] for row in rows if row["row"] == "damage"}
    assert all("family" in row["key"] for row in rows if row["row"] == "record")
    assert rows[-1]["totals"]["records"] > 0


def test_one_log_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    _, states, _ = grown(path)
    for segment in (path / "state" / "0" / "0").glob("*.seg"):
        segment.unlink()
    before = made.hash_of(path)
    rows = lines_of(path, status=1)
    assert applied(rows) == [{}, states[-1][1]]
    end = rows[-1]
    assert (end["sound"], end["totals"]["damaged"], end["totals"]["logs"]) == (False, 1, 2)
    assert [log["damaged"] for log in end["logs"]] == [1, 0]
    assert made.hash_of(path) == before


def test_what_is_not_there_is_wrong_use(checkpoint: Any, queue: Path) -> None:
    path, _ = checkpoint
    for arguments in (
        (path, "--partition", 9), (path, "--operator", 1), (path, "--store", "left"),
        (path, "--at", 77), (path, "--at", "@5"), (queue, "--at", 1),
        (queue, "--since-version", 1), (queue, "--partition", 0), (queue, "-f", "--max-bytes", 1),
    ):  # fmt: skip
        result = run("dump", *arguments)
        assert result.exit_code == 2, (arguments, result.output)
        assert "Traceback" not in result.output


# -- logs that grow ---------------------------------------------------------------------------


def followed(
    path: Path, is_enough: Callable[[list[Any]], bool], wanted: DumpFilter | None = None
) -> list[Any]:
    """Rows of a follower, until there are enough, and then for a while whatever still comes."""
    rows: list[Any] = []
    follower = PlaceDump(place_at(path), wanted or DumpFilter(), False).follow(
        lambda: place_at(path).logs
    )
    give_up_s, idle = time.monotonic() + 30, 0
    for each in follower:
        if each is not None:
            rows.append(each[1])
            continue
        idle = idle + 1 if is_enough(rows) else 0
        if idle > 8:
            return rows
        assert time.monotonic() < give_up_s
        time.sleep(0.002)
    raise AssertionError("a follower goes on for ever")


SCHEMA = pa.schema([("x", pa.int64())])
OPTIONS = QueueOptions(segment_bytes=3_000, group_max_wait_ms=0.5)


def test_follower_of_a_queue_loses_and_doubles_nothing_over_rolls_and_trims(
    tmp_path: Path,
) -> None:
    path, total = tmp_path / "queue", 6_000
    shown = [0]
    rolls_and_trims = [0, 0]
    open_queue(path, "x", schema=SCHEMA).close()

    def write() -> None:
        for _ in range(3):
            with open_queue(path, "a", schema=SCHEMA, options=OPTIONS) as queue:
                for number in range(total // 30):
                    queue.append(pa.record_batch([pa.array(range(10))], schema=SCHEMA))
                    if number % 20 == 19:
                        queue.sync()
                        time.sleep(0.01)
                        before = queue.chain().manifest.first_segment
                        queue.trim(min(shown[0], queue.durable_offset))
                        rolls_and_trims[1] += queue.chain().manifest.first_segment > before
                rolls_and_trims[0] = queue.chain().manifest.newest_segment

    writer = threading.Thread(target=write)
    writer.start()

    def is_enough(rows: list[Any]) -> bool:
        shown[0] = rows[-1].offset if rows and isinstance(rows[-1], RecordRow) else shown[0]
        return not writer.is_alive()

    rows = followed(path, is_enough)
    writer.join()
    assert [row.offset for row in rows if isinstance(row, RecordRow)] == list(range(total))
    assert not any(isinstance(row, (DamageRow, NoteRow)) for row in rows)
    assert rolls_and_trims[0] > 20
    assert rolls_and_trims[1] > 3


def test_follower_says_what_was_trimmed_before_it_came(tmp_path: Path) -> None:
    path = tmp_path / "queue"

    def append(queue: Any) -> None:
        queue.append(pa.record_batch([pa.array([1])], schema=SCHEMA), sync=True)
        queue.roll()

    with open_queue(path, "x", schema=SCHEMA) as queue:
        append(queue)
        follower = PlaceDump(place_at(path), DumpFilter(), False).follow(
            lambda: place_at(path).logs
        )
        rows = [each[1] for each in iter(follower.__next__, None)]
        assert [row.offset for row in rows if isinstance(row, RecordRow)] == [0]
        for _ in range(4):
            append(queue)
        queue.trim(4)
        rows = [each[1] for each in iter(follower.__next__, None)]
    assert [row.offset for row in rows if isinstance(row, RecordRow)] == [4]
    (note,) = [row.what for row in rows if isinstance(row, NoteRow)]
    assert note == "records 1 to 3 were trimmed before they could be shown"


def test_follower_of_a_state_log_loses_and_doubles_nothing_over_merges(tmp_path: Path) -> None:
    path = tmp_path / "state" / "0" / "0"
    path.mkdir(parents=True)
    folder, random = LocalFolder(path), Random(5)
    writer, commits, merges = Writer(folder, random), [EMPTY], [0]
    commits.append(writer.commit(EMPTY, {(1, b"k"): b"v"}))

    def write() -> None:
        old: list[int] = []
        for number in range(2, 201):
            commits.append(
                writer.commit(commits[-1], {**random_changes(random, commits[-1], 6),
                                            (1, b"n"): b"%d" % number}, renew=1)
            )  # fmt: skip
            if number % 7 == 0:
                old.append(commits[-1].segment_id)
                writer.roll()
            if len(old) == 4:  # the newest of these has no successor yet
                merge(folder, old[:3])
                time.sleep(0.02)
                for segment_id in old[:3]:
                    (path / segment_name(segment_id)).unlink()
                old = old[3:]
                merges[0] += 1
            time.sleep(0.001)
        writer.close()

    thread = threading.Thread(target=write)
    thread.start()
    rows = followed(path, lambda _: not thread.is_alive())
    thread.join()
    offsets = [row.offset for row in rows if isinstance(row, RecordRow)]
    assert offsets == list(range(commits[-1].offset))
    assert not any(isinstance(row, DamageRow) for row in rows)
    assert merges[0] > 3
    assert any(isinstance(row, NoteRow) for row in rows)


def test_follower_of_a_checkpoint_sees_batches_and_new_logs(tmp_path: Path) -> None:
    checkpoint = MadeCheckpoint(tmp_path, KEY, VALUE)
    checkpoint.batch({("ann", 0): (0, "")})

    def write() -> None:
        for number in range(1, 30):
            checkpoint.batch({("ann", number): (number, "")}, {("bob", number): (number, "")})
            if number % 5 == 0:
                checkpoint.roll()
            time.sleep(0.002)

    writer = threading.Thread(target=write)
    writer.start()
    rows = followed(tmp_path, lambda _: not writer.is_alive())
    writer.join()
    checkpoint.close()
    keys = [(row.key["user"], row.key["page"]) for row in rows if isinstance(row, RecordRow)]
    assert sorted(keys) == sorted(
        [("ann", number) for number in range(30)] + [("bob", number) for number in range(1, 30)]
    )


def test_follower_shows_damage_once_and_goes_on(tmp_path: Path) -> None:
    path = made.copy(made.make_operator_queue(tmp_path / "made", 1500), tmp_path / "queue")
    byte, _ = made.batches(made.segment(path, 1))[2]
    made.flip(made.segment(path, 1), byte + FRAME_HEADER_BYTES + 5)
    at, _ = made.batches(made.segment(path, 2))[3]
    made.flip(made.segment(path, 2), at + 20)
    due = [row for row in dump(made.folder_of(path)) if isinstance(row, (RecordRow, DamageRow))]
    looks = [0]

    def is_enough(rows: list[Any]) -> bool:
        looks[0] += 1
        return looks[0] > 20

    rows = followed(path, is_enough)
    assert [row for row in rows if isinstance(row, (RecordRow, DamageRow))] == due
    assert sum(isinstance(row, DamageRow) for row in due) == 2


def test_unfinished_frame_is_awaited_and_then_shown(tmp_path: Path) -> None:
    path = tmp_path / "state" / "0" / "0"
    path.mkdir(parents=True)
    writer = Writer(LocalFolder(path), Random(1))
    first = writer.commit(EMPTY, {(1, b"a"): b"1"})
    second = writer.commit(first, {(1, b"b"): b"2"})
    writer.close()
    segment = path / segment_name(second.segment_id)
    data = segment.read_bytes()
    follower = PlaceDump(place_at(path), DumpFilter(), False).follow(lambda: place_at(path).logs)
    seen: list[Any] = []
    for size in (first.end, second.end - 100, second.end - 1, second.end):
        segment.write_bytes(data[:size])
        for _ in range(8):
            seen += [each[1] for each in iter(follower.__next__, None)]
        offsets = [row.offset for row in seen if isinstance(row, RecordRow)]
        assert offsets == ([0, 1] if size == second.end else [0]), size
    assert not any(isinstance(row, DamageRow) for row in seen)


def polled(follower: Any, times: int = 1) -> list[Any]:
    """Rows of so many looks at the logs."""
    return [each[1] for _ in range(times) for each in iter(follower.__next__, None)]


def test_frame_of_a_queue_is_shown_once_it_is_vouched_for(queue: Path, tmp_path: Path) -> None:
    path = made.copy(queue, tmp_path / "queue")
    _, header = made.batches(made.segments(path)[-1])[-1]
    note = max(path.glob("durable-*"))
    vouching = note.read_bytes()
    note.unlink()
    follower = PlaceDump(place_at(path), DumpFilter(), False).follow(lambda: place_at(path).logs)
    seen = [row.offset for row in polled(follower, 8) if isinstance(row, RecordRow)]
    assert seen[-1] < header.first_offset
    note.write_bytes(vouching)
    seen += [row.offset for row in polled(follower) if isinstance(row, RecordRow)]
    assert seen == list(range(header.end_offset))


@pytest.mark.parametrize("partitions", [None, 1])
def test_follower_of_a_queue_that_was_made_anew_is_told(
    tmp_path: Path, partitions: int | None
) -> None:
    path = tmp_path / "q"

    def make(*numbers: int) -> None:
        schema = pa.schema([("n", pa.int64())])
        with open_queue(path, "x", schema=schema, partitions=partitions) as made:
            made.append(pa.table({"n": numbers}))

    make(1, 2)
    follower = PlaceDump(place_at(path), DumpFilter(), False).follow(lambda: place_at(path).logs)
    polled(follower, 2)
    shutil.rmtree(path)
    make(3)
    with pytest.raises(QueueReplaced):
        polled(follower, 2)


def test_place_that_is_bad_for_a_moment_is_no_damage(queue: Path, tmp_path: Path) -> None:
    path = made.copy(queue, tmp_path / "queue")
    segment = made.segments(path)[-1]
    whole = segment.read_bytes()
    byte, header = made.batches(segment)[0]
    segment.write_bytes(
        whole[:byte] + bytes(header.frame_bytes) + whole[byte + header.frame_bytes :]
    )
    follower = PlaceDump(place_at(path), DumpFilter(), False).follow(lambda: place_at(path).logs)
    rows = polled(follower, 2)
    segment.write_bytes(whole)
    rows += polled(follower, 2)
    assert not any(isinstance(row, DamageRow) for row in rows)
    offsets = [row.offset for row in rows if isinstance(row, RecordRow)]
    assert offsets == list(range(offsets[-1] + 1))
    assert offsets[-1] >= header.first_offset


def test_logs_of_a_follower_are_counted_once(checkpoint: Any) -> None:
    path, _ = checkpoint
    followed_rows = lines_of(path, "--follow", "--limit", 40)
    assert followed_rows[-1]["totals"]["logs"] == len(followed_rows[-1]["logs"]) == 2


def test_follow_ends_by_an_interrupt_with_status_0_and_flushes_in_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "queue"
    # Tests that a shell started in its background ignore interrupts, and so would their child.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code = heed + "from cec_store.cli import main; main()"
    command = [sys.executable, "-c", code, "dump", str(path), "-f", "-n", "1", "--json"]
    with open_queue(path, "x", schema=SCHEMA) as queue:
        queue.append(pa.record_batch([pa.array([1, 2])], schema=SCHEMA), sync=True)
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert child.stdout is not None
        try:
            seen = [json.loads(child.stdout.readline()) for _ in range(3)]
            assert (seen[-1]["row"], seen[-1]["offset"]) == ("record", 1)
            queue.append(pa.record_batch([pa.array([3])], schema=SCHEMA), sync=True)
            while seen[-1].get("offset") != 2:
                seen.append(json.loads(child.stdout.readline()))
            os.kill(child.pid, signal.SIGINT)
            out, err = child.communicate(timeout=20)
        finally:
            child.kill()
    assert (child.returncode, err) == (0, "")
    assert json.loads(out.splitlines()[-1])["totals"]["records"] == 2
