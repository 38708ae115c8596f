"""Partitioned queues under the verbs: what they are, and each damage by object and byte."""

from __future__ import annotations

import dataclasses
import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cec_store.errors import CorruptLog
from cec_store.format.by_reference.commit_body import segments_of
from cec_store.format.by_reference.commits import Operation, ReferenceObject, Since
from cec_store.inspector.decoding.records import RecordRow
from cec_store.inspector.places.places import Log, PlaceKind, place_at
from cec_store.inspector.showing.dump_filter import DumpFilter
from cec_store.inspector.showing.dump_rows import DamageRow, NoteRow, Row
from cec_store.inspector.showing.place_dump import PlaceDump
from cec_store.inspector.verifying.reference_commits import CommitChecks, what_does_not_follow
from cec_store.opening import open_queue, read_queue
from cec_store.partitioned.by_reference.partitioned_queue import PartitionedQueue
from cec_store.storage.names import commit_object_name
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.store import Store
from support.command_line.json_schemas import check
from support.command_line.verify import document, run
from support.places.layouts import put_into_objects
from support.places.verified_queues import COMMITS, flip, live, make, replace, rows
from support.stores.copies import contents, in_memory
from support.stores.needed import need

Hand = Callable[[Store], tuple[str, str, int | None]]


@pytest.fixture(params=["local", "memory"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Rows are in data objects here; of others: test_inline_queues.py."""
    put_into_objects(monkeypatch)
    if request.param == "memory":
        need("fsspec")
    path = str(tmp_path / "q") if request.param == "local" else in_memory()
    make(path)
    return path


def segments(store: Store) -> list[str]:
    return sorted(name for name in contents(store) if name.startswith("data/"))


# -- sound ------------------------------------------------------------------------------------


def test_the_verbs_name_it_for_what_it_is(path: str, tmp_path: Path) -> None:
    assert place_at(path).kind is PlaceKind.PARTITIONED_QUEUE
    before = contents(store_at(path))
    for verb in (["verify"], ["verify", "--deep"], ["extent", "--counts"], ["report"],
                 ["consumers"]):  # fmt: skip
        done = run(*verb, path, "--json")
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        check(verb[0], found)
        assert found["kind"] == "partitioned queue"
        assert found["sound"] is True
        assert [log["name"] for log in found["logs"]] == [f"partition {n}" for n in range(3)]
        page = ["-o", str(tmp_path / "page.html")] if verb == ["report"] else []
        assert run(*verb, path, *page).exit_code == 0
    assert contents(store_at(path)) == before


def test_figures_are_those_of_its_rows(path: str) -> None:
    verified = document(path, "--records")  # type: ignore[arg-type]
    assert verified["totals"]["records"] == 400
    assert verified["totals"]["kinds"]["DATA"] == 400
    assert verified["notes"] == []
    extent = json.loads(run("extent", path, "--json").stdout)
    assert extent["totals"]["records"] == 400
    for each in ("segments", "bytes", "frames"):
        assert extent["totals"][each] == verified["totals"][each] > 0
    consumers = json.loads(run("consumers", path, "--json").stdout)
    assert (consumers["retention"], consumers["consumers"]) == ("7d", [])
    ends = [log["end_offset"] for log in consumers["logs"]]
    assert sum(ends) == 400


def test_replay_and_dump_show_all_rows(path: str) -> None:
    expected = read_queue(path).read_all().sort_by("n")
    assert expected == rows(0, 400)
    replayed = [json.loads(line) for line in run("replay", path, "--json").stdout.splitlines()]
    assert sorted(row["n"] for row in replayed) == list(range(400))
    lines = [json.loads(line) for line in run("dump", path, "--json").stdout.splitlines()]
    for line in lines:
        check("dump", line)
    records = [line for line in lines if line["row"] == "record"]
    assert sorted(row["data"]["n"] for row in records) == list(range(400))
    assert {line["path"] for line in lines if line["row"] == "note"} == {
        f"{store_at(path).url}/{name}" for name in segments(store_at(path))
    }


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        (["--since", "390000000"], range(390, 400)),
        (["--since", "100000000", "--until", "105000000"], range(100, 105)),
        (["--key", '{"key": "k3"}'], []),
    ],
)
def test_a_dump_shows_what_is_asked_for(
    path: str, options: list[str], numbers: list[int] | range
) -> None:
    lines = [json.loads(x) for x in run("dump", path, "--json", *options).stdout.splitlines()]
    records = [line for line in lines if line["row"] == "record"]
    assert sorted(row["data"]["n"] for row in records) == list(numbers)


def test_a_dump_shows_the_last_ones(path: str) -> None:
    done = run("dump", path, "--json", "--partition", "1", "--last", "3")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    records = [line["offset"] for line in lines if line["row"] == "record"]
    end = place_at(path).reference.ends()[1]
    assert records == [end - 3, end - 2, end - 1]


def test_an_index_is_refused_by_name(path: str) -> None:
    before = contents(store_at(path))
    done = run("reindex", path)
    assert done.exit_code == 2
    assert "partitioned queue" in " ".join(done.stderr.replace("│", " ").split())
    assert contents(store_at(path)) == before


def test_a_dump_counts_each_partition(path: str) -> None:
    lines = [json.loads(line) for line in run("dump", path, "--json").stdout.splitlines()]
    assert [line["partition"] for line in lines if line["row"] == "log"] == [0, 1, 2]
    end = lines[-1]
    ends = place_at(path).reference.ends()
    assert [log["records"] for log in end["logs"]] == [*ends.values()]
    assert (end["totals"]["logs"], end["totals"]["records"]) == (3, 400)


# -- following --------------------------------------------------------------------------------


def polled(follower: Iterator[tuple[Log, Row] | None]) -> list[tuple[Log, Row]]:
    """What one look shows."""
    return [*iter(lambda: next(follower), None)]  # type: ignore[arg-type]


def numbers_in(shown: list[tuple[Log, Row]]) -> list[int]:
    return sorted(row.data["n"] for _, row in shown if isinstance(row, RecordRow) and row.data)


def test_who_follows_is_shown_each_row_once_over_merges(path: str) -> None:
    place = place_at(path)
    follower = PlaceDump(place, DumpFilter(), False).follow(lambda: place.logs)
    assert numbers_in(polled(follower)) == list(range(400))
    assert polled(follower) == []
    with open_queue(path, "a", partitions=3) as queue:
        assert isinstance(queue, PartitionedQueue)
        queue.append(rows(400, 50))
        assert numbers_in(polled(follower)) == list(range(400, 450))
        queue.append(rows(450, 50))
        assert queue.merge() > 3, "of what was shown and what was not"
    shown = polled(follower)
    assert numbers_in(shown) == list(range(450, 500))
    assert {log.partition for log, _ in shown} == {0, 1, 2}
    assert polled(follower) == []


def test_who_follows_is_told_what_was_trimmed_before_it_was_shown(path: str) -> None:
    place = place_at(path)
    follower = PlaceDump(place, DumpFilter(last=1), False).follow(lambda: place.logs)
    assert len(numbers_in(polled(follower))) == 3
    with open_queue(path, "a", partitions=3) as queue:
        assert isinstance(queue, PartitionedQueue)
        ends = queue.ends()
        queue.append(rows(400, 50))
        queue.trim(before=queue.ends())
        starts = queue.starts()
    shown = polled(follower)
    assert numbers_in(shown) == []
    notes = [row.what for _, row in shown if isinstance(row, NoteRow)]
    gone = [f"records {ends[n]:,} to {starts[n] - 1:,} were trimmed" for n in range(3)]
    assert [note.startswith(what) for note, what in zip(notes, gone, strict=True)] == [True] * 3


def test_who_follows_a_damaged_commit_is_told_so(path: str) -> None:
    place, store = place_at(path), store_at(path)
    follower = PlaceDump(place, DumpFilter(), False).follow(lambda: place.logs)
    polled(follower)
    store.create(commit_object_name(COMMITS), [b"no commit"])
    shown = [*follower]
    assert [type(row) for _, row in shown] == [DamageRow]
    assert shown[0][1].path.endswith(commit_object_name(COMMITS))


def test_rubbish_is_counted_and_no_fault(path: str) -> None:
    store = store_at(path)
    for number in range(3):
        store.create(f"data/dead/{number}/00001-{secrets.randbits(60):020d}.seg", [b"x" * 10])
    (note,) = document(path)["notes"]  # type: ignore[arg-type]
    assert "3 objects of 30 bytes that no commit names" in note["what"]


def test_a_commit_that_does_not_say_what_came_is_no_fault(path: str) -> None:
    store = store_at(path)
    rewrite(store, 4, since=None)
    (note,) = document(path)["notes"]  # type: ignore[arg-type]
    assert note["path"].endswith(commit_object_name(4))
    assert "readers do without" in note["what"]
    assert len(read_queue(path).read_all()) == 400


def rewrite(store: Store, number: int, **changes: Any) -> None:
    """Put a commit of the same number and salt, but for what is changed, in its place."""
    name = commit_object_name(number)
    made = dataclasses.replace(ReferenceObject.decode(store.read(name), name, number), **changes)
    replace(store, name, b"".join(made.encode()))


# -- damage -----------------------------------------------------------------------------------


def lose_segment(store: Store) -> tuple[str, str, int | None]:
    name = segments(store)[5]
    store.delete([name])
    return "segment-missing", name, 0


def flip_body(store: Store) -> tuple[str, str, int | None]:
    name = segments(store)[5]
    row = next(each for each in live(store) if each["file"] == name)
    flip(store, name, row["byte"] + 200)
    return "body-checksum", name, row["byte"]


def flip_header(store: Store) -> tuple[str, str, int | None]:
    name = segments(store)[7]
    row = next(each for each in live(store) if each["file"] == name)
    flip(store, name, row["byte"] + 20)
    return "frame-damaged", name, row["byte"]


def cut_segment(store: Store) -> tuple[str, str, int | None]:
    name = segments(store)[7]
    row = next(each for each in live(store) if each["file"] == name)
    replace(store, name, store.read(name)[: row["byte"] + row["bytes"] - 5])
    return "frame-damaged", name, row["byte"]


def add_bytes(store: Store) -> tuple[str, str, int | None]:
    name = segments(store)[0]
    whole = store.read(name)
    replace(store, name, whole + b"more")
    return "frame-damaged", name, len(whole)


def flip_segment_header(store: Store) -> tuple[str, str, int | None]:
    name = segments(store)[0]
    flip(store, name, 20)
    return "segment-header", name, 0


def swap_segments(store: Store) -> tuple[str, str, int | None]:
    """Two of one size would pass, but for the salts."""
    first, second = segments(store)[:2]
    replace(store, first, store.read(second))
    row = next(each for each in live(store) if each["file"] == first)
    return "frame-damaged", first, row["byte"]


def lose_commit(store: Store) -> tuple[str, str, int | None]:
    store.delete([commit_object_name(6)])
    return "commit-missing", commit_object_name(6), 0


def lose_first_commit(store: Store) -> tuple[str, str, int | None]:
    store.delete([commit_object_name(0)])
    return "commit-missing", commit_object_name(0), 0


def flip_commit(store: Store) -> tuple[str, str, int | None]:
    name = commit_object_name(3)
    flip(store, name, store.size(name) // 2)
    return "commit-damaged", name, None


def foreign_commit(store: Store) -> tuple[str, str, int | None]:
    other = in_memory()
    make(other)
    replace(store, commit_object_name(5), store_at(other).read(commit_object_name(5)))
    return "commit-damaged", commit_object_name(5), 16


def moved_commit(store: Store) -> tuple[str, str, int | None]:
    replace(store, commit_object_name(5), store.read(commit_object_name(6)))
    return "commit-damaged", commit_object_name(5), 0


def flip_since(store: Store) -> tuple[str, str, int | None]:
    name = commit_object_name(8)
    flip(store, name, store.size(name) - 1)
    return "commit-damaged", name, None


def wrong_since(store: Store) -> tuple[str, str, int | None]:
    name = commit_object_name(4)
    since = ReferenceObject.decode(store.read(name), name, 4).since
    assert since is not None
    rewrite(store, 4, since=Since(since.base, since.segments.slice(1)))
    return "commit-record", name, 0


def wrong_claim(store: Store) -> tuple[str, str, int | None]:
    """The newest commit says of a segment other moments than are in it."""
    name = commit_object_name(7)
    found = ReferenceObject.decode(store.read(name), name, 7)
    said = found.segments.to_pylist()
    said[0]["greatest_us"] += 1
    rewrite(store, 7, segments=segments_of(said))
    rewrite(store, 8, since=None)
    return "commit-record", said[0]["file"], said[0]["byte"]


HANDS: list[Hand] = [
    lose_segment, flip_body, flip_header, cut_segment, add_bytes, flip_segment_header,
    swap_segments, lose_commit, lose_first_commit, flip_commit, foreign_commit, moved_commit,
    flip_since, wrong_since, wrong_claim,
]  # fmt: skip


@pytest.mark.parametrize("hand", HANDS)
def test_damage_is_named_with_object_and_byte(path: str, hand: Hand) -> None:
    store = store_at(path)
    kind, name, byte = hand(store)
    after = contents(store)
    found = document(path, status=1)  # type: ignore[arg-type]
    faults = [each for each in found["faults"] if each["path"] == f"{store.url}/{name}"]
    assert kind in {each["kind"] for each in faults}, found["faults"]
    fault = next(each for each in faults if each["kind"] == kind)
    assert byte is None or fault["byte"] == byte
    assert contents(store) == after
    assert run("verify", path).exit_code == 1


@pytest.mark.parametrize("hand", [lose_segment, flip_body, flip_header, cut_segment])
def test_who_reads_is_refused_and_a_dump_goes_on(path: str, hand: Hand) -> None:
    store = store_at(path)
    _, name, _ = hand(store)
    with pytest.raises(CorruptLog, match=name):
        read_queue(path).read_all()
    done = run("dump", path, "--json")
    assert done.exit_code == 1
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    lost = [line for line in lines if line["row"] == "damage"]
    assert {line["path"] for line in lost} == {f"{store.url}/{name}"}
    shown = sum(line["row"] == "record" for line in lines)
    assert 350 <= shown < 400


def test_a_queue_that_cannot_be_opened_is_damaged_in_every_verb(path: str) -> None:
    store = store_at(path)
    flip(store, commit_object_name(8), 300)
    for verb in ("extent", "report", "consumers", "dump", "replay"):
        done = run(verb, path, *(["--json"] if verb != "replay" else []))
        assert done.exit_code == 1, (verb, done.output)
        assert f"{store.url}/log/" in done.output
    found = document(path, status=1)  # type: ignore[arg-type]
    assert {each["kind"] for each in found["faults"]} == {"commit-damaged"}


# -- what a commit may say --------------------------------------------------------------------


def test_a_commit_that_does_not_follow_is_a_fault() -> None:
    path = in_memory()
    make(path)
    store = store_at(path)
    both = [ReferenceObject.decode(store.read(commit_object_name(n)), "", n) for n in (3, 4)]
    before, after = both[0].commit, both[1]
    assert what_does_not_follow(before, after) == ""
    said = after.segments.to_pylist()

    def told(*rows: dict[str, Any], **changes: Any) -> str:
        commit = dataclasses.replace(after.commit, **changes)
        return what_does_not_follow(
            before, ReferenceObject(4, after.log_id, commit, segments_of(rows or said), 5)
        )

    ends = after.commit.ends
    assert "ends at" in told(ends=(ends[0] + 1, *ends[1:]))
    assert "partitions, where there were 3" in told(ends=ends[:2], starts=(0, 0))
    assert "does not start where" in told(starts=(1, 0, 0))
    assert "where" in told({**said[0], "first_offset": said[0]["first_offset"] + 1}, *said[1:])
    assert "takes segments away" in told(*said, {**said[0], "removed": True})
    assert "neither an append nor a merge" in told(operation=Operation.SET)
    assert "more or fewer records" in told(operation=Operation.MERGE)
    with_query = dataclasses.replace(before, queries={"q": 3})
    assert "is forgotten" in what_does_not_follow(with_query, after)


# -- consumers --------------------------------------------------------------------------------


def test_a_commit_that_is_made_meanwhile_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a local queue had is written in its mark, which is read after the commits."""
    make(tmp_path / "q")
    queue = open_queue(tmp_path / "q", "a", partitions=3)
    check_mark = CommitChecks._check_mark

    def later(checks: CommitChecks, number: int) -> None:
        queue.append(rows(400, 50))
        check_mark(checks, number)

    monkeypatch.setattr(CommitChecks, "_check_mark", later)
    assert document(tmp_path / "q")["faults"] == []


def test_consumers_are_listed_and_damage_to_what_they_say_is_named(path: str) -> None:
    with open_queue(path, "a", partitions=3) as queue:
        assert isinstance(queue, PartitionedQueue)
        ends = queue.ends()
        consumer = queue.consumer("hourly")
        consumer.acknowledge(received=ends, effects_saved={0: ends[0], 1: 5, 2: 0})
        queue.append(rows(400, 50))
    found = json.loads(run("consumers", path, "--json").stdout)
    check("consumers", found)
    assert [(each["name"], each["lag_records"]) for each in found["consumers"]] == [("hourly", 50)]
    saved = [log["consumers"][0]["effects_saved"] for log in found["logs"]]
    assert saved == [ends[0], 5, 0]
    report = json.loads(run("report", path, "--json").stdout)
    assert [each["name"] for each in report["consumers"]] == ["hourly"]
    assert document(path)["faults"] == []  # type: ignore[arg-type]
    store = store_at(path)
    name = max(name for name in contents(store) if name.startswith("consumers/"))
    flip(store, name, 70)
    (fault,) = document(path, status=1)["faults"]  # type: ignore[arg-type]
    assert (fault["kind"], fault["path"]) == ("consumer-damaged", f"{store.url}/{name}")
    assert run("consumers", path).exit_code == 1


def test_a_trim_is_planned_and_then_one_commit(path: str) -> None:
    store = store_at(path)
    before = contents(store)
    asked = ["trim", path, "--before", "1970-01-01T00:03:20Z", "--json"]
    planned = json.loads(run(*asked).stdout)
    check("trim", planned)
    assert planned["totals"]["segments"] > 3
    assert planned["totals"]["records"] == 200
    assert contents(store) == before
    done = json.loads(run(*asked, "--yes").stdout)
    assert (done["done"], done["totals"]) == (True, planned["totals"])
    assert sorted(read_queue(path).read_all()["n"].to_pylist()) == list(range(200, 400))
    assert commit_object_name(COMMITS) in contents(store)
    assert document(path)["faults"] == []  # type: ignore[arg-type]
    assert run("trim", path, "--before", "@5").exit_code == 2
    assert json.loads(run("trim", path, "--keep", "1B", "--json").stdout)["totals"]["records"] > 0


def test_a_consumer_is_added_and_dropped(path: str) -> None:
    store = store_at(path)
    before = contents(store)
    planned = json.loads(run("consumers", path, "--add", "hourly", "--json").stdout)
    assert contents(store) == before
    assert "would register consumer 'hourly'" in run("consumers", path, "--add", "hourly").stdout
    added = json.loads(run("consumers", path, "--add", "hourly", "--yes", "--json").stdout)
    check("consumers", added)
    assert added == {**planned, "done": True}
    listed = run("consumers", path).stdout
    assert "never" in listed
    assert "1970" not in listed
    assert (added["added"], [log["effects_saved"] for log in added["logs"]]) == ("hourly", [0] * 3)
    with open_queue(path, "a", partitions=3) as queue:
        assert isinstance(queue, PartitionedQueue)
        hourly = queue.consumer("hourly")
        hourly.acknowledge(effects_saved={1: 5})
        again = json.loads(run("consumers", path, "--add", "hourly", "--json").stdout)
        assert [log["effects_saved"] for log in again["logs"]] == [0, 5, 0]
        hourly.acknowledge(effects_saved={1: 6})  # which is not fenced by that
    before = contents(store)
    planned = json.loads(run("consumers", path, "--drop", "hourly", "--json").stdout)
    check("consumers", planned)
    assert contents(store) == before
    assert [log["effects_saved"] for log in planned["logs"]] == [0, 6, 0]
    # The newest acknowledgement stays, by which the next one of this name knows where to begin.
    assert (planned["logs"][0]["files"], planned["totals"]["bytes"]) == ([], 0)
    said = run("consumers", path, "--drop", "hourly").stdout
    assert "would drop consumer 'hourly' (0 files, 0 bytes)" in said
    done = json.loads(run("consumers", path, "--drop", "hourly", "--yes", "--json").stdout)
    assert done == {**planned, "done": True}
    assert run("consumers", path, "--drop", "hourly").exit_code == 2
    assert document(path)["faults"] == []  # type: ignore[arg-type]


def test_a_consumer_whose_object_is_damaged_is_dropped(path: str) -> None:
    store = store_at(path)
    with open_queue(path, "a", partitions=3) as queue:
        assert isinstance(queue, PartitionedQueue)
        queue.consumer("hourly")
    name = max(name for name in contents(store) if name.startswith("consumers/"))
    flip(store, name, 70)
    assert run("consumers", path, "--add", "hourly").exit_code == 1
    planned = json.loads(run("consumers", path, "--drop", "hourly", "--json").stdout)
    assert [log["effects_saved"] for log in planned["logs"]] == [None] * 3
    assert run("consumers", path, "--drop", "hourly", "--yes").exit_code == 0
    assert document(path)["faults"] == []  # type: ignore[arg-type]


def test_a_consumer_that_comes_too_late_is_not_added(path: str) -> None:
    assert run("consumers", path, "--add", "hourly", "--yes").exit_code == 0
    with open_queue(path, "a", partitions=3, clock_us=lambda: 10**18) as queue:
        queue.trim()  # as its retention says, which waits for nobody
    said = run("consumers", path, "--add", "hourly")
    assert (said.exit_code, "hourly" in said.stderr) == (2, True)


def test_a_retention_is_planned_and_then_set(path: str) -> None:
    store = store_at(path)
    before = contents(store)
    planned = json.loads(run("consumers", path, "--retention", "1B", "--json").stdout)
    check("consumers", planned)
    assert contents(store) == before
    assert (planned["before"], planned["retention"], planned["done"]) == ("7d", "1B", False)
    assert planned["totals"]["segments"] > 3
    assert "one of its next commits" in run("consumers", path, "--retention", "1B").stdout
    done = json.loads(run("consumers", path, "--retention", "1B", "--yes", "--json").stdout)
    assert done == {**planned, "done": True}
    with open_queue(path, "a", partitions=3) as queue:
        assert isinstance(queue, PartitionedQueue)
        assert str(queue.retention) == "1B"
        queue.trim()
        assert sum(queue.starts().values()) > 0
    assert json.loads(run("consumers", path, "--json").stdout)["retention"] == "1B"
    assert document(path)["faults"] == []  # type: ignore[arg-type]
